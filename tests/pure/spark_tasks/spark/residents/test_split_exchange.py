"""What becomes of a split whose process ends or hangs, with threads in the place of processes."""

from __future__ import annotations

import signal
import socket
import threading
from concurrent.futures import CancelledError

import pytest

from spark_tasks.spark.context import ExecutorEndedError, SparkLostError
from spark_tasks.spark.residents import process_manager, process_table
from tests.rigs.executors import RUNNING, GateInResult, Processes, Rig, Threads, begun, gates
from tests.rigs.splits import Answer, CloseDescriptors
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


@pytest.mark.integration  # processes of their own
def test_a_process_whose_plugin_has_closed_its_connections_is_killed(
    real: Rig, processes: Processes
) -> None:
    """Otherwise it would run on, beside the repeated batch, and outlive the worker."""
    with pytest.raises(ExecutorEndedError, match=r"lost its connection to the worker \(a plugin may have closed it\)"):
        real.submit("a-0", CloseDescriptors()).result(30)
    wait_until(lambda: -signal.SIGKILL in [process.poll() for process in processes.started])


def test_a_result_that_hangs_the_worker_occupies_its_task_only_until_it_is_cancelled(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After as many restarts as it may have splits, the task did not run any more."""
    monkeypatch.setattr(process_table, "DEATH_S", 0.0)
    for number in range(RUNNING + 1):
        name = f"hangs-{number}"
        gates[name] = threading.Event()
        batch = rig.submit("a-0", GateInResult(name))
        wait_until(lambda name=name: name in begun)  # type: ignore[misc]
        rig.pool.cancel(batch)
        with pytest.raises(CancelledError):
            batch.result(1)
        rig.pool.exchange.settle_overdue()
    assert rig.submit("a-0", Answer(1)).result(20) == [1]
    for gate in gates.values():
        gate.set()
    assert rig.submit("a-0", Answer(2), Answer(3)).result(20) == [2, 3]
