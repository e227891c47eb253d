"""How processes are started, replaced and ended, with threads in their place."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from typing import Any

import psutil
import pytest

from spark_tasks.spark.context import ExecutorEndedError, SparkLostError
from spark_tasks.spark.residents import process_manager
from spark_tasks.spark.residents.monitor import Monitor
from spark_tasks.spark.residents.process import Resident
from spark_tasks.spark.residents.settings import ExecutorSettings
from tests.rigs.executors import MAX_PROCESSES, RUNNING, GateInResult, Kept, Processes, Rig, Slow, Threads, begun, gates
from tests.rigs.splits import Answer, CloseDescriptors, EndProcess, HangWithSignal, KillWorker, LoopOnOneCpu, OomScore
from tests.rigs.support import wait_until


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


def test_a_dead_idle_process_is_detected_and_replaced(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.idle(1)
    (resident,) = rig.processes.idle
    assert resident.line is not None
    resident.line.cut()
    with rig.lock:
        rig.processes.find_dead()
        rig.pool.dispatch()
    rig.idle(1)
    assert rig.processes.idle != [resident]
    line = "lost its connection to the worker (a plugin may have closed it) and has been killed"
    assert caplog.messages == [f"An idle executor process {line}"]


def test_a_process_that_is_killed_leaves_no_file_with_its_stacks(rig: Rig) -> None:
    batch = rig.gate("a-0", "hangs")
    with rig.lock:
        (number,) = [number for number, one in rig.processes.residents.items() if one.item is not None]
    stacks = rig.listener.folder / str(number)
    stacks.touch()  # as a process does
    rig.pool.cancel(batch)
    wait_until(lambda: not stacks.exists())


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


@pytest.mark.integration  # processes of their own
def test_a_process_whose_plugin_has_closed_its_connections_is_killed(
    real: Rig, processes: Processes
) -> None:
    """Otherwise it would run on, beside the repeated batch, and outlive the worker."""
    with pytest.raises(ExecutorEndedError, match=r"lost its connection to the worker \(a plugin may have closed it\)"):
        real.submit("a-0", CloseDescriptors()).result(30)
    wait_until(lambda: -signal.SIGKILL in [process.poll() for process in processes.started])


@pytest.mark.integration  # processes of their own
@pytest.mark.parametrize(("split", "how"), [
    (EndProcess("exit"), "ended with exit code 0"),
    (EndProcess("abort"), r"was killed by signal 6 \(SIGABRT\): native code called abort\(\)"),
    (KillWorker(), r"was killed by signal 9 \(SIGKILL\): perhaps the system had too little memory"),
])
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_error_and_the_log_say_how_a_process_has_ended(
    real: Rig, split: Any, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ExecutorEndedError, match=f"^the executor process of a-0 {how}"):
        real.submit("a-0", Answer(1, 20.0), split).result(30)  # the other one is killed by the worker
    assert re.search(f"The executor process of a-0 {how}", caplog.text)


@pytest.mark.integration  # processes of their own
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize(("action", "why"), [("SIG_IGN", "ignores"), ("SIG_DFL", "has removed the handler of")])
def test_a_process_that_does_not_handle_the_signal_for_stacks_is_not_called_suspended(
    real: Rig, action: str, why: str
) -> None:
    batch = real.submit("a-0", HangWithSignal(action))
    monitor = Monitor(real.pool, ExecutorSettings(MAX_PROCESSES, RUNNING), real.lock, real.listener.folder,
                      lambda: None, lambda _task, _text: None)
    try:
        said = f"writes no stack: a plugin {why} SIGUSR2, the signal that asks for it"
        wait_until(lambda: (monitor.where(batch) or "").endswith(said))  # before, it may be about to handle the signal
        assert not batch.done(), "the signal would have killed it"
    finally:
        monitor.close()
        real.pool.cancel(batch)


@pytest.mark.integration  # processes of their own
@pytest.mark.parametrize("action", ["SIG_IGN", "SIG_DFL"])
def test_the_signal_for_stacks_is_handled_again_in_the_next_split(
    real: Rig, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(real.processes, "grow", lambda _wanted: None)  # it stays the only process
    assert real.submit("a-0", HangWithSignal(action, seconds=0)).result(30) == [None]
    stuck = real.submit("a-0", Answer(1, 60.0))
    monitor = Monitor(real.pool, ExecutorSettings(MAX_PROCESSES, RUNNING), real.lock, real.listener.folder,
                      lambda: None, lambda _task, _text: None)
    try:
        wait_until(lambda: "in run" in (monitor.where(stuck) or ""))
    finally:
        monitor.close()
        real.pool.cancel(stuck)


WORKER = """
import pickle, sys
from queue import SimpleQueue
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.listener import ExecutorListener
from tests.rigs.executors import Processes
from tests.rigs.splits import CloseDescriptors
arrived = SimpleQueue()
listener = ExecutorListener(lambda _, line: arrived.put(line))
Processes().launch(listener.expect(1))
line = arrived.get()
wire.send(line.work, pickle.dumps(CloseDescriptors()))
print(line.pid, listener.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.integration  # processes of their own
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_process_whose_plugin_has_closed_its_connections_does_not_outlive_a_killed_worker() -> None:
    with subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        pid, folder = worker.stdout.readline().split()
        process = psutil.Process(int(pid))
        wait_until(lambda: process.num_fds() <= 3, what="closed descriptors")
        worker.kill()
    shutil.rmtree(folder)
    wait_until(lambda: not process.is_running(), 30, what="its end")


def test_a_result_that_hangs_the_worker_occupies_its_task_only_until_it_is_cancelled(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After as many restarts as it may have splits, the task did not run any more."""
    monkeypatch.setattr(process_manager, "DEATH_S", 0.0)
    for number in range(RUNNING + 1):
        name = f"hangs-{number}"
        gates[name] = threading.Event()
        batch = rig.submit("a-0", GateInResult(name))
        wait_until(lambda name=name: name in begun)  # type: ignore[misc]
        rig.pool.cancel(batch)
        with pytest.raises(CancelledError):
            batch.result(1)
        rig.processes.cut_off()
    assert rig.submit("a-0", Answer(1)).result(20) == [1]
    for gate in gates.values():
        gate.set()
    assert rig.submit("a-0", Answer(2), Answer(3)).result(20) == [2, 3]


@pytest.mark.integration  # processes of their own
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_time_that_splits_have_waited_for_a_cpu_is_known(real: Rig) -> None:
    starved = real.submit("a-0", LoopOnOneCpu(), LoopOnOneCpu())
    before = wait_until(lambda: real.pool.ready_s(starved))
    wait_until(lambda: real.pool.ready_s(starved) > before + 0.5)
    real.pool.cancel(starved)
    assert real.pool.ready_s(starved) == 0.0


@pytest.mark.integration  # processes of their own
def test_the_kernel_ends_an_executor_process_before_the_worker(real: Rig) -> None:
    assert real.submit("a-0", OomScore()).result(30)[0] > OomScore().run()
