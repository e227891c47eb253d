"""The content of the config topic as one frozen value, for the herder, the assignors and the REST API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from storage.ids import Config, ConnectorName, ConnectorTaskId, TargetState


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key that signs requests between workers (KIP-507)."""

    key: bytes
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A request to restart a connector and, optionally, its tasks (KIP-745)."""

    connector: ConnectorName
    only_failed: bool
    include_tasks: bool


@dataclass(frozen=True, slots=True)
class ClusterConfigState:
    """A snapshot of the config topic. The mappings are never modified.

    `offset` is the position (offset of the last delivered, parseable record + 1; -1 before the first): all workers of a
    group, Java's too, must agree on it. `task_counts` contains the number of the last commit record even for
    inconsistent connectors, whose tasks() are empty (as in Kafka Connect's ClusterConfigState).
    """

    offset: int = -1
    session_key: SessionKey | None = None
    connector_configs: Mapping[ConnectorName, Config] = field(default_factory=dict)
    target_states: Mapping[ConnectorName, TargetState] = field(default_factory=dict)
    task_counts: Mapping[ConnectorName, int] = field(default_factory=dict)
    task_configs: Mapping[ConnectorTaskId, Config] = field(default_factory=dict)
    task_count_records: Mapping[ConnectorName, int] = field(default_factory=dict)
    task_config_generations: Mapping[ConnectorName, int] = field(default_factory=dict)
    applied_configs: Mapping[ConnectorName, Config] = field(default_factory=dict)
    pending_fencing: frozenset[ConnectorName] = frozenset()
    inconsistent: frozenset[ConnectorName] = frozenset()

    def contains(self, connector: ConnectorName) -> bool:
        """Whether the connector has a configuration."""
        return connector in self.connector_configs

    def connectors(self) -> list[ConnectorName]:
        """All connectors that have a configuration, sorted."""
        return sorted(self.connector_configs)

    def task_count(self, connector: ConnectorName) -> int:
        """The number of tasks in the last commit record; 0 if there is none."""
        return self.task_counts.get(connector, 0)

    def tasks(self, connector: ConnectorName) -> list[ConnectorTaskId]:
        """The tasks that can be run: none while the connector's task configs are inconsistent."""
        if connector in self.inconsistent or connector not in self.task_counts:
            return []
        return [ConnectorTaskId(connector, n) for n in range(self.task_counts[connector])]

    def target_state(self, connector: ConnectorName) -> TargetState | None:
        """The target state; None for an unknown connector."""
        if connector not in self.connector_configs:
            return None
        return self.target_states.get(connector, TargetState.STARTED)

    def raw_task_configs(self, connector: ConnectorName) -> list[Config]:
        """The configs of tasks(), in order."""
        return [self.task_configs[t] for t in self.tasks(connector)]


@dataclass(frozen=True, slots=True)
class ConnectorUpdated:
    """A connector was created or its config changed."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector's config was deleted."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class TasksUpdated:
    """A commit record made a new set of task configs valid."""

    connector: ConnectorName
    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """A connector was paused, resumed or stopped."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class SessionKeyChanged:
    """The leader published a new session key."""

    key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """The leader wrote a restart record."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class LoggerLevelChanged:
    """A logger's level was set for the whole cluster (KIP-976)."""

    namespace: str
    level: str


ConfigChange = (
    ConnectorUpdated | ConnectorRemoved | TasksUpdated | TargetStateChanged | SessionKeyChanged | RestartRequested
    | LoggerLevelChanged
)
