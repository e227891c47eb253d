"""What the herder has the actors below it do; the outcome comes back as an event with the same `op` or `epoch`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.assignment.protocol import Allocation
from actors.messages.ids import OpId
from storage.config.state import RestartRequest, SessionKey
from storage.ids import Config, ConnectorName, ConnectorTaskId, TargetState
from storage.offsets.own import OwnOffsets
from storage.status.state import Status, TopicStatus


# ---------------------------------------------------------------- herder -> config, status and offset store
@dataclass(frozen=True, slots=True)
class PutConnectorConfig:
    """Writes `connector-…` (after `target-state-…` where a state is given)."""

    connector: ConnectorName
    config: Config
    target_state: TargetState | None = None


@dataclass(frozen=True, slots=True)
class RemoveConnectorConfig:
    """Writes two tombstones: the config's and the target state's."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class PutTaskConfigSet:
    """Writes all `task-…`, then `commit-…`."""

    connector: ConnectorName
    configs: tuple[Config, ...]


@dataclass(frozen=True, slots=True)
class PutTargetState:
    """Writes `target-state-…`; not a privileged write."""

    connector: ConnectorName
    state: TargetState


@dataclass(frozen=True, slots=True)
class PutSessionKey:
    """Writes `session-key`."""

    key: SessionKey


@dataclass(frozen=True, slots=True)
class PutRestartRequest:
    """Writes `restart-connector-…`."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class PutTaskCountRecord:
    """Writes `tasks-fencing-…` (KIP-618)."""

    connector: ConnectorName
    count: int


@dataclass(frozen=True, slots=True)
class PutLoggerLevel:
    """Writes `logger-cluster-…`; not a privileged write."""

    namespace: str
    level: str


ConfigWrite = (
    PutConnectorConfig | RemoveConnectorConfig | PutTaskConfigSet | PutTargetState | PutSessionKey
    | PutRestartRequest | PutTaskCountRecord | PutLoggerLevel
)


@dataclass(frozen=True, slots=True)
class WriteConfig:
    """To the config store: write, read to the end, then answer ConfigOpDone."""

    op: OpId
    write: ConfigWrite


@dataclass(frozen=True, slots=True)
class ReadConfigToEnd:
    """To the config store: answer ConfigOpDone when the end as of now is read, or TimeoutError after the time."""

    op: OpId
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ClaimWritePrivileges:
    """To the config store: this worker became the leader (fences the former one with exactly-once, KIP-618)."""

    op: OpId


@dataclass(frozen=True, slots=True)
class PutStatus:
    """To the status store. `safe` as StatusBackingStore.putSafe."""

    status: Status
    safe: bool


@dataclass(frozen=True, slots=True)
class FlushStatuses:
    """To the status store: answer StatusesFlushed when all writes so far are acknowledged."""

    op: OpId


@dataclass(frozen=True, slots=True)
class ReadStatuses:
    """To the status store: answer StatusesRead when the status topic is read up to its end as it is now."""

    op: OpId
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class PutTopicStatus:
    """To the status store, from a task: the connector uses this topic (KIP-558). Known topics are not written again."""

    status: TopicStatus


@dataclass(frozen=True, slots=True)
class DeleteTopicStatuses:
    """To the status store: forget the topics that a connector has used."""

    connector: ConnectorName


# ---------------------------------------------------------------- to the offset store
SourceOffsets = tuple[tuple[Mapping[str, Any], Mapping[str, Any] | None], ...]
Answer = Callable[[Any, Exception | None], None]


@dataclass(frozen=True, slots=True)
class ReadSourceOffsets:
    """All offsets of a source connector, as a tuple of (partition, offset), go to `answer`.

    `own` says where the connector has them, None: on the worker's topic only.
    """

    connector: ConnectorName
    answer: Answer
    own: OwnOffsets | None = None


@dataclass(frozen=True, slots=True)
class WriteSourceOffsets:
    """Set offsets (KIP-875): None as an offset removes it, None as the whole removes all. None goes to `answer`.

    `transactional_id` (exactly-once): write in one transaction of this id, which fences its former user.
    """

    connector: ConnectorName
    offsets: SourceOffsets | None
    answer: Answer
    own: OwnOffsets | None = None
    transactional_id: str | None = None


# ---------------------------------------------------------------- herder -> group member
@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Be a member from now on (at start, and after a LeaveGroup)."""


@dataclass(frozen=True, slots=True)
class AllowJoin:
    """The answer to JoinPreparing: the join may go on; `owned` is what this worker still runs."""

    owned: Allocation


@dataclass(frozen=True, slots=True)
class RequestRejoin:
    """Start another round. `caught_up` (leader): the generation whose round failed, as members had read more of the
    config topic; since then the leader has read it to its end.
    """

    reason: str
    caught_up: int | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Leave at once and stay out until the next JoinGroup."""

    reason: str


@dataclass(frozen=True, slots=True)
class HerderAlive:
    """The herder still turns: send one on each tick (every second will do).

    From the first one on, `rebalance.timeout.ms` without another costs the membership until the next one (KIP-62).
    """


# ---------------------------------------------------------------- herder -> connector and task actors
@dataclass(frozen=True, slots=True)
class StartConnector:
    """Instantiate and start the plugin's connector, unless the target state is PAUSED or STOPPED."""

    connector: ConnectorName
    config: Config
    target_state: TargetState


@dataclass(frozen=True, slots=True)
class GenerateTaskConfigs:
    """Ask the connector for its task configs (raw: with config-provider placeholders put back)."""

    op: OpId


@dataclass(frozen=True, slots=True)
class StartTask:
    """Start moving data, or wait where the target state is PAUSED."""

    task: ConnectorTaskId
    connector_config: Config
    task_config: Config
    target_state: TargetState
    config_generation: int


@dataclass(frozen=True, slots=True)
class ChangeTargetState:
    """To a connector or a task actor: pause, resume or stop."""

    state: TargetState


@dataclass(frozen=True, slots=True)
class ReplayLetters:
    """To a task actor: replay the dead letter queue (`order`: the request's body), or, None, say how far it is. The
    answer, or BadRequestError, ConflictError, NotFoundError, goes to `answer`.
    """

    order: Mapping[str, Any] | None
    answer: Answer


@dataclass(frozen=True, slots=True)
class Stop:
    """To a connector or a task actor: stop in order; the actor ends by itself afterwards."""
