"""The config providers in a worker's file: built-in ones, Python plugins, and classes in the jars of plugin.path."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from heeler.java_host.runtime import JavaRuntime
from heeler.java_host.settings import PREFER, JavaHostSettings
from heeler.worker.keys.worker import HOST_KEYS, LOG_LEVEL, WORKER_KEYS
from spark_tasks.config.definition import ConfigDef
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.plugins import Kind, Plugins
from spark_tasks.plugins.config_providers import (
    BUILT_IN,
    ConfigProvider,
    ConfigTransformer,
    classes_of_providers,
    load_providers,
)

_logger = logging.getLogger(__name__)
CLOSE_S: Final = 2.0
_PATH: Final = "plugin.path"
_KEYS: Final = ConfigDef(WORKER_KEYS.keys[_PATH], WORKER_KEYS.keys[PREFER])

OnValues = Callable[[str | None, Mapping[str, Sequence[str]]], None]


def configured(props: Mapping[str, str], on_values: OnValues) -> tuple[dict[str, ConfigProvider], JavaRuntime | None]:
    """The providers by name, and the runtime of Java plugins if one of the providers needs it (else None). The Python
    providers replace placeholders in `java.plugins.*`. `on_values`: see ConfigTransformer. Raises ConfigError.
    """
    classes = classes_of_providers(props)
    if not classes:
        return {}, None
    settings = _KEYS.parse(props)
    path, prefer = settings[_PATH] or (), settings[PREFER]
    python = {name: cls for name, wanted in classes.items() if (cls := _python(wanted, path, prefer)) is not None}
    providers = load_providers(_only(props, python), {classes[name]: cls for name, cls in python.items()}.__getitem__)
    if len(providers) == len(classes):
        return providers, None
    given = ConfigTransformer(providers, on_values=on_values).transform(props)
    levels = {key.removeprefix(LOG_LEVEL): level for key, level in given.items() if key.startswith(LOG_LEVEL)}
    java = JavaRuntime(JavaHostSettings.of(HOST_KEYS.parse(given), levels), path)  # before all else can be parsed
    try:
        plugins = Plugins(path, others=java.found, complaints=java.complaints, quiet=True)
        in_jars = load_providers(_only(props, classes.keys() - python), lambda name: _java(name, plugins))
    except BaseException:
        java.close()
        raise
    return {name: (providers | in_jars)[name] for name in classes}, java


def _only(props: Mapping[str, str], names: Iterable[str]) -> Mapping[str, str]:
    return {**props, "config.providers": ",".join(sorted(names))}


def _python(name: str, path: Sequence[str], prefer: Sequence[str]) -> type[ConfigProvider] | None:
    """The Python class of a provider; None if the provider has to be looked for in jars."""
    if name in prefer:
        return None
    return BUILT_IN.get(name) or _found(name, Plugins(path, quiet=True))


def _java(name: str, plugins: Plugins) -> type[ConfigProvider]:
    cls = _found(name, plugins) or BUILT_IN.get(name)
    if cls is not None:
        return cls
    try:
        return plugins.config_provider(name)
    except ConnectError as error:
        raise _wrong(name, error) from error


def _found(name: str, plugins: Plugins) -> type[ConfigProvider] | None:
    try:
        plugin = plugins.get(Kind.CONFIG_PROVIDER, name)
    except ConnectError as error:
        raise _wrong(name, error) from error
    return plugin.cls if plugin is not None else None


def _wrong(name: str, error: ConnectError) -> ConfigError:
    return ConfigError(f"Invalid value {name} for the class of a config provider: {error}")


def close_providers(providers: Mapping[str, ConfigProvider]) -> None:
    """Closes all providers concurrently. One that hangs is abandoned."""
    threads = [threading.Thread(target=_close, args=one, name=f"close-{one[0]}", daemon=True)
               for one in providers.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(CLOSE_S)


def _close(name: str, provider: ConfigProvider) -> None:
    try:
        provider.close()
    except Exception:
        _logger.exception("Could not close the config provider %s", name)
