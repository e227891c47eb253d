"""The kinds of plugins, and descriptions of plugins."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from spark_tasks.errors import ConnectError

UNDEFINED = "undefined"  # Java's text for a plugin without a version


class Kind(Enum):
    """A kind of plugin. The value is the group of its entry points."""

    CONNECTOR = "heeler.connectors"
    TRANSFORMATION = "heeler.transforms"
    PREDICATE = "heeler.predicates"
    CONVERTER = "heeler.converters"
    HEADER_CONVERTER = "heeler.header_converters"
    CONFIG_PROVIDER = "heeler.config_providers"
    DATA_SOURCE = "heeler.data_sources"  # of PySpark, for the connectors pyspark-source and pyspark-sink

    @property
    def interface(self) -> str:
        """The name of the interface that plugins of this kind implement, as in Kafka Connect's error messages."""
        return self.name.title().replace("_", "")


class PluginNotFoundError(ConnectError):
    """No plugin or several plugins have the name, or the plugin cannot be imported."""

    permanent = True


class PluginVersionError(PluginNotFoundError):
    """The plugin is not available in the required version (KIP-891)."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A plugin that is not used because the other runtime has one with this class name. `runtime`: java or heeler."""

    runtime: str
    version: str | None
    location: str


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """The description of a plugin for REST. `kind`: source, sink, converter, header_converter, transformation or
    predicate. `passed_over`: the plugins with the same class name that are not used.
    """

    class_name: str
    kind: str
    version: str | None  # None if the plugin has none
    location: str
    passed_over: tuple[PassedOver, ...] = ()

    @property
    def runtime(self) -> str | None:
        """The runtime of the plugin, heeler or java, if both have one; else None."""
        return {"java": "heeler", "heeler": "java"}[self.passed_over[0].runtime] if self.passed_over else None


@dataclass(frozen=True, slots=True)
class Plugin:
    """An imported plugin."""

    name: str  # the class name that REST shows
    kind: Kind
    cls: type[Any]
    location: str

    @property
    def version(self) -> str:
        """The plugin's version; UNDEFINED if it has none."""
        return str(getattr(self.cls, "version", None) or UNDEFINED)

    @property
    def info(self) -> PluginInfo:
        """The description for REST."""
        return PluginInfo(self.name, self.type, None if self.version == UNDEFINED else self.version, self.location)

    @property
    def type(self) -> str:
        """The plugin's type in REST: source or sink for connectors, otherwise the kind."""
        if self.kind is not Kind.CONNECTOR:
            return self.kind.name.lower()
        from spark_tasks.plugins.api import SinkConnector  # noqa: PLC0415  (imports PySpark, which only connectors need)

        return "sink" if issubclass(self.cls, SinkConnector) else "source"
