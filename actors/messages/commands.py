"""Commands of the herder to the actors below it; the outcome is an event with the same `op` or `epoch`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.assignment.protocol import Allocation
from actors.messages.correlation_ids import OpId
from storage.config.state import RestartRequest, SessionKey
from storage.ids import Config, ConnectorName, ConnectorTaskId, TargetState
from storage.offsets.own_topic import OwnOffsets
from storage.status.state import Status, TopicStatus


# ---------------------------------------------------------------- herder -> config, status and offset store
@dataclass(frozen=True, slots=True)
class PutConnectorConfig:
    """Writes `connector-…` (after `target-state-…` if a state is given)."""

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
    """To the config store: write, read to the end of the topic, then reply with ConfigOpDone."""

    op: OpId
    write: ConfigWrite


@dataclass(frozen=True, slots=True)
class ReadConfigToEnd:
    """To the config store: reply with ConfigOpDone, which has a TimeoutError if the topic's current end is not read in
    time.
    """

    op: OpId
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ClaimWritePrivileges:
    """To the config store: this worker became the leader (fences the former one with exactly-once, KIP-618)."""

    op: OpId


@dataclass(frozen=True, slots=True)
class PutStatus:
    """To the status store: write a status. `safe`: as StatusBackingStore.putSafe does."""

    status: Status
    safe: bool


@dataclass(frozen=True, slots=True)
class Decided:
    """To a store: what to write, and when (time.monotonic) the herder received what led to it. It is not written if the
    process was suspended past its session since.
    """

    command: PutStatus | WriteConfig
    at: float


@dataclass(frozen=True, slots=True)
class FlushStatuses:
    """To the status store: reply with StatusesFlushed once all writes so far are acknowledged."""

    op: OpId


@dataclass(frozen=True, slots=True)
class ReadStatuses:
    """To the status store: reply with StatusesRead once the status topic's current end is read, or could not be read in
    time.
    """

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
    """Reads all offsets of a source connector; `answer` gets a tuple of (partition, offset).

    `own`: the connector's own offsets topic; None: its offsets are on the worker's topic only.
    """

    connector: ConnectorName
    answer: Answer
    own: OwnOffsets | None = None


@dataclass(frozen=True, slots=True)
class WriteSourceOffsets:
    """Sets offsets (KIP-875); `answer` gets None. An offset of None removes it; `offsets` None removes all.

    `transactional_id` (exactly-once): writes in one transaction with this id, which fences its former user.
    """

    connector: ConnectorName
    offsets: SourceOffsets | None
    answer: Answer
    own: OwnOffsets | None = None
    transactional_id: str | None = None


# ---------------------------------------------------------------- herder -> group member
@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Joins the group and stays a member (at the start, and after a LeaveGroup)."""


@dataclass(frozen=True, slots=True)
class AllowJoin:
    """The answer to JoinPreparing: the join may begin; `owned` is what this worker still runs."""

    owned: Allocation


@dataclass(frozen=True, slots=True)
class RequestRejoin:
    """Starts another rebalance. `caught_up` (leader): the generation whose rebalance failed because members had read
    more of the config topic; the leader has read it to its end since.
    """

    reason: str
    caught_up: int | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Leaves at once and stays out until the next JoinGroup."""

    reason: str


@dataclass(frozen=True, slots=True)
class HerderAlive:
    """The herder still runs: sent about every second.

    After the first one, `rebalance.timeout.ms` without another ends the membership until the next one (KIP-62).
    """


# ---------------------------------------------------------------- herder -> connector and task actors
@dataclass(frozen=True, slots=True)
class StartConnector:
    """Creates the plugin's connector, and starts it unless the target state is PAUSED or STOPPED."""

    connector: ConnectorName
    config: Config
    target_state: TargetState


@dataclass(frozen=True, slots=True)
class GenerateTaskConfigs:
    """Asks the connector for its task configs (raw: with the placeholders of config providers)."""

    op: OpId


@dataclass(frozen=True, slots=True)
class StartTask:
    """Starts moving data, or waits if the target state is PAUSED."""

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
    """To a task actor: replay the dead letter queue (`order`: the request's body), or report the progress (None).
    `answer` gets the progress, or BadRequestError, ConflictError, NotFoundError.
    """

    order: Mapping[str, Any] | None
    answer: Answer


@dataclass(frozen=True, slots=True)
class Stop:
    """To a connector or a task actor: stop gracefully; the actor ends afterwards."""
