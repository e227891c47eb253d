"""Config providers, which store values outside of configurations: `${provider:path:key}` (KIP-297, KIP-421).

The worker's properties declare providers with `config.providers=a,b`, `config.providers.a.class=…` and
`config.providers.a.param.…=…`. A placeholder is replaced only where its value is used; the config topic, the REST API
and the log have the placeholder.
"""

from __future__ import annotations

import io
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
from spark_tasks.process.bounded_read import read_settings_file

_logger = logging.getLogger(__name__)
# ${provider:key} or ${provider:path:key}. Anything else matches without groups, up to its }, or each ${ in it
# would be searched again.
_PLACEHOLDER = re.compile(r"\$\{(?:([^}:]*+):(?:([^}:]*+):)?([^}]*+)\}|[^}]*+)")
_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."


@dataclass(frozen=True, slots=True)
class ConfigData:
    """Values by key. `ttl_ms`: how long they are valid; None means without limit."""

    data: Mapping[str, str]
    ttl_ms: int | None = None


class ConfigProvider(ABC):
    """Provides values. The worker calls `configure` once, then `get` on any thread."""

    aliases: ClassVar[tuple[str, ...]] = ()  # Java class names that refer to this provider
    name: str = ""  # the provider's name in config.providers; set before `configure`

    def configure(self, settings: Mapping[str, str]) -> None:  # noqa: B027 - many providers have no settings
        """Applies the settings below `config.providers.<name>.param.`. Raises ConfigError."""

    @abstractmethod
    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """Returns the values of `keys`, by default of all keys, at the path ("" if the placeholder has none). Omits
        unknown keys. Raises ConfigError if the path cannot be read.
        """

    def close(self) -> None:  # noqa: B027 - most providers have no resources
        """Releases the resources of the provider."""


class _AllowedPaths:
    """The setting `allowed.paths` of a provider: absolute paths, separated by commas, of the files and folders that it
    may read. Without it, a provider may read all files.
    """

    def __init__(self, setting: str | None) -> None:
        self._allowed: list[Path] | None = None
        if setting:
            self._allowed = [Path(os.path.normpath(part.strip())) for part in setting.split(",")]
            for path in self._allowed:
                if not path.is_absolute() or not path.exists():
                    why = "does not exist" if path.is_absolute() else "is not absolute"
                    raise ConfigError(f"Invalid value {setting} for configuration allowed.paths: {path} {why}")

    def check(self, path: str) -> Path | None:
        """Returns the path to read, or None if it is not allowed. Resolves `..` first and follows links, as in Java."""
        if self._allowed is None:
            return Path(path)
        plain = Path(os.path.normpath(path))
        if any(plain.is_relative_to(allowed) for allowed in self._allowed):
            return plain
        _logger.warning("The path %s is not in allowed.paths of its config provider, so nothing is read from it", path)
        return None


class _PathConfigProvider(ConfigProvider):
    """A provider with the setting `allowed.paths`."""

    def __init__(self) -> None:
        self._paths = _AllowedPaths(None)

    @override
    def configure(self, settings: Mapping[str, str]) -> None:
        self._paths = _AllowedPaths(settings.get("allowed.paths"))


class FileConfigProvider(_PathConfigProvider):
    """Provides the values of a Java .properties file: `${file:/etc/secrets.properties:password}`."""

    aliases = (f"{_JAVA_PACKAGE}FileConfigProvider",)

    @override
    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """Returns values of the file; none for an empty path, or for a path that is not allowed."""
        import javaproperties  # noqa: PLC0415 - loaded only if this provider is used

        file = self._paths.check(path) if path else None
        if file is None:
            return ConfigData({})
        try:
            with io.TextIOWrapper(io.BytesIO(read_settings_file(file)), encoding="utf-8") as text:
                properties: dict[str, str] = javaproperties.load(text)
        except (OSError, ValueError) as error:
            raise ConfigError(f"Could not read properties from file {path}: {error}") from error
        return ConfigData({k: v for k, v in properties.items() if keys is None or k in keys})


class DirectoryConfigProvider(_PathConfigProvider):
    """Provides the contents of the files in a folder, as in a mounted Kubernetes secret:
    `${dir:/mnt/secrets:password}`.
    """

    aliases = (f"{_JAVA_PACKAGE}DirectoryConfigProvider",)

    @override
    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """Returns the unchanged contents of the folder's regular files. (A final newline is part of the value.)"""
        folder = self._paths.check(path) if path else None
        if folder is None:
            return ConfigData({})
        if not folder.is_dir():
            _logger.warning("The path %s is not a directory", path)
            return ConfigData({})
        try:
            files = [f for f in folder.iterdir() if (keys is None or f.name in keys) and f.is_file()]
            return ConfigData({f.name: read_settings_file(f).decode() for f in files})
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Could not read the files of directory {path}: {error}") from error


class EnvVarConfigProvider(ConfigProvider):
    """Provides environment variables, as they are when the worker starts: `${env:PASSWORD}`."""

    aliases = (f"{_JAVA_PACKAGE}EnvVarConfigProvider",)

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._variables = dict(os.environ if environment is None else environment)

    @override
    def configure(self, settings: Mapping[str, str]) -> None:
        """Applies `allowlist.pattern`, a regular expression that must match the whole name of a variable."""
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

    @override
    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """Returns allowed variables. `path` must be empty."""
        if path:
            raise ConfigError(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        return ConfigData({k: v for k, v in self._variables.items() if keys is None or k in keys})


BUILT_IN: Mapping[str, type[ConfigProvider]] = {
    name: cls
    for cls in (FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider)
    for name in (*cls.aliases, cls.__name__, cls.__name__.removesuffix("ConfigProvider"), f"{__name__}.{cls.__name__}")
}


def has_placeholder(value: str) -> bool:
    """Returns whether a value contains a placeholder."""
    return any(match[1] is not None for match in _PLACEHOLDER.finditer(value))


class ResolvedConfig(dict[str, str]):
    """A configuration whose placeholders are replaced. `given`: for each key the values of providers that its value
    contains; `placeholders`: the placeholder of each of these values.
    """

    given: Mapping[str, Sequence[str]] = MappingProxyType({})
    placeholders: Mapping[str, str] = MappingProxyType({})


def _hide(connector: str | None, given: Mapping[str, Sequence[str]]) -> None:
    process_secrets().add(connector, itertools.chain.from_iterable(given.values()))


@dataclass(frozen=True, slots=True)
class ConfigTransformer:
    """Replaces placeholders. `on_ttl(name, path, ttl_ms)` is called if values of connector `name` expire.
    `on_values(name, given)` is called with all values; by default they are then hidden in this process's log.
    """

    providers: Mapping[str, ConfigProvider]
    on_ttl: Callable[[str, str, int], None] | None = None
    on_values: Callable[[str | None, Mapping[str, Sequence[str]]], None] = _hide

    def transform(self, config: Mapping[str, str], connector: str | None = None) -> ResolvedConfig:
        """Returns the configuration with the providers' values. Placeholders of unknown providers or keys stay
        unchanged.

        Reads each path once. Does not call `on_ttl` if the configuration has `config.action.reload=none`, or without
        the name of a connector. Raises ConfigError if a provider cannot read a path.
        """
        wanted: dict[tuple[str, str], set[str]] = {}
        for value in config.values():
            for match in _PLACEHOLDER.finditer(value or ""):
                if match[1] in self.providers:
                    wanted.setdefault((match[1], match[2] or ""), set()).add(match[3])
        if not wanted:
            return ResolvedConfig(config)
        results = {(name, path): self._look_up(name, path, keys) for (name, path), keys in wanted.items()}

        values_by_key: dict[str, list[str]] = {}
        placeholders: dict[str, str] = {}

        def replacement(key: str, match: re.Match[str]) -> str:
            result = results.get((match[1], match[2] or ""))
            value = None if result is None else result.data.get(match[3])
            if value is None:
                return match[0]
            values_by_key.setdefault(key, []).append(value)
            placeholders[value] = match[0]
            return value

        data = ResolvedConfig({
            k: v if v is None else _PLACEHOLDER.sub(partial(replacement, k), v) for k, v in config.items()
        })
        data.given, data.placeholders = values_by_key, placeholders
        self.on_values(connector, values_by_key)
        if connector is not None and self.on_ttl and config.get("config.action.reload", "restart").lower() != "none":
            for (_, path), result in results.items():
                if result.ttl_ms is not None and result.ttl_ms >= 0:
                    self.on_ttl(connector, path, result.ttl_ms)
        return data

    def _look_up(self, name: str, path: str, keys: Collection[str]) -> ConfigData:
        result: object = self.providers[name].get(path, keys)
        if not isinstance(result, ConfigData):
            raise ConfigError(f"The config provider {name} must return ConfigData for path '{path}', not "
                              f"{type(result).__name__}")
        for key in keys:
            value: object = result.data.get(key)
            if value is not None and not isinstance(value, str):  # null: as if it did not know the key
                raise ConfigError(f"The config provider {name} must return a string for key {key} of path '{path}', "
                                  f"not {type(value).__name__}")
        return result


def load_providers(
    props: Mapping[str, str], find: Callable[[str], type[ConfigProvider]]
) -> dict[str, ConfigProvider]:
    """Creates and configures the providers that `config.providers` declares, and returns them by name. `find` returns
    the class of a class name. Raises ConfigError.
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
    """Returns the class names of the providers that `config.providers` declares. Raises ConfigError for a provider
    without a class.
    """
    classes: dict[str, str] = {}
    for name in filter(None, (part.strip() for part in props.get("config.providers", "").split(","))):
        key = f"config.providers.{name}.class"
        classes[name] = props.get(key, "").strip()
        if not classes[name]:
            raise ConfigError(f'Missing required configuration "{key}" of the provider in config.providers.')
    return classes
