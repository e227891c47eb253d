"""Creates the stages of a pipeline from the configurations of worker and connector, once per process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from spark_tasks.errors import ConfigError
from spark_tasks.pipeline.converters.base import Converter, HeaderConverter
from spark_tasks.pipeline.transforms.chain import Chain, make_chain
from spark_tasks.pipeline.transforms.header_values import SIMPLE_HEADER_CONVERTER, HeaderWriter
from spark_tasks.plugins import Kind, Plugins

Properties = tuple[tuple[str, str], ...]
_MAX_STAGES = 64  # in the cache of a process; one for each task configuration


@dataclass(frozen=True, slots=True)
class Stages:
    """The converters and transforms of a pipeline. `names`: the converters' class names, as in REST."""

    key: Converter
    value: Converter
    header: HeaderConverter
    chain: Chain
    names: Mapping[str, str]


class _Setting(NamedTuple):
    """The class and the properties of a converter."""

    name: str
    properties: dict[str, str]


def _setting(part: str, worker: Mapping[str, str], connector: Mapping[str, str], default: str | None) -> _Setting:
    """Returns the connector's own converter with the connector's properties, or else the worker's with the worker's."""
    key = f"{part}.converter"
    for properties in (connector, worker):
        if properties.get(key):
            prefix = key + "."
            own_properties = {k.removeprefix(prefix): v for k, v in properties.items() if k.startswith(prefix)}
            return _Setting(properties[key], own_properties)
    if default is None:
        raise ConfigError(f'Missing required configuration "{key}" which has no default value.')
    return _Setting(default, {})


def made_stages(worker: Properties, connector: Properties, *, sink: bool) -> Stages:
    """Returns the stages for these sorted properties; cached. Raises ConfigError, PluginNotFoundError."""
    with _lock(worker, connector, sink):  # so that only one of a connector's threads creates them
        return _stages(worker, connector, sink)


@lru_cache(maxsize=_MAX_STAGES)
def _lock(worker: Properties, connector: Properties, sink: bool) -> Lock:  # noqa: ARG001 - the cache's key
    """Of one configuration only: plugins may hang while they are imported or configured."""
    return Lock()


@lru_cache(maxsize=_MAX_STAGES)
def _stages(worker: Properties, connector: Properties, sink: bool) -> Stages:
    return _make_stages(dict(worker), dict(connector), sink=sink)


@lru_cache(maxsize=4)
def _plugins(plugin_path: str) -> Plugins:
    return Plugins(plugin_path, quiet=True)


def _make_stages(worker: Mapping[str, str], connector: Mapping[str, str], *, sink: bool) -> Stages:
    plugins = _plugins(worker.get("plugin.path", ""))
    converters, names = [], {}
    for part in ("key", "value"):
        name, properties = _setting(part, worker, connector, None)
        plugin = plugins.find(Kind.CONVERTER, name, properties.pop("plugin.version", None))
        converter: Converter = plugin.cls()
        converter.configure(properties, is_key=part == "key")
        converters.append(converter)
        names[part] = plugin.name
    name, properties = _setting("header", worker, connector, SIMPLE_HEADER_CONVERTER)
    plugin = plugins.find(Kind.HEADER_CONVERTER, name, properties.pop("plugin.version", None))
    header: HeaderConverter = plugin.cls()
    header.configure(properties)
    names["header"] = plugin.name
    chain = make_chain(plugins, connector, HeaderWriter(header, names["header"], sink=sink))
    return Stages(converters[0], converters[1], header, chain, names)


class ConfiguredPipeline:
    """Has the configuration, and creates the stages on first use. `of_sink`: whether its records go to a sink."""

    of_sink: ClassVar[bool]

    def __init__(self, worker: Mapping[str, str], connector: Mapping[str, str]) -> None:
        wanted = ("key.converter", "value.converter", "header.converter", "plugin.path")
        self._worker = {name: str(value) for name, value in worker.items() if name.startswith(wanted)}
        self._connector = {name: str(value) for name, value in connector.items()}
        self._stages: Stages | None = None

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_stages": None}

    @property
    def stages(self) -> Stages:
        """Converters and transforms, created once per process and configuration. Raises ConfigError,
        PluginNotFoundError.
        """
        # No cached_property, which has one lock for all instances (until Python 3.12).
        if self._stages is None:
            self._stages = made_stages(*self.key, sink=self.of_sink)
        return self._stages

    @property
    def key(self) -> tuple[Properties, Properties]:
        """The configuration. Pipelines with equal ones do the same."""
        return tuple(sorted(self._worker.items())), tuple(sorted(self._connector.items()))
