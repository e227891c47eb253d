"""How long the splits of a connector wait, whatever those of others do; on two CPUs that the system shares out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.process.process_state import CpuUse
from spark_tasks.spark.residents.batches import Item, SplitBatch
from spark_tasks.spark.residents.fairness import LINGERING_S, FairQueue, Room, Use
from spark_tasks.spark.residents.monitor import QUICK_S
from spark_tasks.spark.residents.process import Resident
from spark_tasks.spark.residents.settings import ExecutorSettings
from tests.rigs.executors import Threads

LAUNCHER = Threads()
TOTAL_S = 60.0
CPUS = 2
SETTINGS = ExecutorSettings(max_processes=64, running=2 * CPUS)
HEALTHY, PAUSE_S = (0.005, 0.0), 0.5  # it uses less than its part, if there are two hundred


@dataclass(eq=False)
class Running:
    """A split in its process: `cpu_s` of CPU time are left, and before that it waits for something else until `wakes`.
    """

    process: Resident
    item: Item
    cpu_s: float
    wakes: float
    used_s: float = 0.0

    def use(self, now: float) -> Use:
        return Use(self.used_s, now - self.process.since)


class World:
    """Connectors that always have a split, and a healthy one that has one for each PAUSE_S after the last one. `kinds`:
    for each of the others, what its splits do: how much CPU time they use, and how long they wait first. They come
    a second after the healthy one. Time and the system, which shares out the CPUs, are simulated.
    """

    def __init__(self, kinds: Sequence[Sequence[tuple[float, float]]]) -> None:
        self.queue: FairQueue[Item] = FairQueue(SETTINGS.limits(SETTINGS.max_processes))
        self.next: dict[str, Iterator[tuple[float, float]]] = {f"c{n}-0": cycle(kind) for n, kind in enumerate(kinds)}
        self.next["healthy-0"] = cycle([HEALTHY])
        self.now = 0.0
        self.busy: list[Running] = []
        self.due = dict.fromkeys(self.next, 1.0) | {"healthy-0": 0.0}
        self.longest_wait = 0.0

    def tick(self) -> None:
        self.now += QUICK_S
        computing = [one for one in self.busy if self.now >= one.wakes]
        for one in computing:
            share = min(one.cpu_s, QUICK_S * min(1.0, CPUS / len(computing)))
            one.cpu_s -= share
            one.used_s += share
        for one in [one for one in computing if one.cpu_s <= 0.0]:
            self.busy.remove(one)
            self.queue.ended(one.item.task, one.use(self.now), lingered=one.item.lingers)
            self.due[one.item.task] = self.now + (PAUSE_S if one.item.task == "healthy-0" else 0.0)
        for one in self.busy:
            one.process.measure(self.now, CpuUse(one.used_s, runnable=self.now >= one.wakes))
            self.queue.look(one.item, one.use(self.now))
        for task in [task for task, at in self.due.items() if at <= self.now]:
            self.queue.put(task, Item(SplitBatch(task, 1, submitted_at=self.now), 0, b""))
            self.due[task] = math.inf
        self.dispatch()
        for item in self.queue.waiting("healthy-0"):
            self.waited(item)

    def dispatch(self) -> None:
        while len(self.busy) < SETTINGS.max_processes and (taken := self.queue.take(self.room)) is not None:
            taken.item.brief = taken.brief
            cpu_s, wait_s = next(self.next[taken.task])
            process = Resident(0, LAUNCHER, item=taken.item, since=self.now)
            self.busy.append(Running(process, taken.item, cpu_s, self.now + wait_s))
            if taken.task == "healthy-0":
                self.waited(taken.item)

    def waited(self, item: Item) -> None:
        self.longest_wait = max(self.longest_wait, self.now - item.batch.submitted_at)

    @property
    def room(self) -> Room:
        return Room.beside([one.item for one in self.busy if not one.process.exempt], SETTINGS.running)


def longest_wait(kinds: Sequence[Sequence[tuple[float, float]]]) -> float:
    """Of the healthy one."""
    world = World(kinds)
    while world.now < TOTAL_S:
        world.tick()
    return world.longest_wait


SECONDS = st.sampled_from([0.0, 0.02, 0.1, 0.24, 0.3, 0.5, 2.5, 10.0, 1000.0])
GREEDY = st.lists(st.tuples(SECONDS, st.just(0.0)), min_size=1, max_size=5)
HUNG = st.lists(st.tuples(st.just(0.01), st.sampled_from([1.5, 5.0, 1000.0])), min_size=1, max_size=3)


@given(st.lists(GREEDY, max_size=30))
@example([[(0.02, 0.0), (0.02, 0.0), (2.5, 0.0)]] * 30)
@example([[(1000.0, 0.0)]] * 40)
def test_a_connector_with_short_splits_waits_for_one_long_split_of_each_other_until_it_is_found_out(
    greedy: list[list[tuple[float, float]]],
) -> None:
    """Whatever they do."""
    assert longest_wait(greedy) <= (len(greedy) / SETTINGS.running + 1) * (LINGERING_S + 2 * QUICK_S)


@given(st.integers(0, 50), st.sampled_from([0.3, 0.5, 2.5, 10.0]))
def test_it_does_not_wait_for_those_that_always_have_long_splits(count: int, seconds: float) -> None:
    assert longest_wait([[(seconds, 0.0)]] * count) == 0.0


@given(st.integers(0, 200), st.sampled_from([0.05, 0.1, 0.24]))
@example(200, 0.24)
def test_nor_for_the_turns_of_many_whose_splits_are_brief_too(count: int, seconds: float) -> None:
    """In turns, each of two hundred connectors would have a CPU for 0.24 of 24 seconds."""
    assert longest_wait([[(seconds, 0.0)]] * count) <= 1.5


@given(st.lists(HUNG, max_size=100), st.integers(0, 3))
@example([[(0.01, 1000.0)]] * 100, 3)
@example([[(0.01, 20.0)]] * 100, 0)
def test_nor_for_a_process_that_splits_of_others_hold(hung: list[list[tuple[float, float]]], greedy: int) -> None:
    """Only until it is seen that they use no CPU, which takes two looks; as many as may run begin at a time."""
    assert longest_wait([*hung, *[[(2.5, 0.0)]] * greedy]) <= SETTINGS.max_processes / SETTINGS.running * 2 * QUICK_S
