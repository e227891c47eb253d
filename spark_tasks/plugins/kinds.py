"""The kinds of plugins and what is known of one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from spark_tasks.errors import ConnectError

UNDEFINED = "undefined"  # what Java shows where there is no version


class Kind(Enum):
    """A kind of plugin; the value is the entry point group that plugins of the kind are published under."""

    CONNECTOR = "heeler.connectors"
    TRANSFORMATION = "heeler.transforms"
    PREDICATE = "heeler.predicates"
    CONVERTER = "heeler.converters"
    HEADER_CONVERTER = "heeler.header_converters"
    CONFIG_PROVIDER = "heeler.config_providers"
    DATA_SOURCE = "heeler.data_sources"  # of PySpark, for the connectors pyspark-source and pyspark-sink

    @property
    def interface(self) -> str:
        """Kafka Connect's name of what a plugin of this kind implements, as error messages show it."""
        return self.name.title().replace("_", "")


class PluginNotFoundError(ConnectError):
    """No plugin of that name, more than one, or one that cannot be imported."""

    permanent = True


class PluginVersionError(PluginNotFoundError):
    """The plugin is there, but not in the requested version (KIP-891)."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A plugin that is not used because the other runtime has one of the same class name. `runtime`: java or heeler."""

    runtime: str
    version: str | None
    location: str


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """What REST shows of a plugin. `kind`: source, sink, converter, header_converter, transformation or predicate.
    `passed_over`: plugins of the same class name, if there was a choice between heeler's own and Java's.
    """

    class_name: str
    kind: str
    version: str | None  # None if the plugin has none
    location: str
    passed_over: tuple[PassedOver, ...] = ()

    @property
    def runtime(self) -> str | None:
        """What runs it, heeler or java; None if there was no choice."""
        return {"java": "heeler", "heeler": "java"}[self.passed_over[0].runtime] if self.passed_over else None


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin that is imported."""

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
        """What REST shows of it."""
        return PluginInfo(self.name, self.type, None if self.version == UNDEFINED else self.version, self.location)

    @property
    def type(self) -> str:
        """The plugin's type as REST calls it: source or sink for connectors, else the kind."""
        if self.kind is not Kind.CONNECTOR:
            return self.kind.name.lower()
        from spark_tasks.plugins.api import SinkConnector  # noqa: PLC0415  (imports PySpark: only when connectors are looked at)

        return "sink" if issubclass(self.cls, SinkConnector) else "source"
