"""Batches in the pool, with threads for executor processes: test_engine.py has the processes."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import CancelledError

import pytest

from spark_tasks.errors import DataError
from spark_tasks.spark.context import SparkLostError
from spark_tasks.task import DeferredSplit
from tests.rigs.executors import MAX_PROCESSES, RUNNING, Gate, Rig, Threads, begun, gates
from tests.rigs.splits import Answer, Fail, LoopOnOneCpu
from tests.rigs.support import wait_until


def test_results_are_in_order_and_an_error_fails_only_its_own_batch(rig: Rig) -> None:
    batches = [rig.submit(f"c{n}-0", *(Answer(n * 10 + i) for i in range(5))) for n in range(4)]
    failing = rig.submit("bad-0", Answer(1), Fail("first"), Fail("second"))
    assert [b.result(20) for b in batches] == [[n * 10 + i for i in range(5)] for n in range(4)]
    with pytest.raises(DataError, match="first"):
        failing.result(20)
    assert rig.died == 0


def test_one_spare_process_is_kept_and_waiting_splits_make_room_for_others(rig: Rig) -> None:
    rig.idle(1)
    held = [rig.gate(f"h{n}-0", f"held-{n}") for n in range(RUNNING)]
    rig.idle(1)
    waits = rig.submit("other-0", Answer(7))
    with rig.lock:
        assert len(rig.pool.queue) == 1, "as many run as may"
        for resident in rig.processes.residents.values():
            resident.exempt = resident.item is not None
        rig.pool.dispatch()
    assert waits.result(20) == [7]
    assert len(rig.processes.residents) <= MAX_PROCESSES
    for n, future in enumerate(held):
        gates[f"held-{n}"].set()
        assert future.result(20) == [f"held-{n}"]


def test_a_connector_with_brief_splits_does_not_wait_for_the_long_ones_of_others(rig: Rig) -> None:
    """They run beside as many others as may; until it has shown what they are, it is one of those others."""
    assert rig.submit("brief-0", Answer(1)).result(20) == [1]
    held = [rig.gate(f"h{n}-0", f"held-{n}") for n in range(RUNNING)]
    new = rig.submit("new-0", Answer(2))
    for number in range(5):
        assert rig.submit("brief-0", Answer(number)).result(20) == [number]
    assert not rig.settled(new)
    gates["held-0"].set()
    assert new.result(20) == [2]
    gates["held-1"].set()
    assert [future.result(20) for future in held] == [["held-0"], ["held-1"]]


def test_nothing_is_known_of_a_connector_any_more_when_its_tasks_have_ended(rig: Rig) -> None:
    """Its next ones may have another plugin."""
    assert rig.submit("a-0", Answer(1)).result(20) == [1]
    rig.pool.release("a")
    held = [rig.gate(f"h{n}-0", f"held-{n}") for n in range(RUNNING)]
    assert not rig.settled(rig.submit("a-0", Answer(2)))
    for n, future in enumerate(held):
        gates[f"held-{n}"].set()
        assert future.result(20) == [f"held-{n}"]


def test_a_batch_whose_future_is_cancelled_while_it_waits_is_dropped(rig: Rig) -> None:
    """Its task is paused or stopped. It stayed until a process was free, and was reported as waiting."""
    held = [rig.gate(f"h{n}-0", f"held-{n}") for n in range(RUNNING)]
    wait_until(lambda: all(one.running() for one in held))
    waits = rig.submit("a-0", Answer(1))
    assert waits.cancel()
    assert (waits in rig.pool.batches, len(rig.pool.queue)) == (False, 0)
    for n, future in enumerate(held):
        gates[f"held-{n}"].set()
        assert future.result(20) == [f"held-{n}"]


def test_cancelling_ends_one_process_and_leaves_all_others(rig: Rig) -> None:
    one, other = rig.gate("a-0", "one"), rig.gate("b-0", "other")
    waits = rig.submit("a-0", Answer(1), Answer(2))
    rig.pool.cancel(waits)
    rig.pool.cancel(one)
    for future in (one, waits):
        with pytest.raises(CancelledError):
            future.result(1)
    assert rig.submit("c-0", Answer(3)).result(20) == [3]
    gates["other"].set()
    assert other.result(20) == ["other"]
    assert rig.died == 0, "nobody ended who was not told to"
    rig.pool.cancel(other)


def test_a_batch_with_a_lost_split_fails_after_its_other_splits_have_ended(rig: Rig) -> None:
    for name in ("x", "y"):
        gates[name] = threading.Event()
    batch = rig.submit("a-0", Gate("x"), Gate("y"), Answer(1))
    wait_until(lambda: set(begun) == {"x", "y"})
    with rig.lock:
        lines = [r.line for r in rig.processes.residents.values() if r.item is not None]
    assert lines[0] is not None
    lines[0].shut_down()
    with pytest.raises(SparkLostError, match=r"^the executor process of a-0 lost its connection"):
        batch.result(20)
    with rig.lock:
        assert [r for r in rig.processes.residents.values() if r.item is not None] == []
        assert len(rig.pool.queue) == 0
    assert rig.died == 1
    assert rig.submit("a-0", Answer(2)).result(20) == [2]


@pytest.mark.parametrize("used", ["cpu", "process"])
def test_a_split_that_ends_without_an_outcome_costs_what_it_has_used(rig: Rig, used: str) -> None:
    """A connector is not brief because its long splits crash."""
    assert rig.submit("a-0", Answer(1)).result(20) == [1]
    batch = rig.gate("a-0", "lost")
    with rig.lock:
        (resident,) = [r for r in rig.processes.residents.values() if r.item is not None]
        if used == "cpu":
            resident.used_s = 2.0
        else:
            resident.since -= 2.0
        assert resident.line is not None
        resident.line.shut_down()
    with pytest.raises(SparkLostError):
        batch.result(20)
    held = [rig.gate(f"h{n}-0", f"held-{n}") for n in range(RUNNING)]
    rig.idle(1)
    again = rig.submit("a-0", Answer(2))
    with rig.lock:
        assert len(rig.pool.queue) == 1, "it waits with the others"
    gates["held-0"].set()
    assert again.result(20) == [2]
    gates["held-1"].set()
    assert [future.result(20) for future in held] == [["held-0"], ["held-1"]]


def test_a_lost_batch_ends_although_one_of_its_splits_was_not_sent_yet(rig: Rig) -> None:
    making, made = threading.Event(), threading.Event()

    def make() -> Answer:
        making.set()
        made.wait(20)
        return Answer(1)

    gates["x"] = threading.Event()
    batch = rig.submit("a-0", Gate("x"), DeferredSplit(make))
    assert making.wait(20)
    wait_until(lambda: begun == ["x"])
    with rig.lock:
        (line,) = [r.line for r in rig.processes.residents.values() if r.item is not None and r.item.index == 0]
    assert line is not None
    line.shut_down()
    wait_until(lambda: not any(r.item for r in rig.processes.residents.values()))  # the other process was killed
    made.set()
    with pytest.raises(SparkLostError):
        batch.result(20)
    wait_until(lambda: rig.pool.batches == {})


def test_a_connector_leaves_a_process_to_others_also_where_there_are_few(rig: Rig) -> None:
    """Its limit is that of the processes that there may be, and not only of the setting."""
    few = Threads()
    few.max_processes = 2
    rig.pool.use(few)
    held = [rig.gate("a-0", "held-a-0")]
    gates["held-a-1"] = threading.Event()
    held.append(rig.submit("a-1", Gate("held-a-1")))
    other = rig.submit("b-0", Answer(1))
    wait_until(lambda: rig.settled(other))
    assert (other.result(1), begun) == ([1], ["held-a-0"])
    for gate in gates.values():
        gate.set()
    assert [batch.result(20) for batch in held] == [["held-a-0"], ["held-a-1"]]


def test_a_batch_can_be_withdrawn_only_before_it_starts(rig: Rig) -> None:
    held = [rig.gate(f"h{n}-0", f"held-{n}") for n in range(RUNNING)]
    waits = rig.submit("w-0", Answer(1), Answer(2))
    assert waits.cancel()
    assert not held[0].cancel()
    for gate in gates.values():
        gate.set()
    assert [f.result(20) for f in held] == [["held-0"], ["held-1"]]
    assert rig.submit("w-0", Answer(3)).result(20) == [3]
    assert rig.pool.batches == {}


def test_a_deferred_split_is_created_when_a_process_takes_it(rig: Rig) -> None:
    held = [rig.gate(f"h{n}-0", f"held-{n}") for n in range(RUNNING)]
    seen = [1]
    waits, sealed = rig.submit("w-0", DeferredSplit(lambda: Answer(len(seen)))), rig.submit("s-0", Answer(len(seen)))
    seen.append(2)
    for gate in gates.values():
        gate.set()
    assert (waits.result(20), sealed.result(20)) == ([2], [1])
    assert len([f.result(20) for f in held]) == RUNNING


def test_a_split_that_cannot_be_created_fails_its_batch_but_no_process(rig: Rig) -> None:
    def make() -> Answer:
        raise DataError("no such range")

    rig.idle(1)
    before = set(rig.processes.residents)
    with pytest.raises(DataError, match="no such range"):
        rig.submit("w-0", DeferredSplit(make)).result(20)
    assert rig.submit("w-0", DeferredSplit(lambda: Answer(3))).result(20) == [3]
    assert (rig.died, before - set(rig.processes.residents)) == (0, set())


@pytest.mark.integration  # processes of their own
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_time_that_splits_have_waited_for_a_cpu_is_known(real: Rig) -> None:
    starved = real.submit("a-0", LoopOnOneCpu(), LoopOnOneCpu())
    before = wait_until(lambda: real.pool.ready_s(starved))
    wait_until(lambda: real.pool.ready_s(starved) > before + 0.5)
    real.pool.cancel(starved)
    assert real.pool.ready_s(starved) == 0.0
