"""Everything that crosses an actor boundary, as frozen values.

Three families: requests (REST and timers to the herder), commands (herder to the actors below it) and events (those
actors back to the herder). Upward is always `tell`. A command carries an `op` number; its outcome comes back in an
event with the same number, or, for connectors and tasks, with the `epoch` of the instance that it is about, so that
an instance that was given up cannot speak for its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NewType

from actors.assignment.protocol import Allocation, Membership
from storage.config_state import ClusterConfigState, ConfigChange, RestartRequest, SessionKey
from storage.ids import Config, ConnectorName, ConnectorTaskId, State, TargetState
from storage.own_offsets import OwnOffsets
from storage.status import Status, TopicStatus

OpId = NewType("OpId", int)
Epoch = NewType("Epoch", int)
RequestId = NewType("RequestId", int)


# ---------------------------------------------------------------- requests: REST -> herder
@dataclass(frozen=True, slots=True)
class GetConnector:
    """Answer: ConnectorInfo."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class GetTaskConfigs:
    """Answer: list of TaskInfo."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class PutConnector:
    """Create, or where `replace` is set also update. Answer: Created."""

    connector: ConnectorName
    config: Config
    replace: bool
    initial_state: TargetState | None = None


@dataclass(frozen=True, slots=True)
class PatchConnector:
    """Merge into the config, None removes a key (KIP-477). Answer: Created."""

    connector: ConnectorName
    patch: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Answer: None."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class SetTargetState:
    """Pause and resume; any worker may. Answer: None."""

    connector: ConnectorName
    state: TargetState


@dataclass(frozen=True, slots=True)
class StopConnectorRequest:
    """Leader: empty task set, then target state STOPPED (KIP-875). Answer: None."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class RestartConnectorOnly:
    """The owner restarts the Connector instance. Answer: None."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class RestartConnectorAndTasks:
    """The leader writes a restart record (KIP-745). Answer: ConnectorStateInfo."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class RestartTask:
    """The owner restarts one task. Answer: None."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class Signature:
    """What a signed request between workers carried (KIP-507)."""

    body: bytes
    signature: bytes
    algorithm: str


SIGNATURE_DIGESTS: Final[Mapping[str, str]] = {
    "HmacMD5": "md5", "HmacSHA1": "sha1", "HmacSHA224": "sha224", "HmacSHA256": "sha256", "HmacSHA384": "sha384",
    "HmacSHA512": "sha512", "HmacSHA512/224": "sha512_224", "HmacSHA512/256": "sha512_256", "HmacSHA3-224": "sha3_224",
    "HmacSHA3-256": "sha3_256", "HmacSHA3-384": "sha3_384", "HmacSHA3-512": "sha3_512",
}  # fmt: skip
"""The algorithms that requests may be signed with: Java's name, hashlib's."""


@dataclass(frozen=True, slots=True)
class PutTaskConfigs:
    """Internal, leader: a worker publishes the task configs that its connector made. Answer: None."""

    connector: ConnectorName
    configs: tuple[Config, ...]
    signature: Signature | None


@dataclass(frozen=True, slots=True)
class FenceZombies:
    """Internal, leader: a round of zombie fencing before a source task starts (KIP-618). Answer: None.

    `local`: a task of the asked worker itself asks, so nothing is signed.
    """

    connector: ConnectorName
    signature: Signature | None
    local: bool = False


@dataclass(frozen=True, slots=True)
class VerifyTaskStart:
    """A source task of this worker has initialised its producer: is there no newer set of tasks (KIP-618)?

    Answer: None after reading to the end of the config topic; TimeoutError where that was not possible in time.
    """

    task: ConnectorTaskId
    generation: int


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """Does nothing, in its turn. Answer: None."""


@dataclass(frozen=True, slots=True)
class ValidateConfig:
    """Runs the plugin's validation with a deadline, not in the herder. Answer: ConfigInfos."""

    config: Config


@dataclass(frozen=True, slots=True)
class GetOffsets:
    """Answer: list of (partition, offset) mappings (KIP-875)."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class AlterOffsets:
    """Leader; the connector must be STOPPED. None as the whole map resets. Answer: a message (str)."""

    connector: ConnectorName
    offsets: tuple[tuple[Mapping[str, Any], Mapping[str, Any] | None], ...] | None


Request = (
    GetConnector | GetTaskConfigs | PutConnector | PatchConnector | DeleteConnector | SetTargetState
    | StopConnectorRequest | RestartConnectorOnly | RestartConnectorAndTasks | RestartTask | PutTaskConfigs
    | FenceZombies | VerifyTaskStart | HealthCheck | ValidateConfig | GetOffsets | AlterOffsets
)


# ---------------------------------------------------------------- requests: REST -> stores, past the herder
@dataclass(frozen=True, slots=True)
class ResetTopics:
    """Forget the topics that a connector has used (KIP-558); any worker may. Answer: None."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class SetClusterLoggerLevel:
    """Write a level for all workers to the config topic (KIP-976); any worker may. Answer: None."""

    namespace: str
    level: str


StoreRequest = ResetTopics | SetClusterLoggerLevel


@dataclass(frozen=True, slots=True)
class Ask:
    """A request on its way to the herder. `reply` is a pykka.Future that the herder sets exactly once."""

    request: Request
    reply: Any


# ---------------------------------------------------------------- answers
@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """`type` is "source", "sink" or "unknown"."""

    name: ConnectorName
    config: Config
    tasks: tuple[ConnectorTaskId, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Created:
    """`created` is False where an existing connector was updated."""

    created: bool
    info: ConnectorInfo


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task's id and raw config."""

    id: ConnectorTaskId
    config: Config


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo:
    """A connector's status with its tasks', sorted by number."""

    name: ConnectorName
    connector: Status
    tasks: tuple[Status, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Stage:
    """What the herder is doing (`completed_ms` None) or did last; goes into time-out messages."""

    description: str
    started_ms: int
    completed_ms: int | None = None


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
class Stop:
    """To a connector or a task actor: stop in order; the actor ends by itself afterwards."""


# ---------------------------------------------------------------- events: stores, member, plugins -> herder
@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The config store folded new records into a new snapshot."""

    snapshot: ClusterConfigState
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class ConfigOpDone:
    """A WriteConfig, ReadConfigToEnd or ClaimWritePrivileges ended; every ConfigChanged up to there came before."""

    op: OpId
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class StatusesFlushed:
    """FlushStatuses is done."""

    op: OpId


@dataclass(frozen=True, slots=True)
class StatusesRead:
    """ReadStatuses is done, or failed."""

    op: OpId
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class JoinPreparing:
    """The member is about to join or rejoin and waits for AllowJoin. `eager`: everything must be stopped first."""

    eager: bool


@dataclass(frozen=True, slots=True)
class Joined:
    """A round is complete."""

    membership: Membership


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """The group coordinator was unreachable for a heartbeat interval, or the session or poll time-out passed."""

    reason: str


@dataclass(frozen=True, slots=True)
class ConnectorStateReported:
    """A connector instance says what became of it. `stopped_for_good`: its actor has ended."""

    connector: ConnectorName
    epoch: Epoch
    state: State
    trace: str | None = None
    version: str | None = None
    stopped_for_good: bool = False


@dataclass(frozen=True, slots=True)
class TaskStateReported:
    """A task instance says what became of it. `stopped_for_good`: its actor has ended."""

    task: ConnectorTaskId
    epoch: Epoch
    state: State
    trace: str | None = None
    version: str | None = None
    stopped_for_good: bool = False


@dataclass(frozen=True, slots=True)
class TaskConfigsGenerated:
    """The answer to GenerateTaskConfigs: `configs` or an `error`."""

    connector: ConnectorName
    epoch: Epoch
    op: OpId
    configs: tuple[Config, ...] = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TaskReconfigurationRequested:
    """The connector noticed that its task configs are out of date (ConnectorContext.requestTaskReconfiguration)."""

    connector: ConnectorName
    epoch: Epoch
