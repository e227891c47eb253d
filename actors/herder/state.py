"""The herder's complete state as one frozen value, and the values in it.

Only the modules of this package change it, through `turn.Turn`; mappings are replaced, never modified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from actors.assignment.protocol import Allocation, Membership
from actors.herder.continuations import Continuation
from actors.herder.fencing_state import Fencing
from actors.herder.instance import Instance
from actors.herder.own_requests import OwnRequest
from actors.herder.patch_state import Patched
from actors.herder.standing import (
    NO_GENERATION,
    Absence,
    Leader,
    Loading,
    Member,
    NothingReleased,
    Phase,
    Release,
    Standing,
    StatusWrites,
)
from actors.messages.correlation_ids import Epoch, OpId, RequestId
from actors.messages.requests import Request, RequestStage
from spark_tasks.config.restart_policy import RestartPolicy
from storage.config.state import ClusterConfigState, RestartRequest
from storage.ids import Config, ConnectorName, ConnectorTaskId, ItemId, WorkerId
from storage.status.state import Restarts


def is_task(item: ItemId) -> bool:
    """Whether the item is a task and not a Connector instance."""
    return isinstance(item, ConnectorTaskId)


def connector_of(item: ItemId) -> ConnectorName:
    """The connector that the item is or belongs to."""
    return item.connector if isinstance(item, ConnectorTaskId) else item


@dataclass(frozen=True, slots=True)
class HerderSettings:
    """The part of the worker's configuration that the herder's decisions depend on. Times in ms."""

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
    sessioned: bool = True  # requests between workers are signed if the group's protocol requires it
    connector_type: Callable[[Config], str] = field(default=lambda _: "unknown", compare=False)  # returns at once
    restart_policy: Callable[[Config], RestartPolicy] = field(default=lambda _: RestartPolicy(), compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Queued:
    """A request in the queue, ordered by due time, then by arrival. Without a request id it is the herder's own.

    `until_ms`: when the request is refused if the group has not become stable; None: it waits without a limit.
    """

    at_ms: int
    seq: int
    request_id: RequestId | None = field(compare=False)
    request: Request | Patched | OwnRequest = field(compare=False)
    until_ms: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AutomaticRestarts:
    """The automatic restarts of an item that failed or stalled (errors.restart.*).

    `epoch`: the instance that failed; `cause`: why, in one line; `outlook`: when the next restart is planned (ms),
    "permanent" if a restart cannot fix it, None if neither; `recent`: the times of recent restarts; `count`: the number
    of all restarts.
    """

    epoch: Epoch
    cause: str = ""
    outlook: int | Literal["permanent"] | None = None
    recent: tuple[int, ...] = ()
    count: int = 0

    @property
    def next_ms(self) -> int | None:
        """When the next restart is planned."""
        return None if self.outlook == "permanent" else self.outlook

    @property
    def restarts(self) -> Restarts:
        """The part that is written to the status topic."""
        return Restarts(self.count, self.cause, self.next_ms, self.outlook == "permanent")


@dataclass(frozen=True, slots=True)
class HerderState:
    """Everything the herder knows.

    `store` is the newest snapshot of the config topic; `config` is the one that decisions are based on, which is
    updated only at defined moments. `needs_rebalance` is the config offset that the next rebalance has to cover,
    `settled_ms` is when the last rebalance ended. `allocation` is what this worker has to run, `instances` is what it
    runs, `changed` is the items whose instances the last step changed, `announced` is the allocation that was last sent
    to the leader, and `release` is what the group waits for. `busy` is the op that the queue waits for. `claims` counts
    the answers to claims to write the config topic; `failed_claims` and `failed_keys` count failures in a row, of
    claims and of writing a session key. `request_timeout_at`: when the timer for requests that have waited too long
    fires. `automatic_restarts`: of what failed or stalled. `clock_ms`: the time of the last event.
    """

    settings: HerderSettings
    standing: Standing = field(default_factory=Loading)
    store: ClusterConfigState = field(default_factory=ClusterConfigState)
    config: ClusterConfigState = field(default_factory=ClusterConfigState)
    allocation: Allocation = field(default_factory=Allocation)
    instances: Mapping[ItemId, Instance] = field(default_factory=dict)
    release: Release = field(default_factory=NothingReleased)
    status_writes: StatusWrites = StatusWrites.CURRENT
    announced: Allocation = field(default_factory=Allocation)
    backoff_attempts: int = 0
    needs_rebalance: int | None = None
    settled_ms: int = 0
    connector_updates: frozenset[ConnectorName] = frozenset()
    task_updates: frozenset[ConnectorTaskId] = frozenset()
    reconfigured: frozenset[ConnectorTaskId] = frozenset()
    target_changes: frozenset[ConnectorName] = frozenset()
    restarts: Mapping[ConnectorName, RestartRequest] = field(default_factory=dict)
    queue: tuple[Queued, ...] = ()
    validating: Mapping[RequestId, Queued] = field(default_factory=dict)
    request_timeout_at: int | None = None
    ops: Mapping[OpId, Continuation] = field(default_factory=dict)
    busy: OpId | None = None
    claims: int = 0
    failed_claims: int = 0
    failed_keys: int = 0
    fencings: Mapping[ConnectorName, Fencing] = field(default_factory=dict)
    automatic_restarts: Mapping[ItemId, AutomaticRestarts] = field(default_factory=dict)
    counter: int = 0
    stage: RequestStage | None = None
    changed: frozenset[ItemId] = field(default=frozenset(), compare=False)
    clock_ms: int = field(default=0, compare=False)

    @property
    def phase(self) -> Phase:
        """The worker's standing in its group, by name."""
        return self.standing.phase

    @property
    def member(self) -> Member | Absence:
        """The worker's role in its group, or why it has none."""
        return self.standing.member

    @property
    def membership(self) -> Membership | None:
        """The membership since the last rebalance; None if the worker is not in the group."""
        return None if isinstance(self.member, Absence) else self.member.membership

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads the group, as far as it knows."""
        return isinstance(self.member, Leader)

    @property
    def claim(self) -> int | None:
        """The claim under which this worker writes the config topic; None if it is not the leader or holds none."""
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
        """The items that are being stopped and that the group waits for."""
        return self.release.items

    @property
    def released(self) -> bool:
        """Whether the group waits for nothing on this worker."""
        return isinstance(self.release, NothingReleased)

    @property
    def expects_rebalance(self) -> bool:
        """Whether changed configs need another rebalance."""
        return self.needs_rebalance is not None or bool(self.task_updates)

    def expects(self, then: Continuation) -> bool:
        """Whether an op with this continuation is in progress."""
        return then in self.ops.values()

    def own_requests(self) -> list[Request | Patched | OwnRequest]:
        """The herder's own requests in the queue."""
        return [queued.request for queued in self.queue if queued.request_id is None]

    def allocated(self) -> tuple[ItemId, ...]:
        """The allocation as items, connectors first."""
        return (*self.allocation.connectors, *self.allocation.tasks)
