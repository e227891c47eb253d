"""The group of a simulated cluster: a broker's coordinator, each worker's member as driver.py drives it, and the real
assignors with real bytes. Nothing happens by itself: the scheduler takes one step after another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from actors.assignment.codec import CodecError, decode_assignment, encode_metadata
from actors.assignment.cooperative import AssignorState
from actors.assignment.leader import RebalancePlan, plan
from actors.assignment.protocol import Allocation, MemberMetadata, Membership, Protocol
from actors.assignment.record_size import DEFAULT_RECORD_BYTES
from actors.assignment.weights import KEY
from actors.group.leader_queries import LeaderNotes
from actors.messages.events import CoordinatorLost, Joined, JoinPreparing
from storage.config.state import ClusterConfigState


class Broker:
    """The coordinator: the members, and the progress of the rebalance."""

    def __init__(self, protocol: Protocol, max_delay_ms: int, now: Callable[[], int]) -> None:
        self.protocol = protocol
        self.max_delay_ms = max_delay_ms
        self.now = now
        self.members: dict[str, bytes | None] = {}  # None: has not joined the rebalance yet
        self.generation = 0
        self.leader: str | None = None
        self.syncing = False  # the rebalance is complete; assignments are being handed out, or were
        self.assignments: dict[str, bytes] | None = None
        self.record_bytes = DEFAULT_RECORD_BYTES
        self.counting: set[str] = set()  # workers that know no weights, as Java's
        self.intruders: dict[str, bytes] = {}  # members that are not workers, and what they say when they join
        self.misled: Callable[[dict[str, bytes]], dict[str, bytes]] | None = None  # what a hostile leader sends instead
        self._ids = 0

    def join(self, id_: str | None, worker: str, metadata: bytes) -> str:
        """A JoinGroup request; it is answered when the rebalance is complete."""
        if id_ is None:
            self._ids += 1
            id_ = f"{worker}#{self._ids}"
        if self.syncing:
            self.restart_rebalance()
        self.members[id_] = metadata
        self._complete()
        return id_

    def intrude(self, name: str, metadata: bytes) -> None:
        """A client that is not a worker joins, in each rebalance again; never first, so it never leads."""
        self.intruders[name] = metadata
        if self.syncing:
            self.restart_rebalance()
        self.members[name] = metadata
        self._complete()

    def remove(self, id_: str | None) -> None:
        """A member left, or its session expired."""
        if id_ in self.members:
            del self.members[id_]
            if self.syncing:
                self.restart_rebalance()
            self._complete()

    def restart(self, *, forgets: bool) -> None:
        """The broker ends and starts again: it remembers members of a completed rebalance, unless it forgets the group.
        """
        if forgets:
            self.members, self.generation, self.leader = {}, 0, None
        if forgets or not self.syncing or self.assignments is None:
            self.restart_rebalance()

    def missing(self) -> list[str]:
        """Members that the rebalance waits for."""
        return [] if self.syncing else [id_ for id_, data in self.members.items() if data is None]

    def restart_rebalance(self) -> None:
        """All members have to join again."""
        self.syncing, self.assignments = False, None
        self.members = {id_: self.intruders.get(id_) for id_ in self.members}

    def _complete(self) -> None:
        if not self.members.keys() - self.intruders:  # the last worker is gone, and with it the group
            self.members.clear()
        if self.members and not self.missing():
            self.generation += 1
            workers = [id_ for id_ in self.members if id_ not in self.intruders]
            self.leader = self.leader if self.leader in self.members else workers[0]
            self.syncing = True


@dataclass
class Member:
    """One worker's member. `tell` sends events to its herder, `snapshot` is what it has read of the config topic."""

    worker: str
    broker: Broker
    tell: Callable[[Any], None]
    snapshot: Callable[[], ClusterConfigState]
    id: str | None = None
    wanted: bool = False
    needs: bool = False  # a join
    asked: bool = False  # JoinPreparing is not answered
    owned: Allocation | None = None  # the herder's permission to join
    joining: bool = False  # a JoinGroup or SyncGroup request is on its way
    joined: bool = False
    generation: int = -1  # of the running join
    last_completed: int = -1
    again: bool = False
    lost: bool = False  # since the question was asked
    void: bool = False  # the membership was lost while the join ran
    assignor: AssignorState = field(default_factory=AssignorState)
    plan: RebalancePlan | None = None
    notes: LeaderNotes = field(default_factory=lambda: LeaderNotes("g"))

    # ------------------------------------------------------------ the herder's commands
    def join(self) -> None:
        self.wanted = self.needs = True

    def allow(self, owned: Allocation) -> None:
        if self.asked:
            self.asked = False
            if self.wanted and not self.lost:
                self.owned = owned

    def rejoin(self, caught_up: int | None = None) -> None:
        if caught_up is not None:
            self.notes.caught_up(caught_up)
        self.again = self.needs = True

    def leave(self) -> None:
        self.wanted = self.joined = self.joining = self.asked = False
        self.owned = None
        self.broker.remove(self.id)
        self.id = None

    # ------------------------------------------------------------ what the scheduler may do
    def can_step(self) -> bool:
        """Whether this member can do something now."""
        if self.joining:
            return self._answered() is not None
        return self.wanted and not self.asked and (self.needs or self._heartbeat() is not None)

    def step(self) -> None:
        """The most urgent step, like the driver."""
        if self.joining:
            self._take_answer()
        elif not self.needs:
            if self._heartbeat() == "unknown":
                self.lose("the group rebalanced without this worker", forget=True)
            self.needs = True
        elif self.owned is None:
            self.asked, self.lost = True, False
            self.tell(JoinPreparing(eager=self.broker.protocol is Protocol.EAGER))
        else:
            self._join(self.owned)

    def lose(self, reason: str, *, forget: bool) -> None:
        """What ends a membership: the coordinator cannot be found, the session expires, and so on."""
        if forget:
            self.id = None
        self.owned = None
        self.void = self.joining
        if self.joined:
            self.joined = False
            self.lost = self.needs = True
            self.tell(CoordinatorLost(reason))

    def _heartbeat(self) -> str | None:
        if self.id is None or not self.joined:
            return None
        if self.id not in self.broker.members:
            return "unknown"
        return "rebalance" if self.broker.members[self.id] is None else None

    def _join(self, owned: Allocation) -> None:
        if self.id is not None and self.id not in self.broker.members:
            self.lose("unknown member", forget=True)
            return
        self.again = self.void = False
        metadata = MemberMetadata(f"http://{self.worker}/", self.snapshot().offset, owned)
        self.id = self.broker.join(self.id, self.worker, encode_metadata(metadata, self.broker.protocol))
        self.joining, self.generation = True, -1

    def _answered(self) -> str | None:
        """The response to the JoinGroup or SyncGroup request, if there is one."""
        broker = self.broker
        if self.id not in broker.members:
            return "unknown"
        if self.generation >= 0 and (self.generation != broker.generation or not broker.syncing):
            return "again"
        if not broker.syncing:
            return None if broker.members[self.id] is not None else "again"
        if broker.assignments is None and broker.leader == self.id:
            return "lead"
        if self.generation < 0 and broker.generation:
            return "sync"
        return "done" if broker.assignments is not None else None

    def _take_answer(self) -> None:
        broker = self.broker
        match self._answered():
            case "unknown":
                self.joining = False
                self.lose("unknown member", forget=True)
                self.needs = True
            case "again":
                self.joining, self.needs = False, True  # joins again with the same permission
            case "lead":
                self.generation = broker.generation
                broker.assignments = dict(self._lead())
                if broker.misled is not None:
                    broker.assignments = broker.misled(broker.assignments)
            case "sync":
                self.generation = broker.generation
            case "done":
                self._done()

    def _lead(self) -> Any:
        broker, config = self.broker, self.snapshot()
        if self.worker in broker.counting:
            config = replace(config, connector_configs={
                name: {k: v for k, v in one.items() if k != KEY} for name, one in config.connector_configs.items()})
        self.plan = plan(
            self.assignor, broker.protocol, {k: v or b"" for k, v in broker.members.items()}, config,
            leader=self.id or "", generation=broker.generation, last_completed=self.last_completed,
            now_ms=broker.now(), max_delay_ms=broker.max_delay_ms, doubted=self.notes.doubted,
            record_bytes=broker.record_bytes,
        )
        self.assignor = self.plan.state
        return self.plan.assignments

    def _done(self) -> None:
        broker, id_ = self.broker, self.id or ""
        try:
            assignment = decode_assignment((broker.assignments or {})[id_])
        except CodecError as error:
            self.joining, self.needs = False, True
            self.lose(str(error), forget=False)
            return
        self.joining, self.needs, self.last_completed = False, self.again, broker.generation
        led = self.plan if self.plan is not None and self.plan.generation == broker.generation else None
        if self.void:
            self.needs = True
            return
        self.owned, self.joined = None, True
        if led is not None:
            self.notes.followed(led)
        more = () if led is None else (led.owners, led.left_out, led.room, led.record_bytes, led.workers)
        self.tell(Joined(Membership(broker.generation, id_, broker.protocol, assignment, *more)))
