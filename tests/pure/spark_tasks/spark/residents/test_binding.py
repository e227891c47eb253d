"""Which processes are for one connector, and which make room: tests/property/test_binding.py has all orders of events.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from spark_tasks.spark.residents.binding import KEEP_LONGER_S, KEEP_S, Choice, best_for, to_retire
from spark_tasks.spark.residents.fairness import Demand, FairQueue, Limits

NOW = 1000.0
OLD, YOUNG = NOW - KEEP_LONGER_S, NOW - KEEP_S / 2


@dataclass(eq=False)
class Process:
    connector: str = ""
    bound_at: float = 0.0


def test_a_connector_gets_a_process_of_its_own_and_others_get_a_new_one_or_the_one_not_used_for_longest() -> None:
    idle = [Process(name) for name in "abca"]
    assert [best_for(name, idle) for name in "abcd"] == [idle[3], idle[1], idle[2], idle[0]]
    new = Process()
    assert best_for("d", [*idle, new]) is new


def test_a_bound_process_is_the_best_for_its_connector_and_no_choice_for_others() -> None:
    bound, shared, other = Process("a", OLD), Process("a"), Process("b", OLD)
    assert best_for("a", [bound, shared]) is bound
    assert best_for("b", [bound, shared]) is shared
    assert best_for("b", [bound]) is None
    assert best_for("a", [other, shared]) is shared


@pytest.mark.parametrize(("idle", "coming", "kept_back", "expected"), [
    ([Process()], 0, 0, "abc"),
    ([Process("a", OLD)], 0, 0, "a"),
    ([Process("a", OLD)], 2, 0, "a"),
    ([Process()], 0, 1, "c"),
    ([Process()], 1, 1, "abc"),
    ([Process("a", OLD), Process()], 0, 1, "ac"),
    ([], 3, 0, ""),
])
def test_connectors_with_bound_processes_leave_the_last_shared_ones_to_others_if_there_may_be_no_more(
    idle: list[Process], coming: int, kept_back: int, expected: str
) -> None:
    choice = Choice(idle, coming, {"a", "b"}, soon=False, kept_back=kept_back)
    assert "".join(name for name in "abc" if choice.may_run()(name)) == expected


def test_processes_are_looked_at_once_and_not_for_each_connector_that_waits() -> None:
    looks = []

    class Watched(Process):
        def __getattribute__(self, name: str) -> object:
            looks.append(name)
            return super().__getattribute__(name)

    idle: list[Process] = [Watched(f"bound-{n}", OLD) for n in range(10)]
    queue: FairQueue[int] = FairQueue(Limits(1, 1))
    for n in range(100):
        queue.put(f"waits-{n}-0", n)
    looks.clear()
    assert queue.take(may=Choice(idle, 0, set(), soon=False, kept_back=0).may_run()) is None
    assert len(looks) < 100


A, B, SHARED = Process("a", OLD), Process("b", OLD), Process()
B_NEW, B_YOUNG = Process("b", NOW - KEEP_S), Process("b", YOUNG)


@pytest.mark.parametrize(("idle", "coming", "soon", "waiting", "expected"), [
    ([A, B], 0, False, [Demand("c", 1, 0)], [A]),
    ([A, B], 0, False, [Demand("c", 3, 0)], [A, B]),
    ([A, B], 1, False, [Demand("c", 1, 0)], []),
    ([A, B, SHARED], 0, False, [Demand("c", 2, 0)], [A]),
    ([B_YOUNG], 0, False, [Demand("c", 1, 0)], []),
    ([B_NEW], 0, False, [Demand("c", 1, 0)], [B_NEW]),
    ([B_NEW], 0, True, [Demand("c", 1, 0)], []),
    ([B_NEW], 0, False, [Demand("c", 1, 2)], []),
    ([B], 0, True, [Demand("c", 1, 2)], [B]),
    ([A], 0, False, [Demand("a", 3, 0)], []),
    ([A], 0, False, [Demand("a", 1, 0), Demand("c", 1, 0)], []),
    ([A], 0, False, [Demand("c", 1, 0), Demand("a", 1, 0)], [A]),
    ([A, B], 0, False, [Demand("a", 1, 0), Demand("c", 1, 0)], [B]),
])
def test_bound_processes_make_room_for_connectors_in_their_turn(
    idle: list[Process], coming: int, soon: bool, waiting: list[Demand], expected: list[Process]
) -> None:
    assert Choice(idle, coming, {"a", "b"}, soon=soon, kept_back=1).to_evict(waiting, NOW) == expected


def test_processes_that_nobody_uses_end_but_not_the_spare_one() -> None:
    shared, bound = [Process() for _ in range(3)], [Process(name, OLD) for name in "abc"]
    old = [(one, 9.0) for one in [shared[0], *bound, *shared[1:]]]
    assert to_retire(old, 1, 5.0) == [shared[0], *bound]
    assert to_retire([(one, 9.0) for one in (shared[0], *bound)], 1, 5.0) == bound[:2]
    assert to_retire([(one, 3.0) for one in bound], 1, 5.0) == []
    assert to_retire([(bound[0], 9.0), (bound[1], 4.0), (shared[0], 3.0)], 1, 5.0) == [bound[0]]
