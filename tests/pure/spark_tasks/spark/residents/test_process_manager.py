"""How executor processes are started and replaced, with threads in their place."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from spark_tasks.spark.context import SparkLostError
from spark_tasks.spark.residents import process_manager
from spark_tasks.spark.residents.process import Resident
from tests.rigs.executors import MAX_PROCESSES, RUNNING, Kept, Rig, Slow, Threads, gates
from tests.rigs.splits import Answer
from tests.rigs.support import wait_until


def test_old_processes_end_when_the_first_new_one_has_joined(rig: Rig) -> None:
    """A running split is completed in its process."""
    held = rig.gate("a-0", "held")
    rig.idle(1)
    broken, new = Threads(broken="not yet"), Threads()
    rig.pool.use(broken)
    assert rig.submit("b-0", Answer(1)).result(20) == [1]
    rig.pool.use(new)
    wait_until(lambda: new.works)
    wait_until(lambda: broken.closed)
    gates["held"].set()
    assert held.result(20) == ["held"]
    wait_until(lambda: all(r.launcher is new for r in rig.processes.residents.values()))
    assert rig.submit("b-0", Answer(2)).result(20) == [2]


def test_a_process_that_ends_before_the_first_new_one_has_joined_is_replaced(rig: Rig) -> None:
    """Spark has started, but its first Python process has not joined yet."""
    assert rig.submit("a-0", Answer(1)).result(20) == [1]
    new = Slow()
    with rig.lock:
        rig.pool.use(new)
        rig.processes.kill(list(rig.processes.idle))
    late = rig.submit("a-0", Answer(2))
    wait_until(lambda: rig.settled(late))
    assert late.result(1) == [2]
    wait_until(lambda: new.tickets)
    new.let_in()
    wait_until(lambda: rig.processes.idle and all(r.launcher is new for r in list(rig.processes.residents.values())))
    assert rig.submit("a-0", Answer(3)).result(20) == [3]


def test_a_stand_in_starts_processes_while_the_launcher_starts_none(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit includes hanging processes; they end when the launcher's next process has joined."""
    monkeypatch.setattr(process_manager, "LATE_S", 0.0)
    late, stand_in = Slow(), Threads()
    rig.pool.use(late, stand_in)
    wait_until(lambda: late.tickets)
    late.let_in()
    rig.idle(1)
    wait_until(lambda: all(r.launcher is late for r in list(rig.processes.residents.values())))
    late.shut()
    held = [rig.gate(f"h{n}-0", f"held-{n}") for n in range(RUNNING)]
    with rig.lock:
        for resident in rig.processes.residents.values():
            resident.exempt = resident.item is not None
    another = rig.submit("other-0", Answer(7))
    wait_until(lambda: rig.settled(another))
    assert another.result(1) == [7]
    held += [rig.gate(f"h{n}-0", f"held-{n}") for n in range(RUNNING, MAX_PROCESSES)]

    def joined() -> list[Resident]:
        return [r for r in list(rig.processes.residents.values()) if r.line is not None]

    assert len(joined()) == MAX_PROCESSES
    assert any(r.launcher is stand_in for r in joined())
    assert late.tickets, "requested before the stand-in's had joined"
    late.let_in()
    wait_until(lambda: not rig.processes.starting and len(joined()) == MAX_PROCESSES,
               what="no more processes than the limit")
    late.shut()
    gates["held-0"].set()
    assert held[0].result(20) == ["held-0"]
    late.let_in()
    for gate in gates.values():
        gate.set()
    wait_until(lambda: rig.processes.idle and all(r.launcher is late for r in list(rig.processes.residents.values())))
    assert not stand_in.closed, "it may be needed again"


def test_a_failing_stand_in_does_not_count_as_a_failure_of_the_launcher(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_manager, "LATE_S", 0.0)
    monkeypatch.setattr(process_manager, "GIVE_UP", 1)
    late, stand_in = Slow(), Threads(broken="suspended")
    rig.pool.use(late, stand_in)
    wait_until(lambda: late.tickets)
    late.let_in()
    wait_until(lambda: all(r.launcher is late for r in list(rig.processes.residents.values())))
    with rig.lock:
        rig.processes.kill(list(rig.processes.residents.values()))
        late.shut()
    waits = rig.submit("a-0", Answer(1))
    wait_until(lambda: late.tickets and not rig.settled(waits))
    late.let_in()
    assert waits.result(20) == [1]


def test_batches_fail_if_no_process_can_be_started_and_later_ones_try_again(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_manager, "BACKOFF_S", 0.001)
    rig, launcher = Rig(), Threads(broken="no such file")
    rig.pool.use(launcher)
    future = rig.submit("a-0", Answer(1))
    wait_until(lambda: rig.settled(future))
    with pytest.raises(SparkLostError, match="no executor process could be started: no such file"):
        future.result(1)
    launcher.broken = ""
    again = rig.submit("a-0", Answer(2))
    wait_until(lambda: rig.settled(again))
    assert again.result(1) == [2]
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


def test_processes_that_are_requested_together_fail_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that waiting splits survive the end of Spark, which is noticed within a second."""
    monkeypatch.setattr(process_manager, "BACKOFF_S", 60.0)
    monkeypatch.setattr(process_manager, "MAX_BACKOFF_S", 60.0)
    monkeypatch.setattr(process_manager, "GIVE_UP", 2)
    rig, launcher = Rig(), Threads(broken="Spark has ended")
    batches = [rig.submit(f"{name}-0", Answer(1)) for name in "abcdef"]
    rig.pool.use(launcher)
    wait_until(lambda: not rig.processes.starting)
    assert launcher.asked >= process_manager.GIVE_UP
    assert not any(map(rig.settled, batches))
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


def test_a_process_that_joined_while_the_system_had_no_thread_left_is_replaced(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refusals = threading.Thread.start, [1]

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("executor-") and refusals:
            refusals.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    rig, launcher = Rig(), Kept()
    rig.pool.use(launcher)
    future = rig.submit("a-0", Answer(1))
    wait_until(lambda: rig.settled(future))
    assert (future.result(1), refusals) == ([1], [])
    with rig.lock:
        assert all(resident.thread is not None for resident in rig.processes.residents.values() if resident.line)
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


def test_a_pool_can_be_closed_while_a_process_joins(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Exception | None] = []

    def close() -> None:
        try:
            rig.pool.close(CancelledError(), 5)
        except Exception as error:  # noqa: BLE001 - seen below
            closed.append(error)
        else:
            closed.append(None)

    class Slow(threading.Thread):
        """Between its making and its start, somebody closes the pool."""

        def start(self) -> None:
            if self.name.startswith("executor-"):
                closer = threading.Thread(target=close, daemon=True)
                closer.start()
                closer.join(0.2)
            super().start()

    monkeypatch.setattr(process_manager.threading, "Thread", Slow)
    rig.pool.use(Threads())
    batch = rig.submit("a-0", Answer(1))
    wait_until(lambda: rig.settled(batch) and closed)
    assert not any(closed)
