"""Which split runs next, for any order of events."""

from __future__ import annotations

from collections import Counter, deque
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.spark.residents.fairness import BRIEF_S, FairQueue, Limits, Room, Use, connector_of
from spark_tasks.spark.residents.turns import MOST_S

TASKS = [f"{name}-{n}" for name in "abc" for n in range(3)]
STEPS = st.lists(st.tuples(st.sampled_from(["put", "take", "take", "end", "back", "remove"]), st.sampled_from(TASKS)))


@given(STEPS, st.integers(1, 3), st.integers(1, 4))
def test_nothing_is_lost_or_duplicated_and_no_limit_is_exceeded(steps, max_per_task, max_per_connector):
    queue: FairQueue[int] = FairQueue(Limits(max_per_task, max_per_connector))
    waiting: dict[str, deque[int]] = {task: deque() for task in TASKS}
    running: Counter[str] = Counter()
    for number, (step, task) in enumerate(steps):
        before = queue.takeable()
        if step == "put":
            queue.put(task, number)
            waiting[task].append(number)
        elif step == "take":
            taken = queue.take()
            assert (taken is not None) == (before > 0)
            if taken is not None:
                whose, item = taken.task, taken.item
                assert waiting[whose].popleft() == item, "a task's splits come in their order"
                running[whose] += 1
        elif step == "end" and running[task]:
            queue.ended(task)
            running[task] -= 1
        elif step == "back" and running[task]:
            queue.put_back(task, -number)
            running[task] -= 1
            waiting[task].appendleft(-number)
        elif step == "remove":
            item = waiting[task][len(waiting[task]) // 2] if waiting[task] else 10**6
            assert queue.remove(task, item) == (item in waiting[task])
            if item in waiting[task]:
                waiting[task].remove(item)
        per_connector = Counter({name: sum(n for t, n in running.items() if connector_of(t) == name) for name in "abc"})
        assert max(running.values(), default=0) <= max_per_task
        assert max(per_connector.values()) <= max_per_connector
        assert len(queue) == sum(map(len, waiting.values()))
        room = {name: max_per_connector - per_connector[name] for name in "abc"}
        free = Counter({t: min(len(items), max_per_task - running[t]) for t, items in waiting.items()})
        assert queue.takeable() == sum(
            min(room[name], sum(n for t, n in free.items() if connector_of(t) == name)) for name in "abc"
        )


@given(st.lists(st.sampled_from(TASKS), min_size=1))
def test_a_connector_waits_for_at_most_one_split_of_each_other_connector(tasks):
    """Regardless of how many splits another connector has queued."""
    queue: FairQueue[str] = FairQueue(Limits(1000, 1000))
    for task in tasks:
        queue.put(task, task)
    order = [taken[0] for taken in iter(queue.take, None)]
    assert Counter(order) == Counter(tasks)
    for at in range(len(order)):
        rest = order[at:]
        connectors = list(dict.fromkeys(map(connector_of, rest)))
        assert {connector_of(t) for t in rest[: len(connectors)]} == set(connectors), "each connector once in a round"


def test_ending_a_split_that_never_ran_is_an_error():
    with pytest.raises(KeyError):
        FairQueue[int](Limits(1, 1)).ended("a-0")


@given(st.lists(st.sampled_from(TASKS), min_size=1), st.sets(st.sampled_from("abc")), st.integers(0, 20))
def test_connectors_that_have_no_process_are_passed_over_and_keep_their_turn(tasks, without, enough):
    queue: FairQueue[str] = FairQueue(Limits(1000, 1000))
    for task in tasks:
        queue.put(task, task)
    first = next(queue.in_turn()).connector
    while (taken := queue.take(may=lambda connector: connector not in without)) is not None:
        assert connector_of(taken.task) not in without
    left = Counter(connector_of(task) for task in tasks if connector_of(task) in without)
    assert len(queue) == left.total()
    assert {demand.connector: demand.splits for demand in queue.in_turn()} == left
    assert queue.takeable(Room(0, enough)) == min(enough, left.total()), "none has shown that it is brief"
    if first in without:
        assert next(queue.in_turn()).connector == first


BRIEF, LONG = st.sampled_from([0.01, 0.1, BRIEF_S]), st.sampled_from([0.3, 2.5, MOST_S])


@given(st.lists(BRIEF, min_size=2, max_size=4) | st.lists(LONG, min_size=2, max_size=4))
def test_connectors_that_always_have_splits_get_the_same_time(seconds):
    """However long their splits are: each may be ahead by one more."""
    queue: FairQueue[float] = FairQueue(Limits(1, 1))
    tasks = {f"{n}-0": cpu_s for n, cpu_s in enumerate(seconds)}
    for task, cpu_s in tasks.items():
        queue.put(task, cpu_s)
    used = Counter()
    for _ in range(2_000):
        task, cpu_s, _ = queue.take()
        used[task] += cpu_s
        queue.ended(task, Use(cpu_s, cpu_s))
        queue.put(task, cpu_s)
    assert max(used.values()) - min(used[task] for task in tasks) <= 2 * max(seconds) + 0.1


ENDLESS = st.sampled_from([0.3, 2.5, 10.0, 600.0])


@given(st.lists(st.lists(ENDLESS, min_size=1, max_size=4), min_size=2, max_size=8))
def test_nobody_has_to_wait_until_others_have_used_as_much_as_an_endless_split(seconds):
    """Only until each has used so much as one may be behind, and has had one more."""
    queue: FairQueue[None] = FairQueue(Limits(1, 1))
    costs = {f"{n}-0": cycle(cost) for n, cost in enumerate(seconds)}
    for task in costs:
        queue.put(task, None)
    waited = Counter()
    for _ in range(300):
        taken = queue.take()
        cpu_s = next(costs[taken.task])
        waited.update(dict.fromkeys(costs, min(cpu_s, MOST_S)))
        waited[taken.task] = 0
        queue.ended(taken.task, Use(cpu_s, cpu_s))
        queue.put(taken.task, None)
        assert max(waited.values()) <= 3 * MOST_S * len(costs)


@given(st.lists(ENDLESS, min_size=2, max_size=6), st.integers(0, 4), st.sampled_from([0.01, 2.5]))
def test_who_could_not_run_makes_up_for_no_more_than_a_few_seconds(seconds, hang, hung_s):
    """As many of its splits hung as may run, or it had no process. Others went on meanwhile."""
    queue: FairQueue[None] = FairQueue(Limits(hang or 1, hang or 1))
    costs = {f"{n}-0": cpu_s for n, cpu_s in enumerate(seconds)}
    for task in ["hung-0"] * (hang + 300) + list(costs):
        queue.put(task, None)
    for _ in range(hang):
        assert queue.take(may="hung".__eq__) is not None
    for _ in range(200):
        taken = queue.take(may=lambda connector: hang > 0 or connector != "hung")
        queue.ended(taken.task, Use(costs[taken.task], 0.0))
        queue.put(taken.task, None)
    for _ in range(hang):
        queue.ended("hung-0", Use(hung_s, 600.0))
    made_up = 0.0
    while (taken := queue.take()).task == "hung-0":
        made_up += 2.5
        queue.ended("hung-0", Use(2.5, 2.5))
    assert made_up <= 2 * MOST_S + 2.5


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 3))
def test_if_there_are_few_processes_brief_and_other_splits_take_turns(brief, others, running):
    """Each connector has as many, roughly: a brief one has a part of the round in which it is not known yet."""
    queue: FairQueue[float] = FairQueue(Limits(1, 1))
    for n in range(brief + others):
        queue.put(f"{n}-0", 0.0)
    turns, busy = Counter(), []
    for _ in range(50 * (brief + others)):
        while len(busy) < running and (taken := queue.take()) is not None:
            busy.append(taken)
        task = busy.pop(0).task
        turns[task] += 1
        cpu_s = 0.01 if int(task[:-2]) < brief else 1.0
        queue.ended(task, Use(cpu_s, cpu_s))
        queue.put(task, 0.0)
    assert min(turns[f"{n}-0"] for n in range(brief + others)) >= 40 - 2 * running
