"""The herder's whole memory as one frozen value, and the values inside it.

Only the modules of this package change it, through `turn.Turn`; mappings are replaced, never written to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from actors.herder.standing import (
    NO_GENERATION,
    Absence,
    FlushingStatuses,
    Leader,
    Loading,
    Member,
    NothingReleased,
    Phase,
    Release,
    Standing,
    StatusWrites,
)
from actors.messages.commands import ConfigWrite
from actors.messages.ids import Epoch, OpId, RequestId
from actors.messages.requests import Request, RequestStage
from spark_tasks.config.healing import Healing
from storage.config.state import ClusterConfigState, RestartRequest
from storage.ids import Config, ConnectorName, ConnectorTaskId, ItemId, State, WorkerId
from storage.status.state import Restarts, Stall


def is_task(item: ItemId) -> bool:
    """Whether the item is a task and not a Connector instance."""
    return isinstance(item, ConnectorTaskId)


def connector_of(item: ItemId) -> ConnectorName:
    """The connector that the item is or belongs to."""
    return item.connector if isinstance(item, ConnectorTaskId) else item


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
    healing: Callable[[Config], Healing] = field(default=lambda _: Healing(), compare=False)


@dataclass(frozen=True, slots=True)
class Slot:
    """One running instance of an item on this worker.

    `made`: the task configs that the connector made last. `waiting`: requests that are answered by the first report of
    the instance (or of its successor, where `start_again` is set). `restarting`: the successor's start is announced as
    RESTARTING (KIP-745). `healing`: what has heeler restart it by itself, failure or stall. `permanent`: no restart
    cures its failure. `stalled`: while it makes no progress.
    """

    epoch: Epoch
    state: State | None = None
    trace: str | None = None
    version: str | None = None
    stopping: bool = False
    start_again: bool = False
    restarting: bool = False
    healing: str = ""
    permanent: bool = False
    stalled: Stall | None = None
    waiting: tuple[RequestId, ...] = ()
    disowned: bool = False  # of a membership that was lost: its end is told as by one who is not in the group
    made: tuple[Config, ...] | None = None


@dataclass(frozen=True, slots=True, order=True)
class Queued:
    """A request in its turn: by due time, then in the order of arrival. Without a request id it is the herder's own.

    `until_ms`: when it has waited long enough for the group to settle; None: it waits for as long as it takes.
    """

    at_ms: int
    seq: int
    request_id: RequestId | None = field(compare=False)
    request: Request | OwnRequest = field(compare=False)
    until_ms: int | None = field(default=None, compare=False)


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


@dataclass(frozen=True, slots=True)
class Restart:
    """The herder's own request: restart an instance that has failed or stalled (errors.restart.*)."""

    item: ItemId
    epoch: Epoch
    cause: str  # failure, stall


OwnRequest = Reconfigure | Publish | RecordFencing | Restart


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
class Healed:
    """What is done by itself about an item that failed (errors.restart.*). `epoch`: the instance that did, `cause` in a
    line, `permanent`: no restart cures it, `next_ms`: the restart that is planned, `recent`: when it was restarted
    lately, `count`: how often in all.
    """

    epoch: Epoch
    cause: str = ""
    permanent: bool = False
    next_ms: int | None = None
    recent: tuple[int, ...] = ()
    count: int = 0

    @property
    def told(self) -> Restarts:
        """As the status topic says it."""
        return Restarts(self.count, self.cause, self.next_ms, self.permanent)


@dataclass(frozen=True, slots=True)
class HerderState:
    """Everything the herder knows.

    `store` is the newest snapshot of the config topic; `config` the one that decisions are made on, taken over at
    defined moments only. `needs_rebalance` is the config offset that the next round has to cover, `settled_ms` when
    the last one ended. `allocation` is what this worker shall run, `slots` what it does run, `changed` the items whose
    slots the last step changed; `release` is what the group waits for. `announced` is what the leader was told of it.
    `busy` is the op that the request queue waits for. `claims` counts how often a claim to write the config topic was
    answered. `patience_at`: when the herder is woken for requests that waited long enough. `healed`: what failed and
    is restarted by itself.
    """

    settings: HerderSettings
    standing: Standing = field(default_factory=Loading)
    store: ClusterConfigState = field(default_factory=ClusterConfigState)
    config: ClusterConfigState = field(default_factory=ClusterConfigState)
    allocation: Allocation = field(default_factory=Allocation)
    slots: Mapping[ItemId, Slot] = field(default_factory=dict)
    release: Release = field(default_factory=NothingReleased)
    status_writes: StatusWrites = StatusWrites.CURRENT
    announced: Allocation = field(default_factory=Allocation)
    backoff_attempts: int = 0
    needs_rebalance: int | None = None
    settled_ms: int = 0
    connector_updates: frozenset[ConnectorName] = frozenset()
    task_updates: frozenset[ConnectorTaskId] = frozenset()
    target_changes: frozenset[ConnectorName] = frozenset()
    restarts: Mapping[ConnectorName, RestartRequest] = field(default_factory=dict)
    queue: tuple[Queued, ...] = ()
    validating: Mapping[RequestId, Queued] = field(default_factory=dict)
    patience_at: int | None = None
    ops: Mapping[OpId, Continuation] = field(default_factory=dict)
    busy: OpId | None = None
    claims: int = 0
    fencings: Mapping[ConnectorName, Fencing] = field(default_factory=dict)
    healed: Mapping[ItemId, Healed] = field(default_factory=dict)
    counter: int = 0
    stage: RequestStage | None = None
    changed: frozenset[ItemId] = field(default=frozenset(), compare=False)

    @property
    def phase(self) -> Phase:
        """Where the worker stands in its group."""
        return self.standing.phase

    @property
    def member(self) -> Member | Absence:
        """What the worker is in its group."""
        return self.standing.member

    @property
    def membership(self) -> Membership | None:
        """Of the last round; None where the worker is not in the group."""
        return None if isinstance(self.member, Absence) else self.member.membership

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads the group, as far as it knows."""
        return isinstance(self.member, Leader)

    @property
    def claim(self) -> int | None:
        """The claim under which this worker writes the config topic; None where it leads not or holds none."""
        return self.member.claim if isinstance(self.member, Leader) else None

    @property
    def leader_url(self) -> str | None:
        """The leader's REST address, if any is known."""
        return self.membership.assignment.leader_url or None if self.membership else None

    @property
    def generation(self) -> int:
        """The group generation that statuses are written under."""
        return self.membership.generation if self.membership else NO_GENERATION

    @property
    def releasing(self) -> frozenset[ItemId]:
        """What is being stopped and the group waits for."""
        return self.release.items

    @property
    def released(self) -> bool:
        """Whether the group waits for nothing of ours."""
        return isinstance(self.release, NothingReleased)

    @property
    def flushing(self) -> bool:
        """Whether statuses are being written that the group waits for."""
        return isinstance(self.release, FlushingStatuses)

    def expects(self, then: Continuation) -> bool:
        """Whether an op is under way whose end leads to this."""
        return then in self.ops.values()

    def own_requests(self) -> list[Request | OwnRequest]:
        """What the herder wants of itself."""
        return [queued.request for queued in self.queue if queued.request_id is None]

    def allocated(self) -> tuple[ItemId, ...]:
        """The allocation as items, connectors first."""
        return (*self.allocation.connectors, *self.allocation.tasks)
