"""The values that REST reads from its worker without asking the herder; each read is atomic."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

from actors.messages.requests import RequestStage
from storage.config.state import ClusterConfigState
from storage.ids import Config
from storage.status.state import StatusState

ConnectorType = Literal["source", "sink", "unknown"]


class PassedOverPlugin(Protocol):
    """A plugin that is not used because another one has the same class."""

    @property
    def runtime(self) -> str:
        """The runtime that would run it: heeler or java."""

    @property
    def version(self) -> str | None:
        """The version; None if the plugin has none."""

    @property
    def location(self) -> str:
        """Where it is installed."""


class ShownPlugin(Protocol):
    """An installed plugin. `kind` is source, sink, converter, header_converter, transformation or predicate."""

    @property
    def class_name(self) -> str:
        """The name of its class in REST's responses."""

    @property
    def kind(self) -> str:
        """The kind of plugin."""

    @property
    def version(self) -> str | None:
        """The version; None if the plugin has none."""

    @property
    def runtime(self) -> str | None:
        """The runtime that runs it, heeler or java, if both have a plugin of this class."""

    @property
    def passed_over(self) -> Sequence[PassedOverPlugin]:
        """Other plugins of this class, which are not used."""


class ShownLevel(Protocol):
    """A logger's level."""

    @property
    def level(self) -> str:
        """Kafka's name of the level."""

    @property
    def last_modified_ms(self) -> int | None:
        """When it was changed last (ms since 1970); None: not since the worker started."""


class Loggers(Protocol):
    """A worker's loggers (KIP-495, KIP-976). Levels are those of `spark_tasks.process.log_levels`."""

    def levels(self) -> Mapping[str, ShownLevel]:
        """All loggers whose level was set, and `root`, by name."""

    def level(self, name: str) -> ShownLevel | None:
        """The effective level of a logger; None if there is no such logger."""

    def set_level(self, namespace: str, level: str) -> Sequence[str]:
        """Sets the level of a logger and those below it; returns the sorted names of those that changed."""


class WorkerView(Protocol):
    """The worker as REST sees it; members may be used on any thread and, except for `trial`, return at once."""

    @property
    def config(self) -> ClusterConfigState:
        """The newest snapshot of the config topic."""

    @property
    def statuses(self) -> StatusState:
        """The newest snapshot of the status topic."""

    @property
    def stage(self) -> RequestStage | None:
        """What the herder does now or did last; part of the messages of timeouts."""

    @property
    def started(self) -> bool:
        """Whether the herder has completed its startup (KIP-1017)."""

    @property
    def kafka_cluster_id(self) -> str | None:
        """None until the worker has connected to Kafka; until then REST answers 404, as in Kafka Connect."""

    @property
    def version(self) -> str:
        """The version of Kafka Connect whose API this is, such as 4.3.1: clients select features by it."""

    @property
    def commit(self) -> str:
        """The revision of the code."""

    @property
    def loggers(self) -> Loggers:
        """The worker's loggers."""

    def degraded(self) -> Sequence[str]:
        """Descriptions of connectors and tasks that hang, and of tasks that have waited for a long time."""

    def waiting(self) -> Sequence[str]:
        """Descriptions of tasks whose plugins have waited for data for a long time; nothing is wrong with them."""

    def metrics(self, names: Collection[str]) -> str:
        """The worker's metrics in Prometheus' format: with Kafka Connect's names (`java`), heeler's, or both."""

    def connector_type(self, config: Config | None) -> ConnectorType:
        """The type of the class in a connector's config; "unknown" if it has not been imported within a few seconds."""

    def logs(self, connector: str) -> Sequence[str]:
        """The last lines of this worker's log about a connector, oldest first, without secrets."""

    def plugins(self) -> Sequence[ShownPlugin]:
        """Installed plugins: sinks, sources, transformations, predicates, converters, header converters."""

    def trial(self, config: Config, records: Sequence[Any] | None, limit: int) -> Mapping[str, Any]:
        """Runs a few records through a configuration; blocks as long as the plugin does. `records`: the records to use;
        None: the connector's own. `limit`: how many records at most. Raises BadRequestError for a configuration that
        cannot be tried, ConflictError if too many trials are running, ConnectError if the trial's process fails.
        """

    def plugin_config(self, name: str, version: str | None) -> Sequence[Mapping[str, Any]]:
        """A plugin's configuration keys, as from ConfigDef.key_infos().

        Raises NotFoundError, and BadRequestError if no installed version matches (KIP-891).
        """
