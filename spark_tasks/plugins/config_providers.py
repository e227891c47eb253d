"""Values that live outside a configuration: `${provider:path:key}` (KIP-297, KIP-421).

A provider is declared by `config.providers=a,b`, `config.providers.a.class=…` and `config.providers.a.param.…=…` in
the worker's properties. A placeholder is replaced where its value is used; the config topic, the REST API and the log
keep the placeholder.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from typing_extensions import override

from spark_tasks.config.masking import process_secrets
from spark_tasks.errors import ConfigError

log = logging.getLogger(__name__)
_PLACEHOLDER = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."


@dataclass(frozen=True, slots=True)
class ConfigData:
    """What a provider found. `ttl_ms`: how long the values are valid; None: without limit."""

    data: Mapping[str, str]
    ttl_ms: int | None = None


class ConfigProvider(ABC):
    """Looks values up. `configure` is called once, first; `get` may be called from any thread."""

    aliases: ClassVar[tuple[str, ...]] = ()  # Java class names that mean this provider
    name: str = ""  # its name in config.providers; set before `configure`

    def configure(self, settings: Mapping[str, str]) -> None:  # noqa: B027 - a provider without settings is usual
        """Take the settings under `config.providers.<name>.param.`. Raises ConfigError."""

    @abstractmethod
    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """The values of these keys, or of all keys, at the path ("" for none); unknown keys are left out.

        Raises ConfigError if the path cannot be read.
        """

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release what `configure` opened."""


class _AllowedPaths:
    """`allowed.paths`: absolute folders and files, separated by commas, that a provider may read below."""

    def __init__(self, setting: str | None) -> None:
        self._allowed: list[Path] | None = None
        if setting:
            self._allowed = [Path(os.path.normpath(part.strip())) for part in setting.split(",")]
            for path in self._allowed:
                if not path.is_absolute() or not path.exists():
                    why = "does not exist" if path.is_absolute() else "is not absolute"
                    raise ConfigError(f"Invalid value {setting} for configuration allowed.paths: {path} {why}")

    def check(self, path: str) -> Path | None:
        """The path to read, None if it is not allowed. `..` is resolved first; links are followed, as in Java."""
        if self._allowed is None:
            return Path(path)
        plain = Path(os.path.normpath(path))
        if any(plain.is_relative_to(allowed) for allowed in self._allowed):
            return plain
        log.warning("The path %s is not allowed to be accessed", path)
        return None


class _PathConfigProvider(ConfigProvider):
    """A provider that reads below the paths in `allowed.paths`, or anywhere if that is not set."""

    def __init__(self) -> None:
        self._paths = _AllowedPaths(None)

    @override
    def configure(self, settings: Mapping[str, str]) -> None:
        self._paths = _AllowedPaths(settings.get("allowed.paths"))


class FileConfigProvider(_PathConfigProvider):
    """Keys of a Java .properties file: `${file:/etc/secrets.properties:password}`."""

    aliases = (f"{_JAVA_PACKAGE}FileConfigProvider",)

    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """The file's keys; none for an empty path or one that is not allowed."""
        import javaproperties  # noqa: PLC0415 - loaded only if this provider is used

        file = self._paths.check(path) if path else None
        if file is None:
            return ConfigData({})
        try:
            with file.open(encoding="utf-8") as opened:
                found: dict[str, str] = javaproperties.load(opened)
        except (OSError, ValueError) as error:
            raise ConfigError(f"Could not read properties from file {path}: {error}") from error
        return ConfigData({k: v for k, v in found.items() if keys is None or k in keys})


class DirectoryConfigProvider(_PathConfigProvider):
    """Files of a folder, each a value, as Kubernetes mounts secrets: `${dir:/mnt/secrets:password}`."""

    aliases = (f"{_JAVA_PACKAGE}DirectoryConfigProvider",)

    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """The content of the folder's regular files, unchanged (a final newline belongs to the value)."""
        folder = self._paths.check(path) if path else None
        if folder is None:
            return ConfigData({})
        if not folder.is_dir():
            log.warning("The path %s is not a directory", path)
            return ConfigData({})
        try:
            files = [f for f in folder.iterdir() if (keys is None or f.name in keys) and f.is_file()]
            return ConfigData({f.name: f.read_bytes().decode() for f in files})
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Could not read the files of directory {path}: {error}") from error


class EnvVarConfigProvider(ConfigProvider):
    """Environment variables, as they were when the worker started: `${env:PASSWORD}`."""

    aliases = (f"{_JAVA_PACKAGE}EnvVarConfigProvider",)

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._variables = dict(os.environ if environment is None else environment)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take `allowlist.pattern`, a regular expression that names have to match as a whole."""
        pattern = settings.get("allowlist.pattern")
        if pattern is None:
            return
        try:
            allowed = re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"Invalid value {pattern} for configuration allowlist.pattern: not a regular expression ({error})"
            ) from error
        self._variables = {k: v for k, v in self._variables.items() if allowed.fullmatch(k)}

    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """The allowed variables; `path` must be empty."""
        if path:
            raise ConfigError(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        return ConfigData({k: v for k, v in self._variables.items() if keys is None or k in keys})


BUILT_IN: Mapping[str, type[ConfigProvider]] = {
    name: cls
    for cls in (FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider)
    for name in (*cls.aliases, cls.__name__, cls.__name__.removesuffix("ConfigProvider"), f"{__name__}.{cls.__name__}")
}


class ResolvedConfig(dict[str, str]):
    """A configuration with its placeholders replaced. `given`: the providers' values in each key's value;
    `placeholders`: the placeholder of each such value.
    """

    given: Mapping[str, Sequence[str]] = MappingProxyType({})
    placeholders: Mapping[str, str] = MappingProxyType({})


def _hide(connector: str | None, given: Mapping[str, Sequence[str]]) -> None:
    process_secrets().learn(connector, itertools.chain.from_iterable(given.values()))


@dataclass(frozen=True, slots=True)
class ConfigTransformer:
    """Replaces placeholders. `on_ttl(name, path, ttl_ms)` is called for values of connector `name` that expire;
    `on_values(name, given)` gets all values, by default to hide them in the worker's log.
    """

    providers: Mapping[str, ConfigProvider]
    on_ttl: Callable[[str, str, int], None] | None = None
    on_values: Callable[[str | None, Mapping[str, Sequence[str]]], None] = _hide

    def transform(self, config: Mapping[str, str], connector: str | None = None) -> ResolvedConfig:
        """The configuration with the providers' values; placeholders of unknown providers or keys stay as they are.

        Each path is read once. With `config.action.reload=none` in the configuration, or without a connector's name,
        `on_ttl` is not called. Raises ConfigError if a provider cannot read a path.
        """
        wanted: dict[tuple[str, str], set[str]] = {}
        for value in config.values():
            for match in _PLACEHOLDER.finditer(value or ""):
                if match[1] in self.providers:
                    wanted.setdefault((match[1], match[3] or ""), set()).add(match[4])
        if not wanted:
            return ResolvedConfig(config)
        found = {(name, path): self.providers[name].get(path, keys) for (name, path), keys in wanted.items()}

        given: dict[str, list[str]] = {}
        placeholders: dict[str, str] = {}

        def replacement(key: str, match: re.Match[str]) -> str:
            known = found.get((match[1], match[3] or ""))
            if known is None or match[4] not in known.data:
                return match[0]
            value = known.data[match[4]]
            given.setdefault(key, []).append(value)
            placeholders[value] = match[0]
            return value

        data = ResolvedConfig({
            k: v if v is None else _PLACEHOLDER.sub(partial(replacement, k), v) for k, v in config.items()
        })
        data.given, data.placeholders = given, placeholders
        self.on_values(connector, given)
        if connector is not None and self.on_ttl and config.get("config.action.reload", "restart").lower() != "none":
            for (_, path), known in found.items():
                if known.ttl_ms is not None and known.ttl_ms >= 0:
                    self.on_ttl(connector, path, known.ttl_ms)
        return data


def load_providers(
    props: Mapping[str, str], find: Callable[[str], type[ConfigProvider]]
) -> dict[str, ConfigProvider]:
    """The providers that `config.providers` declares, by name, configured. `find` returns the class of a class name.
    Raises ConfigError.
    """
    providers: dict[str, ConfigProvider] = {}
    for name, wanted in classes_of_providers(props).items():
        provider = find(wanted)()
        provider.name = name
        prefix = f"config.providers.{name}.param."
        provider.configure({k.removeprefix(prefix): v for k, v in props.items() if k.startswith(prefix)})
        providers[name] = provider
    return providers


def classes_of_providers(props: Mapping[str, str]) -> dict[str, str]:
    """The class names that `config.providers` declares, by provider. Raises ConfigError for a provider without one."""
    classes: dict[str, str] = {}
    for name in filter(None, (part.strip() for part in props.get("config.providers", "").split(","))):
        key = f"config.providers.{name}.class"
        classes[name] = props.get(key, "").strip()
        if not classes[name]:
            raise ConfigError(f'Missing required configuration "{key}" of the provider in config.providers.')
    return classes
