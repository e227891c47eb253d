"""Which split runs next, for any order of events."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.spark.residents.fairness import FairQueue, connector_of

TASKS = [f"{name}-{n}" for name in "abc" for n in range(3)]
STEPS = st.lists(st.tuples(st.sampled_from(["put", "take", "take", "end", "back", "remove"]), st.sampled_from(TASKS)))


@given(STEPS, st.integers(1, 3), st.integers(1, 4))
def test_nothing_is_lost_or_duplicated_and_no_limit_is_exceeded(steps, max_per_task, max_per_connector):
    queue: FairQueue[int] = FairQueue(max_per_task, max_per_connector)
    waiting: dict[str, deque[int]] = {task: deque() for task in TASKS}
    running: Counter[str] = Counter()
    for number, (step, task) in enumerate(steps):
        before = queue.takeable(1000)
        if step == "put":
            queue.put(task, number)
            waiting[task].append(number)
        elif step == "take":
            taken = queue.take()
            assert (taken is not None) == (before > 0)
            if taken is not None:
                whose, item = taken
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
        assert queue.takeable(1000) == sum(
            min(room[name], sum(n for t, n in free.items() if connector_of(t) == name)) for name in "abc"
        )


@given(st.lists(st.sampled_from(TASKS), min_size=1))
def test_a_connector_waits_for_at_most_one_split_of_each_other_connector(tasks):
    """Regardless of how many splits another connector has queued."""
    queue: FairQueue[str] = FairQueue(1000, 1000)
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
        FairQueue[int](1, 1).ended("a-0")


@given(st.lists(st.sampled_from(TASKS), min_size=1), st.sets(st.sampled_from("abc")), st.integers(0, 20))
def test_connectors_that_have_no_process_are_passed_over_and_keep_their_turn(tasks, without, enough):
    queue: FairQueue[str] = FairQueue(1000, 1000)
    for task in tasks:
        queue.put(task, task)
    first = next(queue.in_turn(1)).connector
    while (taken := queue.take(lambda connector: connector not in without)) is not None:
        assert connector_of(taken[0]) not in without
    left = Counter(connector_of(task) for task in tasks if connector_of(task) in without)
    assert len(queue) == left.total()
    assert {demand.connector: demand.splits for demand in queue.in_turn(1000)} == left
    assert sum(demand.splits for demand in queue.in_turn(enough)) == min(enough, left.total())
    if first in without:
        assert next(queue.in_turn(1)).connector == first
