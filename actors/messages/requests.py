"""What REST, timers and other actors ask of the herder and of the stores, and what they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from storage.config.state import RestartRequest
from storage.ids import Config, ConnectorName, ConnectorTaskId, TargetState
from storage.status.state import Status


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


@dataclass(frozen=True, slots=True)
class ReplayDeadLetters:
    """The worker of a sink's first task replays the dead letter queue; `order`: see ReplayOrder. None asks how far that
    is. Answer: a mapping for REST.
    """

    connector: ConnectorName
    order: Mapping[str, Any] | None


Request = (
    GetConnector | GetTaskConfigs | PutConnector | PatchConnector | DeleteConnector | SetTargetState
    | StopConnectorRequest | RestartConnectorOnly | RestartConnectorAndTasks | RestartTask | PutTaskConfigs
    | FenceZombies | VerifyTaskStart | HealthCheck | ValidateConfig | GetOffsets | AlterOffsets
    | ReplayDeadLetters
)


# ---------------------------------------------------------------- requests: REST -> stores, and the herder's story
@dataclass(frozen=True, slots=True)
class ResetTopics:
    """Forget the topics that a connector has used (KIP-558); any worker may. Answer: None."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class SetClusterLoggerLevel:
    """Write a level for all workers to the config topic (KIP-976); any worker may. Answer: None."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class GetStory:
    """What happened to a connector and its tasks on this worker, and why. Answer: tuple of StoryEntry, oldest first."""

    connector: ConnectorName


StoreRequest = ResetTopics | SetClusterLoggerLevel | GetStory  # what needs no turn in the herder's queue


@dataclass(frozen=True, slots=True)
class Ask:
    """A request on its way to the herder. `reply` is a pykka.Future that the herder sets exactly once.

    `wait_ms`: how long the request may wait for the group to settle before it is refused with ConflictError; None for
    as long as it takes.
    """

    request: Request | GetStory
    reply: Any
    wait_ms: int | None = None


# ---------------------------------------------------------------- answers
@dataclass(frozen=True, slots=True)
class StoryEntry:
    """One step of the herder, or a Remark. `cause` is its own id, `because` that of the step that led to it, if one
    did. `at_ms`: ms since 1970.
    """

    at_ms: int
    cause: str
    because: str | None
    what: str
    effects: tuple[str, ...]


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
class RequestStage:
    """What the herder is doing (`completed_ms` None) or did last; goes into time-out messages."""

    description: str
    started_ms: int
    completed_ms: int | None = None
