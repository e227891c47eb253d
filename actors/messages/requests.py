"""Requests of REST, timers and other actors to the herder and the stores, and their answers."""

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
    """Creates a connector or, if `replace` is set, also updates one. Answer: Created."""

    connector: ConnectorName
    config: Config
    replace: bool
    initial_state: TargetState | None = None


@dataclass(frozen=True, slots=True)
class PatchConnector:
    """Merges a patch into a connector's config; None removes a key (KIP-477). Answer: Created."""

    connector: ConnectorName
    patch: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Deletes a connector. Answer: None."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class SetTargetState:
    """Pauses or resumes a connector; any worker may do it. Answer: None."""

    connector: ConnectorName
    state: TargetState


@dataclass(frozen=True, slots=True)
class StopConnectorRequest:
    """Leader: writes an empty set of tasks, then the target state STOPPED (KIP-875). Answer: None."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class RestartConnectorOnly:
    """The worker that runs the Connector instance restarts it. Answer: None."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class RestartConnectorAndTasks:
    """The leader writes a restart record (KIP-745). Answer: ConnectorStateInfo."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class RestartTask:
    """The worker that runs the task restarts it. Answer: None."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class Signature:
    """The body of a signed request between workers, and its signature (KIP-507)."""

    body: bytes
    signature: bytes
    algorithm: str


SIGNATURE_DIGESTS: Final[Mapping[str, str]] = {
    "HmacMD5": "md5", "HmacSHA1": "sha1", "HmacSHA224": "sha224", "HmacSHA256": "sha256", "HmacSHA384": "sha384",
    "HmacSHA512": "sha512", "HmacSHA512/224": "sha512_224", "HmacSHA512/256": "sha512_256", "HmacSHA3-224": "sha3_224",
    "HmacSHA3-256": "sha3_256", "HmacSHA3-384": "sha3_384", "HmacSHA3-512": "sha3_512",
}  # fmt: skip
"""The algorithms that requests may be signed with: Java's name and hashlib's."""


@dataclass(frozen=True, slots=True)
class PutTaskConfigs:
    """Internal, leader: a worker publishes the task configs that its connector generated. Answer: None."""

    connector: ConnectorName
    configs: tuple[Config, ...]
    signature: Signature | None


@dataclass(frozen=True, slots=True)
class FenceZombies:
    """Internal, leader: a round of zombie fencing before a source task starts (KIP-618). Answer: None.

    `local`: the request comes from a task of this worker, so it is not signed.
    """

    connector: ConnectorName
    signature: Signature | None
    local: bool = False


@dataclass(frozen=True, slots=True)
class VerifyTaskStart:
    """A source task of this worker has initialized its producer: checks that there are no newer task configs (KIP-618).

    Answer: None after reading to the end of the config topic; TimeoutError if that took too long.
    """

    task: ConnectorTaskId
    generation: int


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """Passes through the queue and does nothing, which shows that the herder works. Answer: None."""


@dataclass(frozen=True, slots=True)
class ValidateConfig:
    """Runs the plugin's validation with a deadline, outside the herder. Answer: ConfigInfos."""

    config: Config


@dataclass(frozen=True, slots=True)
class GetOffsets:
    """Answer: list of (partition, offset) mappings (KIP-875)."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class AlterOffsets:
    """Leader: alters the offsets of a STOPPED connector; `offsets` None resets them. Answer: a message (str)."""

    connector: ConnectorName
    offsets: tuple[tuple[Mapping[str, Any], Mapping[str, Any] | None], ...] | None


@dataclass(frozen=True, slots=True)
class ReplayDeadLetters:
    """The worker that runs a sink's first task replays the dead letter queue; `order`: see ReplayOrder. None asks for
    the progress. Answer: a mapping for REST.
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
    """Forgets the topics that a connector has used (KIP-558); any worker may do it. Answer: None."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class SetClusterLoggerLevel:
    """Writes a level for all workers to the config topic (KIP-976); any worker may do it. Answer: None."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class GetStory:
    """What happened to a connector and its tasks on this worker, and why. Answer: tuple of StoryEntry, oldest first."""

    connector: ConnectorName


StoreRequest = ResetTopics | SetClusterLoggerLevel | GetStory  # these do not go through the herder's queue


@dataclass(frozen=True, slots=True)
class Ask:
    """A request on its way to the herder. `reply` is a pykka.Future that the herder sets exactly once.

    `wait_ms`: how long the request may wait for the group to become stable before it is refused with ConflictError;
    None: without a limit.
    """

    request: Request | GetStory
    reply: Any
    wait_ms: int | None = None


# ---------------------------------------------------------------- answers
@dataclass(frozen=True, slots=True)
class StoryEntry:
    """One step of the herder, or a Remark. `cause` is its own id, `because` the id of the step that led to it, if any.
    `at_ms`: ms since 1970.
    """

    at_ms: int
    cause: str
    because: str | None
    what: str
    effects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector's config, and its tasks."""

    name: ConnectorName
    config: Config
    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class Created:
    """`created` is False if an existing connector was updated."""

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


@dataclass(frozen=True, slots=True)
class RequestStage:
    """What the herder is doing (`completed_ms` None) or did last; part of the messages of timeouts."""

    description: str
    started_ms: int
    completed_ms: int | None = None
