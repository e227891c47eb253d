"""What REST may read of its worker without asking the herder: each member is one atomic read of a published value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

from actors.messages.requests import RequestStage
from storage.config.state import ClusterConfigState
from storage.ids import Config
from storage.status.state import StatusState

ConnectorType = Literal["source", "sink", "unknown"]


class PassedOverPlugin(Protocol):
    """A plugin that is not used, since another one of its class is."""

    @property
    def runtime(self) -> str:
        """What would run it: heeler or java."""

    @property
    def version(self) -> str | None:
        """None where the plugin does not say."""

    @property
    def location(self) -> str:
        """Where it is installed."""


class ShownPlugin(Protocol):
    """An installed plugin. `kind` is source, sink, converter, header_converter, transformation or predicate."""

    @property
    def class_name(self) -> str:
        """As REST shows it."""

    @property
    def kind(self) -> str:
        """What it is."""

    @property
    def version(self) -> str | None:
        """None where the plugin does not say."""

    @property
    def runtime(self) -> str | None:
        """What runs it, where heeler's own and Java's are here: heeler or java."""

    @property
    def passed_over(self) -> Sequence[PassedOverPlugin]:
        """What else is here of its class; empty where there was no choice."""


class ShownLevel(Protocol):
    """A logger's level."""

    @property
    def level(self) -> str:
        """Kafka's name of it."""

    @property
    def last_modified_ms(self) -> int | None:
        """When somebody changed it (ms since 1970); None: never since the worker started."""


class Loggers(Protocol):
    """A worker's loggers (KIP-495, KIP-976). Levels are Kafka's: OFF FATAL ERROR WARN INFO DEBUG TRACE ALL."""

    def levels(self) -> Mapping[str, ShownLevel]:
        """All loggers whose level was set, by name; `root` too."""

    def level(self, name: str) -> ShownLevel | None:
        """The level in effect for a logger; None where there is no such logger."""

    def set_level(self, namespace: str, level: str) -> Sequence[str]:
        """Set a logger and those below it; answers the names of those that changed, sorted."""


class WorkerView(Protocol):
    """The worker as REST sees it; every member may be read from any thread and, but for `trial`, answers at once."""

    @property
    def config(self) -> ClusterConfigState:
        """The newest snapshot of the config topic."""

    @property
    def statuses(self) -> StatusState:
        """The newest snapshot of the status topic."""

    @property
    def stage(self) -> RequestStage | None:
        """What the herder does now or did last; goes into the text of time-outs."""

    @property
    def started(self) -> bool:
        """Whether the herder has completed its start-up (KIP-1017)."""

    @property
    def kafka_cluster_id(self) -> str | None:
        """None until the worker has spoken to Kafka; until then REST answers 404, as Kafka Connect does."""

    @property
    def version(self) -> str:
        """The version of Kafka Connect that clients may count on, such as 4.3.1: they switch features by it."""

    @property
    def commit(self) -> str:
        """The revision of the code."""

    @property
    def loggers(self) -> Loggers:
        """The worker's loggers."""

    def degraded(self) -> Sequence[str]:
        """Which tasks hang or wait for long, in words; empty where all is well."""

    def metrics(self, names: Collection[str]) -> str:
        """The worker's metrics as Prometheus takes them: with Kafka Connect's names (`java`), heeler's, or both."""

    def connector_type(self, config: Config | None) -> ConnectorType:
        """What the class in a connector's config is."""

    def logs(self, connector: str) -> Sequence[str]:
        """The last lines of this worker's log about a connector, oldest first, without secrets."""

    def plugins(self) -> Sequence[ShownPlugin]:
        """Installed plugins: sinks, sources, transformations, predicates, converters, header converters."""

    def trial(self, config: Config, records: Sequence[Any] | None, limit: int) -> Mapping[str, Any]:
        """A configuration on a few records; takes as long as the plugin. Raises BadRequestError for what cannot be
        tried, ConflictError where too many are, ConnectError where its process fails.
        """

    def plugin_config(self, name: str, version: str | None) -> Sequence[Mapping[str, Any]]:
        """A plugin's keys as ConfigDef.key_infos() has them.

        Raises NotFoundError, and BadRequestError where no installed version fits (KIP-891).
        """
