"""Splits of connectors whose plugins bind their processes, with fewer processes than connectors, for any of them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.spark.residents.binding import KEEP_S, Choice, best_for
from spark_tasks.spark.residents.fairness import FairQueue, Limits, Room

TICK_S, START_S, TOTAL_S = 0.1, 0.3, 90.0
SPARE = 1


@dataclass(eq=False)
class Process:
    until: float  # when it joins, or its split ends
    connector: str = ""
    bound_at: float = 0.0


class World:
    """Time, a queue, and as many processes as there may be. Connectors that bind processes always have splits; others
    have one for each `pause_s` after their last one, or always, too.
    """

    def __init__(self, binds: list[bool], seconds: float, most: int, pause_s: float = 0.0) -> None:
        self.binds = {f"{name}-0": value for name, value in zip("abcdef", binds, strict=False)}
        self.seconds, self.most, self.pause_s = seconds, most, pause_s
        self.later: list[tuple[float, str]] = []
        most_each = max(1, most * 3 // 4)
        self.queue: FairQueue[float] = FairQueue(Limits(most_each, most_each))
        self.now = 1.0
        self.starting: list[Process] = []
        self.busy: list[Process] = []
        self.idle: list[Process] = []
        self.started = 0
        self.longest_wait = 0.0  # since the last split of the same connector
        self.served: dict[str, float] = {}
        for task in self.binds:
            for _ in range(1 if pause_s and not self.binds[task] else most + 1):
                self.queue.put(task, self.now)

    def tick(self) -> None:
        self.now += TICK_S
        for one in [one for one in self.starting if one.until <= self.now]:
            self.starting.remove(one)
            self.idle.append(one)
            self.dispatch()
        for one in [one for one in self.busy if one.until <= self.now]:
            self.busy.remove(one)
            task = f"{one.connector}-0"
            self.queue.ended(task)
            self.later.append((self.now + (0.0 if self.binds[task] else self.pause_s), task))
            one.bound_at = (one.bound_at or self.now) if self.binds[task] else 0.0
            self.idle.append(one)
            self.dispatch()
        for at, task in [each for each in self.later if each[0] <= self.now]:
            self.later.remove((at, task))
            self.queue.put(task, self.now)
        self.dispatch()
        for task in self.binds:
            for at in self.queue.waiting(task)[:1]:
                self.longest_wait = max(self.longest_wait, self.now - max(at, self.served.get(task, 0.0)))

    def dispatch(self) -> None:
        """As the pool does."""
        everybody = [*self.idle, *self.busy]
        binders = {one.connector for one in everybody if one.bound_at}
        soon = any(not one.bound_at and one.until - self.seconds > self.now - KEEP_S for one in self.busy)
        kept_back = SPARE if self.free <= 0 else 0
        choice = Choice(self.idle, len(self.starting), binders, soon=soon, kept_back=kept_back)
        if self.free <= 0:
            for one in choice.to_evict(self.queue.in_turn(self.room), self.now):
                assert self.now - one.bound_at >= KEEP_S
                self.idle.remove(one)
        while self.idle and (taken := self.queue.take(may=choice.may_run())) is not None:
            connector = taken[0][:-2]
            one = best_for(connector, self.idle)
            assert one is not None
            own = [each for each in self.idle if each.bound_at and each.connector == connector]
            assert one in own if own else not one.bound_at
            self.idle.remove(one)
            one.connector, one.until = connector, self.now + self.seconds
            self.busy.append(one)
            self.served[taken[0]] = self.now
        wanted = self.queue.takeable(self.room) + SPARE
        available = len(self.starting) + sum(not one.bound_at for one in self.idle)
        for _ in range(min(wanted - available, self.free)):
            self.starting.append(Process(self.now + START_S))
            self.started += 1

    @property
    def room(self) -> Room:
        return Room(self.most - len(self.busy), self.most - len(self.busy))

    @property
    def free(self) -> int:
        return self.most - len(self.starting) - len(self.busy) - len(self.idle)


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.sampled_from([0.1, 0.5, 2.0]), st.integers(1, 5),
       st.sampled_from([0.0, 1.0]))
@example([True, True, False], 0.1, 3, 1.0)
@example([True, True, True, False, False], 0.1, 4, 0.0)
@example([True, True, True], 0.1, 2, 0.0)
@example([True] * 6, 2.0, 1, 0.0)
def test_all_connectors_go_on_and_processes_are_kept_for_a_while(
    binds: list[bool], seconds: float, most: int, pause_s: float
) -> None:
    world = World(binds, seconds, most, pause_s)
    while world.now < TOTAL_S:
        world.tick()
    turn_s = KEEP_S + 2 * seconds + START_S + 2 * TICK_S
    assert world.longest_wait <= len(binds) * turn_s
    assert world.started <= most * (1 + TOTAL_S / 3), "each is kept for 3 s at least"
    if sum(binds) < most:
        assert world.started <= most * (1 + TOTAL_S / 30), "one remains shared, in which the others take turns"
    if not any(binds):
        assert world.started <= most
