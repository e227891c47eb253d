"""The herder's whole memory as one frozen value, and the values inside it.

Only the modules of this package change it, through `turn.Turn`; mappings are replaced, never written to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from actors.assignment.protocol import Allocation, Membership
from actors.herder.fencing_state import (
    Fenced,
    Fencing,
    FencingChecked,
    FencingRead,
    FencingRecorded,
    RecordFencing,
    RestartRead,
    StartVerified,
)
from actors.messages.commands import ConfigWrite
from actors.messages.ids import Epoch, OpId, RequestId
from actors.messages.requests import Request, Stage
from storage.config.state import ClusterConfigState, RestartRequest
from storage.ids import Config, ConnectorName, ConnectorTaskId, ItemId, State, WorkerId


def is_task(item: ItemId) -> bool:
    """Whether the item is a task and not a Connector instance."""
    return isinstance(item, ConnectorTaskId)


def connector_of(item: ItemId) -> ConnectorName:
    """The connector that the item is or belongs to."""
    return item.connector if isinstance(item, ConnectorTaskId) else item


class Phase(Enum):
    """Where the worker stands in its group."""

    LOADING = "loading"  # the config topic has not been read yet
    OUT = "out"  # not a member: waits before it reads the config topic again and joins
    JOINING = "joining"  # a round is wanted or going on
    REVOKING = "revoking"  # a round is over; what it took away is being stopped
    SYNCING = "syncing"  # reading the config topic up to the assignment's offset
    RESOLVED = "resolved"  # the assigned work is started; requests are served
    HALTING = "halting"  # shutting down: everything is being stopped
    HALTED = "halted"


@dataclass(frozen=True, slots=True)
class HerderSettings:
    """What the worker's configuration says, as far as the herder's decisions depend on it. Times in ms."""

    worker_id: WorkerId
    group_id: str
    session_timeout_ms: int = 10_000
    sync_timeout_ms: int = 3000
    unsync_backoff_ms: int = 300_000
    scheduled_delay_max_ms: int = 300_000
    graceful_stop_ms: int = 5000
    key_ttl_ms: int = 3_600_000
    key_algorithm: str = "HmacSHA256"
    key_bytes: int = 32
    verification_algorithms: tuple[str, ...] = ("HmacSHA256",)
    exactly_once: bool = False
    transactional_leader: bool = False  # exactly.once.source.support is preparing or enabled
    sessioned: bool = True  # requests between workers are signed where the group's protocol says so
    connector_type: Callable[[Config], str] = field(default=lambda _: "unknown", compare=False)


NO_GENERATION = -1  # of who is not in the group


@dataclass(frozen=True, slots=True)
class Slot:
    """One running instance of an item on this worker.

    `made`: the task configs that the connector made last. `waiting`: requests that are answered by the first report of
    the instance (or of its successor, where `start_again` is set). `restarting`: the successor's start is announced as
    RESTARTING (KIP-745).
    """

    epoch: Epoch
    state: State | None = None
    trace: str | None = None
    version: str | None = None
    stopping: bool = False
    start_again: bool = False
    restarting: bool = False
    waiting: tuple[RequestId, ...] = ()
    disowned: bool = False  # of a membership that was lost: its end is told as by one who is not in the group
    made: tuple[Config, ...] | None = None


@dataclass(frozen=True, slots=True, order=True)
class Queued:
    """A request in its turn: by due time, then in the order of arrival. Without a request id it is the herder's own."""

    at_ms: int
    seq: int
    request_id: RequestId | None = field(compare=False)
    request: Request | OwnRequest = field(compare=False)


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """The herder's own request: have a local connector make its task configs; `attempt` counts failures so far."""

    connector: ConnectorName
    attempt: int = 0
    first_ms: int = 0


@dataclass(frozen=True, slots=True)
class Publish:
    """The leader's own request: write the task configs that a local connector made."""

    reconfigure: Reconfigure
    configs: tuple[Config, ...]


OwnRequest = Reconfigure | Publish | RecordFencing


# ---------------------------------------------------------------- what an op's end leads to
@dataclass(frozen=True, slots=True)
class AnswerWith:
    """Answer a request with `value`, or with the op's error."""

    request_id: RequestId | None
    value: Any = None


@dataclass(frozen=True, slots=True)
class WriteNext:
    """Write once more, then answer."""

    request_id: RequestId
    write: ConfigWrite
    value: Any = None


@dataclass(frozen=True, slots=True)
class AnswerWithPlan:
    """A restart record is written: answer with the plan's picture of the statuses."""

    request_id: RequestId
    request: RestartRequest


@dataclass(frozen=True, slots=True)
class PublishedTasks:
    """A connector's new task configs are written, or sent to the leader, or that failed."""

    reconfigure: Reconfigure


@dataclass(frozen=True, slots=True)
class GeneratedTasks:
    """A connector was asked for its task configs."""

    reconfigure: Reconfigure


@dataclass(frozen=True, slots=True)
class ResolveAssignment:
    """The config topic was read for the assignment of a generation; `then_rejoin`: the round itself had failed."""

    then_rejoin: bool
    generation: int


@dataclass(frozen=True, slots=True)
class JoinAgain:
    """The config topic was read after a back-off outside the group."""


@dataclass(frozen=True, slots=True)
class Released:
    """The statuses of released work are flushed."""


@dataclass(frozen=True, slots=True)
class HaltFlushed:
    """The last statuses are flushed; leave the group."""


@dataclass(frozen=True, slots=True)
class StatusesCaughtUp:
    """What others said of statuses while this process was suspended is read."""


@dataclass(frozen=True, slots=True)
class KeyWritten:
    """A session key was written."""


@dataclass(frozen=True, slots=True)
class PrivilegesClaimed:
    """The leader may write the config topic."""


Continuation = (
    AnswerWith | WriteNext | AnswerWithPlan | PublishedTasks | GeneratedTasks | ResolveAssignment | JoinAgain | Released
    | HaltFlushed | KeyWritten | PrivilegesClaimed | FencingRead | Fenced | FencingChecked | FencingRecorded
    | StartVerified | RestartRead | StatusesCaughtUp
)


@dataclass(frozen=True, slots=True)
class HerderState:
    """Everything the herder knows.

    `store` is the newest snapshot of the config topic; `config` the one that decisions are made on, taken over at
    defined moments only. `needs_rebalance` is the config offset that the next round has to cover. `allocation` is
    what this worker shall run, `slots` what it does run; `releasing` are the slots whose end the group waits for.
    `announced` is what the leader was told of it. `busy` is the op that the request queue waits for. `privilege`
    numbers the times that the right to write the config topic was claimed.
    """

    settings: HerderSettings
    phase: Phase = Phase.LOADING
    store: ClusterConfigState = field(default_factory=ClusterConfigState)
    config: ClusterConfigState = field(default_factory=ClusterConfigState)
    membership: Membership | None = None
    allocation: Allocation = field(default_factory=Allocation)
    slots: Mapping[ItemId, Slot] = field(default_factory=dict)
    releasing: frozenset[ItemId] = frozenset()
    flushing: bool = False
    join_waiting: bool = False
    announced: Allocation = field(default_factory=Allocation)
    rejoin_after_start: bool = False
    backoff_attempts: int = 0
    needs_rebalance: int | None = None
    connector_updates: frozenset[ConnectorName] = frozenset()
    task_updates: frozenset[ConnectorTaskId] = frozenset()
    target_changes: frozenset[ConnectorName] = frozenset()
    restarts: Mapping[ConnectorName, RestartRequest] = field(default_factory=dict)
    queue: tuple[Queued, ...] = ()
    validating: Mapping[RequestId, Queued] = field(default_factory=dict)
    ops: Mapping[OpId, Continuation] = field(default_factory=dict)
    busy: OpId | None = None
    privileged: bool = False
    speak_again: bool = False  # others may have spoken of what this worker ran on with while it was out of the group
    stale_round: bool = False  # suspended since the last JoinPreparing: a round that ends now is one of long ago
    mute: bool = False  # suspended: what it knows of statuses is old, so it writes none until they are read
    privilege: int = 0
    fencings: Mapping[ConnectorName, Fencing] = field(default_factory=dict)
    key_writing: bool = False
    counter: int = 0
    stage: Stage | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads the group, as far as it knows."""
        return self.membership is not None and self.membership.is_leader

    @property
    def leader_url(self) -> str | None:
        """The leader's REST address, if any is known."""
        return self.membership.assignment.leader_url or None if self.membership else None

    @property
    def generation(self) -> int:
        """The group generation that statuses are written under."""
        return self.membership.generation if self.membership else NO_GENERATION

    def own_requests(self) -> list[Request | OwnRequest]:
        """What the herder wants of itself."""
        return [queued.request for queued in self.queue if queued.request_id is None]

    def allocated(self) -> tuple[ItemId, ...]:
        """The allocation as items, connectors first."""
        return (*self.allocation.connectors, *self.allocation.tasks)
