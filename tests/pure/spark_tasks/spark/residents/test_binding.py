"""Which processes are for one connector, and which make room: tests/property/test_binding.py has all orders of events.
"""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any

import pytest

from spark_tasks.errors import DataError
from spark_tasks.spark.residents import binding, process_manager
from spark_tasks.spark.residents.binding import KEEP_LONGER_S, KEEP_S, Choice, best_for, to_retire
from spark_tasks.spark.residents.fairness import Demand, FairQueue, Limits
from spark_tasks.spark.residents.process import Resident
from spark_tasks.task import DeferredSplit
from tests.rigs.executors import Rig, SetSomethingUp, Threads, gates
from tests.rigs.splits import Answer
from tests.rigs.support import wait_until

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


def used(rig: Rig, connector: str) -> set[int]:
    """The processes whose last split was one of this connector."""
    return {number for number, one in rig.processes.residents.items() if one.connector == connector}


def test_a_connector_prefers_the_process_that_it_has_used(rig: Rig) -> None:
    """It has its caches and connections, and what its plugin has left there."""
    held = [rig.gate(f"{name}-0", f"held-{name}") for name in "ab"]
    for gate in gates.values():
        gate.set()
    assert [batch.result(20) for batch in held] == [["held-a"], ["held-b"]]
    before = [used(rig, name) for name in "ab"]
    for name in "abba":
        rig.idle(2)
        assert rig.submit(f"{name}-1", Answer(1)).result(20) == [1]
    assert [used(rig, name) for name in "ab"] == before


def test_a_process_restores_itself_before_another_connectors_first_split_that_it_gets() -> None:
    """One that could not be sent does not count: what the former connector has left there would meet the next one."""
    def fail() -> Any:
        raise DataError("no split")

    rig, launcher = Rig(), Threads()
    launcher.max_processes = 1
    rig.pool.use(launcher)
    assert rig.submit("a-0", Answer(1)).result(20) == [1]
    rig.idle(1)
    with pytest.raises(DataError, match="no split"):
        rig.submit("b-0", DeferredSplit(fail)).result(20)
    for task in ("b-0", "b-1", "a-0"):
        rig.idle(1)
        assert rig.submit(task, Answer(2)).result(20) == [2]
    assert launcher.restored == [False, True, False, True]
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


def bound(rig: Rig) -> dict[int, str]:
    """The processes that are bound, and to which connectors."""
    return {number: one.connector for number, one in rig.processes.residents.items() if one.bound_at}


@pytest.mark.parametrize("after", [False, True])
def test_a_process_in_which_something_was_set_up_is_for_its_connector_alone(
    after: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    rig, launcher = Rig(), Threads()
    launcher.max_processes = 1
    rig.pool.use(launcher)
    assert rig.submit("a-0", SetSomethingUp(after)).result(20) == [None]
    (number,) = used(rig, "a")
    waits = rig.submit("b-0", Answer(1))
    wait_until(lambda: bound(rig) == {number: "a"})
    assert not rig.settled(waits)
    launcher.max_processes = 2
    wait_until(lambda: rig.settled(waits))
    for task in ("a-1", "b-1", "a-0", "b-0"):
        assert rig.submit(task, Answer(2)).result(20) == [2]
    assert (waits.result(1), bound(rig), used(rig, "a")) == ([1], {number: "a"}, {number})
    assert ("reserved for connector a, because its plugins have changed this for the whole process: something"
            in caplog.text)
    assert (launcher.asked, rig.died) == (2, 0)
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


def test_a_bound_process_is_no_spare_one(rig: Rig) -> None:
    assert rig.submit("a-0", SetSomethingUp()).result(20) == [None]
    rig.keep_only("a")
    with rig.lock:
        rig.pool.dispatch()
    wait_until(lambda: sorted(one.bound_at > 0 for one in rig.processes.idle) == [False, True], what="another one")


def test_a_bound_process_makes_room_for_others_after_a_while_if_there_may_be_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig, launcher = Rig(), Threads()
    launcher.max_processes = 1
    rig.pool.use(launcher)
    assert rig.submit("a-0", SetSomethingUp()).result(20) == [None]
    (number,) = used(rig, "a")
    waits = rig.submit("b-0", Answer(1))
    assert not rig.settled(waits)
    assert rig.submit("a-0", Answer(2)).result(20) == [2]
    assert bound(rig) == {number: "a"}
    monkeypatch.setattr(binding, "KEEP_S", 0.0)
    wait_until(lambda: rig.settled(waits))
    assert (waits.result(1), bound(rig), launcher.asked) == ([1], {}, 2)
    assert "Ending an executor process reserved for connector a" in caplog.text
    assert rig.submit("a-0", Answer(3)).result(20) == [3]
    assert (launcher.asked, rig.died) == (2, 0)
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


def test_no_process_makes_room_while_none_can_be_started_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_manager, "BACKOFF_S", 60.0)
    monkeypatch.setattr(process_manager, "MAX_BACKOFF_S", 60.0)
    monkeypatch.setattr(binding, "KEEP_S", 0.0)
    rig, launcher = Rig(), Threads()
    launcher.max_processes = 1
    rig.pool.use(launcher)
    assert rig.submit("a-0", SetSomethingUp()).result(20) == [None]
    launcher.broken, launcher.max_processes = "too many processes", 2
    waits = rig.submit("b-0", Answer(1))
    wait_until(lambda: not rig.processes.starting and launcher.asked > 1)
    launcher.max_processes = 1
    assert not rig.settled(waits)
    assert list(bound(rig).values()) == ["a"]
    assert rig.submit("a-0", Answer(2)).result(20) == [2]
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


def test_bound_processes_of_a_connector_end_with_its_task_busy_ones_after_their_split(rig: Rig) -> None:
    """Its next task may have another plugin."""
    for task in ("a-0", "b-0"):
        assert rig.submit(task, SetSomethingUp()).result(20) == [None]
    held = rig.gate("a-1", "held")
    assert rig.submit("a-0", SetSomethingUp()).result(20) == [None]
    wait_until(lambda: sorted(bound(rig).values()) == ["a", "a", "b"])
    rig.pool.release("a")
    assert sorted(bound(rig).values()) == ["a", "b"]
    gates["held"].set()
    assert held.result(20) == ["held"]
    wait_until(lambda: list(bound(rig).values()) == ["b"])
    assert rig.submit("a-0", Answer(1)).result(20) == [1]
    assert rig.died == 0


def declining(rig: Rig, launcher: Threads) -> Future[list[Any]]:
    """The only process holds a split of b, which it then declines: unknown to the worker, it is a's."""
    launcher.max_processes = 1
    launcher.declines.clear()
    assert rig.submit("a-0", SetSomethingUp(after=True)).result(20) == [None]
    wait_until(lambda: rig.processes.idle)
    batch = rig.submit("b-0", Answer(1))
    wait_until(lambda: launcher.asks, what="the process to look at what a has left")
    return batch


@pytest.mark.parametrize(("released", "kept"), [("a", []), ("b", ["a"])])
def test_a_connector_is_released_while_its_process_declines_a_split_of_another_one(
    released: str, kept: list[str]
) -> None:
    rig, launcher = Rig(), Threads()
    rig.pool.use(launcher)
    rig.idle(1)
    batch = declining(rig, launcher)
    rig.pool.release(released)
    launcher.max_processes = 2
    launcher.declines.set()
    wait_until(lambda: rig.settled(batch))
    assert (batch.result(1), list(bound(rig).values())) == ([1], kept)
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


def test_a_batch_whose_split_a_process_has_declined_waits_again() -> None:
    rig, launcher = Rig(), Threads()
    rig.pool.use(launcher)
    rig.idle(1)
    batch = declining(rig, launcher)
    assert rig.pool.runs(batch)
    launcher.declines.set()
    wait_until(lambda: not rig.pool.runs(batch))
    assert batch.running()
    launcher.max_processes = 2
    wait_until(lambda: rig.settled(batch))
    assert batch.result(1) == [1]
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


def test_a_process_that_is_bound_again_has_been_kept_since_the_first_time() -> None:
    process = Resident(1, Threads())
    assert process.bind("a", "the locale")
    first = process.bound_at
    assert not process.bind("a", "")
    assert process.bound_at == 0.0
    assert process.bind("a", "the locale")
    assert process.bound_at == first
    process.bind("a", "")
    assert process.bind("b", "the locale")
    assert process.bound_at > first
