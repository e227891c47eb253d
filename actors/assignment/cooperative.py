"""The incremental cooperative assignor (KIP-415): only what has to move is stopped.

A rebalance assigns items that no member runs, and revokes items that are deleted, run twice, or exceed a worker's fair
share; the following rebalance assigns what was revoked. The work of a worker that disappeared is held for its return
until `scheduled.rebalance.max.delay.ms` has passed; a worker that returns at the same REST address gets it back at
once. Only the leader remembers anything between rebalances, in its AssignorState; a new leader starts with an empty
one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from actors.assignment.eager import config_mismatch
from actors.assignment.protocol import Allocation, Assignment, MemberMetadata
from actors.assignment.weights import Weights
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorTaskId, ItemId

_BACKOFF_BASE = 40  # successive rebalances that revoke work wait 1 ms x 40^n (KAFKA-12495)
_BACKOFF_STEPS = 8  # 40^8 ms are 200 years; no need for larger numbers

_Loads = dict[str, set[ItemId]]


@dataclass(frozen=True, slots=True)
class Holder:
    """The member that an item was assigned to: its id at that time, and its worker's REST address."""

    member: str
    url: str


@dataclass(frozen=True, slots=True)
class AssignorState:
    """What the leader remembers of earlier rebalances.

    `previous` is everything that the last rebalance left assigned, with the members that got it; lost work that is
    being held still belongs to its former holder. It is valid only if that rebalance (`generation`) was completed.
    `due_ms` is the time at which a delay ends, None if there is no delay; `candidates` are the members that had no work
    during the delay. `revoked_to_balance`: the last rebalance revoked work to balance the load; `successive`: how often
    balancing has been postponed.
    """

    generation: int = -1
    previous: Mapping[ItemId, Holder] = field(default_factory=dict)
    members: frozenset[str] = frozenset()
    due_ms: int | None = None
    candidates: tuple[str, ...] = ()
    revoked_to_balance: bool = False
    successive: int = 0


def assign(
    state: AssignorState,
    members: Mapping[str, MemberMetadata],
    config: ClusterConfigState,
    *,
    leader: str,
    generation: int,
    last_completed: int,
    now_ms: int,
    max_delay_ms: int,
    idle: Collection[str] = (),
    left_out: Collection[ItemId] = (),
    max_moved: int | None = None,
) -> tuple[AssignorState, dict[str, Assignment]]:
    """One rebalance. Pure; times are milliseconds of any one clock.

    `members` is keyed by member id and holds `leader`; `generation` is this rebalance's, `last_completed` the last one
    that the leader itself saw complete (-1: none). If the leader's `config` is behind a member's, every member gets
    CONFIG_MISMATCH and the state is kept.

    `idle` members keep what they run and get nothing new; the config offsets that they report are ignored. Items in
    `left_out` are assigned to no member. `max_moved` limits how many items are revoked to balance the load.
    """
    # The members may not have received the assignments of an unfinished rebalance, so its state cannot be used.
    state = state if state.generation == last_completed else AssignorState()
    newest = max(member.config_offset for id_, member in members.items() if id_ not in idle)
    if config.offset < newest:
        return replace(state, generation=generation), config_mismatch(members, leader=leader, offset=newest)
    work = _Rebalance(state, members, config, frozenset(idle), frozenset(left_out), max_moved)
    state = work.run(now_ms, max_delay_ms)
    delay_ms = 0 if state.due_ms is None else state.due_ms - now_ms
    url = members[leader].url
    assignments = {
        id_: Assignment(
            leader,
            url,
            config.offset,
            Allocation.of(work.loads.get(id_, set()) - work.owned[id_]),
            Allocation.of(work.revoked[id_]),
            delay_ms,
        )
        for id_ in members
    }
    return replace(state, generation=generation), assignments


class _Rebalance:
    """The working sets of one rebalance. `loads` is what each member will run, `revoked` what it must stop.

    `idle` members have no load; what they keep is in `kept`.
    """

    def __init__(
        self, state: AssignorState, members: Mapping[str, MemberMetadata], config: ClusterConfigState,
        idle: frozenset[str], left_out: frozenset[ItemId], max_moved: int | None,
    ) -> None:
        self.state = state
        self.max_moved = max_moved
        self.weights = Weights.of(config)
        self.urls = {id_: member.url for id_, member in members.items()}
        self.owned = {id_: member.owned.items if member.owned else frozenset() for id_, member in members.items()}
        names = config.connectors()
        self.configured: frozenset[ItemId] = frozenset(names).union(*(config.tasks(name) for name in names)) - left_out
        holders = Counter(item for items in self.owned.values() for item in items)
        active = holders.keys()
        # Items that are no longer configured are revoked, even if a former leader assigned them. Items that run twice
        # are revoked from all members if the rightful holder is unknown, and assigned again in the next rebalance.
        twice = {item for item, count in holders.items() if count > 1}
        rightful = {item: holder for item in twice if (holder := self._rightful(item)) is not None}
        gone = active - self.configured
        self.loads: _Loads = {}
        self.revoked: _Loads = {}
        self.kept: dict[ItemId, str] = {}
        for id_, items in self.owned.items():
            unwanted = {item for item in items if item in gone or (item in twice and rightful.get(item) != id_)}
            self.revoked[id_] = unwanted
            if id_ in idle:
                self.kept |= dict.fromkeys(items - unwanted, id_)
            else:
                self.loads[id_] = set(items - unwanted)
        missing = (state.previous.keys() & self.configured) - active
        self.back = {item: back for item in missing if (back := self._newcomer(state.previous[item])) is not None}
        # Another rebalance may have begun before all members received the last assignments. If a member of both does
        # not claim an item, the assignment never reached it: the item is not lost work to be held.
        present = state.members & self.urls.keys()
        self.lost = frozenset(item for item in missing - self.back.keys() if state.previous[item].member not in present)
        self.created: frozenset[ItemId] = self.configured - active - self.back.keys() - self.lost

    def _rightful(self, item: ItemId) -> str | None:
        """The member that may keep an item that is claimed twice: the one that the last rebalance assigned it to, which
        the others have missed.
        """
        holder = self.state.previous.get(item)
        return holder.member if holder is not None and item in self.owned.get(holder.member, ()) else None

    def _newcomer(self, holder: Holder) -> str | None:
        """The member that has joined, since the last rebalance, from the address of a holder that left, or None:
        the same worker is back.
        """
        if holder.member in self.urls:
            return None
        return min((id_ for id_ in self.loads if self.urls[id_] == holder.url and id_ not in self.state.members),
                   default=None)

    def run(self, now_ms: int, max_delay_ms: int) -> AssignorState:
        """Fills `loads` and `revoked`; the returned state lacks the generation."""
        idle = tuple(sorted(id_ for id_, load in self.loads.items() if not load))
        waiting = self._delayed(idle, now_ms, max_delay_ms)
        if waiting is None:
            expired = self.state.due_ms is not None and now_ms >= self.state.due_ms
            # After a full delay, the next balancing no longer counts as a successive one.
            state = self._balance(now_ms, max_delay_ms, successive=self.state.revoked_to_balance and not expired)
            left = self._return_to_candidates() if expired else self.lost
            new, waits = self.created | left, frozenset[ItemId]()
        else:
            state, new, waits = waiting, self.created, self.lost
        for kind in _kinds(new | self._give_back()):
            if self._weighted(kind):
                self.weights.give(self.loads, [item for item in kind if isinstance(item, ConnectorTaskId)])
            else:
                _give_to_least_loaded(self.loads, kind)
        given = {item: self.state.previous[item] for item in waits}
        for item, id_ in self.kept.items():
            given[item] = Holder(id_, self.urls[id_])
        for id_, load in self.loads.items():
            given |= dict.fromkeys(load, Holder(id_, self.urls[id_]))
        return replace(state, previous=given, members=frozenset(self.owned))

    def _weighted(self, kind: list[ItemId]) -> bool:
        """Whether these are tasks, and some connector has a weight."""
        return bool(self.weights) and isinstance(kind[0], ConnectorTaskId)

    def _give_back(self) -> frozenset[ItemId]:
        """Gives workers that are back what they had, up to the fair share; returns the rest."""
        rest = set(self.back)
        for kind in _kinds(self.back):
            if self._weighted(kind):
                for item in kind:  # balancing revokes later what exceeds the fair share by now
                    self.loads[self.back[item]].add(item)
                rest.difference_update(kind)
                continue
            fair, extras = divmod(len(_of_kind(self.configured, kind[0])), len(self.loads))
            held = {id_: len(_of_kind(load, kind[0])) for id_, load in self.loads.items()}
            extras -= sum(count > fair for count in held.values())
            for item in kind:
                id_ = self.back[item]
                if held[id_] < fair or (held[id_] == fair and extras > 0):
                    extras -= held[id_] == fair
                    held[id_] += 1
                    self.loads[id_].add(item)
                    rest.discard(item)
        return frozenset(rest)

    def _delayed(self, idle: tuple[str, ...], now_ms: int, max_delay_ms: int) -> AssignorState | None:
        """The state while lost work is held or balancing is postponed; None if nothing has to wait (any longer)."""
        state = self.state
        if max_delay_ms == 0:
            return None
        if state.due_ms is None:
            # Work is missing although no member left: its worker never received it.
            if not self.lost or state.members <= self.owned.keys():
                return None
            return replace(state, due_ms=now_ms + max_delay_ms, candidates=idle, revoked_to_balance=False, successive=0)
        if now_ms >= state.due_ms or not (self.lost or state.revoked_to_balance):
            return None
        candidates = (*state.candidates, *(id_ for id_ in idle if id_ not in state.candidates))
        # While lost work is held, the delay is for that work; once it is back, balancing need not wait.
        return replace(state, candidates=candidates, revoked_to_balance=state.revoked_to_balance and not self.lost)

    def _return_to_candidates(self) -> frozenset[ItemId]:
        """Gives lost work in turn to members that joined without any, up to the fair share; returns the rest."""
        rest = set(self.lost)
        for kind in _kinds(self.lost):
            if self._weighted(kind):
                continue  # `Weights.give` prefers members without work anyway
            fair, extras = divmod(len(_of_kind(self.configured, kind[0])), len(self.loads))
            held = {id_: len(_of_kind(load, kind[0])) for id_, load in self.loads.items()}
            takers = [id_ for id_ in self.state.candidates if id_ in held]
            turns = [id_ for turn in range(fair) for id_ in takers if turn < fair - held[id_]]
            turns += [id_ for id_ in takers if held[id_] <= fair][: extras - sum(n > fair for n in held.values())]
            for item, id_ in zip(kind, turns, strict=False):
                self.loads[id_].add(item)
                rest.discard(item)
        return frozenset(rest)

    def _balance(self, now_ms: int, max_delay_ms: int, *, successive: bool) -> AssignorState:
        """Revokes surplus work, or postpones that if the previous rebalance already revoked some."""
        surplus = self._bounded(self._surplus())
        if not any(surplus.values()):
            return AssignorState()
        postponed = self.state.successive
        if successive and max_delay_ms > 0:
            postponed += 1
            backoff_ms = min(_BACKOFF_BASE ** min(postponed, _BACKOFF_STEPS), max_delay_ms)
            return AssignorState(due_ms=now_ms + backoff_ms, revoked_to_balance=True, successive=postponed)
        for id_, items in surplus.items():
            self.loads[id_] -= items
            self.revoked[id_] |= items
        return AssignorState(revoked_to_balance=True, successive=postponed)

    def _bounded(self, surplus: _Loads) -> _Loads:
        """The part of the surplus that may be moved in one rebalance."""
        if self.max_moved is None:
            return surplus
        some = [(id_, item) for id_, items in surplus.items() for kind in _kinds(items) for item in kind]
        bounded: _Loads = {id_: set() for id_ in surplus}
        for id_, item in some[: self.max_moved]:
            bounded[id_].add(item)
        return bounded

    def _surplus(self) -> _Loads:
        """The items of each member beyond its fair share of everything that will be assigned in the end."""
        surplus: _Loads = {id_: set() for id_ in self.loads}
        for kind in _kinds(self.configured):
            if self._weighted(kind):
                held_by_any = self.kept.keys() | self.back.keys() | set().union(*self.loads.values())
                waiting = [item for item in kind if isinstance(item, ConnectorTaskId) and item not in held_by_any]
                for id_, items in self.weights.surplus(self.loads, self.back, waiting, self.max_moved).items():
                    surplus[id_] |= items
                continue
            fair, extras = divmod(len(kind), len(self.loads))
            held = {id_: sorted(_of_kind(load, kind[0])) for id_, load in self.loads.items()}
            for id_ in sorted(held, key=lambda id_: (-len(held[id_]), id_)):
                keeps = fair + 1 if extras > 0 else fair
                if len(held[id_]) > fair:
                    extras -= 1
                surplus[id_].update(held[id_][keeps:])
        return surplus


def _kinds(items: Iterable[ItemId]) -> list[list[ItemId]]:
    """Connectors and tasks in separate sorted lists; an empty list is omitted."""
    allocation = Allocation.of(items)
    return [list(kind) for kind in (allocation.connectors, allocation.tasks) if kind]


def _of_kind(items: Collection[ItemId], like: ItemId) -> list[ItemId]:
    tasks = isinstance(like, ConnectorTaskId)
    return [item for item in items if isinstance(item, ConnectorTaskId) is tasks]


def _give_to_least_loaded(loads: _Loads, kind: list[ItemId]) -> None:
    heap = [(len(_of_kind(load, kind[0])), id_) for id_, load in loads.items()]
    heapq.heapify(heap)
    for item in kind:
        count, id_ = heap[0]
        loads[id_].add(item)
        heapq.heapreplace(heap, (count + 1, id_))
