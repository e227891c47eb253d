"""The pool with real sockets, and threads for executor processes: test_engine.py has the processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from spark_tasks.errors import DataError
from spark_tasks.spark.context import SparkLostError
from spark_tasks.spark.executor import pickled_outcomes, run_split
from spark_tasks.spark.residents import process_manager, wire
from spark_tasks.spark.residents.batches import SplitBatch, prepared
from spark_tasks.spark.residents.link import dial
from spark_tasks.spark.residents.listener import ExecutorListener, Line
from spark_tasks.spark.residents.pool import Pool
from spark_tasks.spark.residents.process import Resident
from spark_tasks.spark.residents.settings import ExecutorSettings
from spark_tasks.spark.residents.wire import Ticket
from spark_tasks.task import DeferredSplit
from tests.rigs.splits import Answer, Fail
from tests.rigs.support import wait_until

RUNNING, MAX_PROCESSES = 2, 4
gates: dict[str, threading.Event] = {}
begun: list[str] = []


@dataclass(frozen=True)
class Gate:
    """Waits until it is opened."""

    name: str

    def run(self) -> str:
        begun.append(self.name)
        gates[self.name].wait(20)
        return self.name


class Threads:
    """A Launcher whose processes are threads; one that is killed is no longer heard."""

    max_processes = 100

    def __init__(self, broken: str = "") -> None:
        self.broken = broken
        self.closed = False
        self.asked = 0
        self.works: list[socket.socket] = []

    def launch(self, ticket: Ticket) -> None:
        self.asked += 1
        if self.broken:
            raise OSError(self.broken)
        threading.Thread(target=self._serve, args=(ticket,), daemon=True).start()

    def _serve(self, ticket: Ticket) -> None:
        with suppress(OSError), dial(ticket, leash=True) as leash, dial(ticket, leash=False) as work:
            self.works.append(work)
            threading.Thread(target=self._obey, args=(leash, work), daemon=True).start()
            while split := wire.receive(work):
                wire.send(work, pickled_outcomes([run_split(split)]))
            work.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _obey(leash: socket.socket, work: socket.socket) -> None:
        with suppress(OSError):
            leash.recv(1)
            work.shutdown(socket.SHUT_RDWR)

    def failure(self, number: int) -> str | None:  # noqa: ARG002
        return None

    def close(self) -> None:
        self.closed = True


class Rig:
    def __init__(self) -> None:
        self.died = 0
        self.lock = threading.Condition()
        self.listener = ExecutorListener(self._joined)
        self.pool = Pool(ExecutorSettings(MAX_PROCESSES, RUNNING), self.listener, self.lock, self._died)
        self.processes = self.pool.processes

    def _joined(self, number: int, line: Line) -> None:
        self.processes.joined(number, line)

    def _died(self) -> None:
        self.died += 1

    def submit(self, task: str, *splits: Any) -> Future[list[Any]]:
        batch = SplitBatch(task, len(splits), outcomes=[None] * len(splits))
        self.pool.submit(batch, prepared(splits))
        return batch.future

    def gate(self, task: str, name: str) -> Future[list[Any]]:
        """A split that has begun, and goes on when gates[name] is set."""
        gates[name] = threading.Event()
        future = self.submit(task, Gate(name))
        wait_until(lambda: name in begun, what=f"{name} to begin")
        return future

    def settled(self, batch: Future[list[Any]]) -> bool:
        with self.lock:
            self.pool.dispatch()  # as the monitor does
        return batch.done()

    def idle(self, count: int) -> None:
        wait_until(lambda: len(self.processes.idle) >= count, what=f"{count} idle ones")


@pytest.fixture
def rig() -> Iterator[Rig]:
    gates.clear()
    begun.clear()
    rig = Rig()
    rig.pool.use(Threads())
    yield rig
    for gate in gates.values():
        gate.set()
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


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
            resident.waits = resident.item is not None
        rig.pool.dispatch()
    assert waits.result(20) == [7]
    assert len(rig.processes.residents) <= MAX_PROCESSES
    for n, future in enumerate(held):
        gates[f"held-{n}"].set()
        assert future.result(20) == [f"held-{n}"]


def test_canceling_ends_one_process_and_leaves_all_others(rig: Rig) -> None:
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
    lines[0].cut()
    with pytest.raises(SparkLostError, match=r"^the executor process of a-0 ended"):
        batch.result(20)
    with rig.lock:
        assert [r for r in rig.processes.residents.values() if r.item is not None] == []
        assert len(rig.pool.queue) == 0
    assert rig.died == 1
    assert rig.submit("a-0", Answer(2)).result(20) == [2]


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
    line.cut()
    wait_until(lambda: not any(r.item for r in rig.processes.residents.values()))  # the other process was killed
    made.set()
    with pytest.raises(SparkLostError):
        batch.result(20)
    wait_until(lambda: rig.pool.batches == {})


def test_a_split_for_a_process_that_has_just_died_runs_in_another_one(rig: Rig) -> None:
    rig.idle(1)
    (line,) = [r.line for r in rig.processes.idle]
    assert line is not None
    line.work.shutdown(socket.SHUT_WR)  # what is sent fails; nothing else shows yet
    assert rig.submit("a-0", Answer(4)).result(20) == [4]
    assert rig.died == 1


def test_a_split_for_a_process_that_has_just_died_fails_if_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_manager, "BACKOFF_S", 0.001)
    rig, launcher = Rig(), Threads()
    rig.pool.use(launcher)
    rig.idle(1)
    launcher.broken = "no such file"
    (line,) = [r.line for r in rig.processes.idle]
    assert line is not None
    line.work.shutdown(socket.SHUT_WR)
    future = rig.submit("a-0", Answer(4))
    wait_until(lambda: rig.settled(future))
    with pytest.raises(SparkLostError, match="no executor process could be started: no such file"):
        future.result(1)
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


def test_a_dead_idle_process_is_detected_and_replaced(rig: Rig) -> None:
    rig.idle(1)
    (resident,) = rig.processes.idle
    assert resident.line is not None
    resident.line.cut()
    with rig.lock:
        rig.processes.find_dead()
        rig.pool.dispatch()
    rig.idle(1)
    assert rig.processes.idle != [resident]


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


class Slow(Threads):
    """Its processes come when they are let in, and later ones at once until it is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False
        self.tickets: list[Ticket] = []

    def launch(self, ticket: Ticket) -> None:
        if self.is_open:
            super().launch(ticket)
        else:
            self.tickets.append(ticket)

    def let_in(self) -> None:
        self.is_open = True
        while self.tickets:
            super().launch(self.tickets.pop())

    def shut(self) -> None:
        self.is_open = False


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
            resident.waits = resident.item is not None
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


class Kept(Threads):
    """Its processes keep their connections until the test ends, so that no other socket gets their numbers."""

    def _serve(self, ticket: Ticket) -> None:
        with suppress(OSError):
            leash, work = dial(ticket, leash=True), dial(ticket, leash=False)
            self.works += [leash, work]
            while split := wire.receive(work):
                wire.send(work, pickled_outcomes([run_split(split)]))
            work.shutdown(socket.SHUT_RDWR)


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
