"""Executor processes that belong to a task, with threads and real processes in their place."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import CancelledError, Future
from typing import Any

import psutil
import pytest

from spark_tasks.errors import DataError
from spark_tasks.spark.context import ExecutorEndedError
from spark_tasks.spark.residents.batches import SplitBatch
from spark_tasks.task import OwnProcess
from tests.rigs.executors import MAX_PROCESSES, RUNNING, Rig, Threads
from tests.rigs.splits import Answer, Describe, Fail, HoldInterpreter, KillWorker
from tests.rigs.support import wait_until
from tests.rigs.workers import wait_gone


def asked(rig: Rig, task: str) -> Future[list[Any]]:
    batch = SplitBatch(task, 1, outcomes=[None])
    rig.pool.submit(batch, [None])
    return batch.future


def own(rig: Rig, task: str = "a-0") -> OwnProcess:
    process: OwnProcess
    (process,) = asked(rig, task).result(20)
    return process


def owned(rig: Rig) -> int:
    with rig.lock:
        return rig.processes.owned


@pytest.mark.integration  # processes of their own
def test_it_runs_only_the_splits_of_its_task(real: Rig) -> None:
    process = own(real)
    found = process.run(Describe())
    others = [real.submit("a-0", Describe()).result(20)[0]["pid"] for _ in range(3)]
    assert found["pid"] not in others
    assert process.run(Describe())["pid"] == found["pid"]
    process.close()
    wait_gone([psutil.Process(found["pid"])])
    assert process.ended
    with pytest.raises(ExecutorEndedError):
        process.run(Answer(1))


def test_errors_of_a_split_are_raised_and_the_process_goes_on(rig: Rig) -> None:
    process = own(rig)
    with pytest.raises(DataError, match="bad"):
        process.run(Fail("bad"))
    assert process.run(Answer(3)) == 3
    assert not process.ended


@pytest.mark.integration  # processes of their own
def test_its_end_is_told_and_its_place_is_free(real: Rig, tmp_path: Any) -> None:
    process = own(real)
    with pytest.raises(ExecutorEndedError, match=r"the process of a-0 was killed by signal 9 \(SIGKILL\)"):
        process.run(KillWorker())
    assert process.ended
    assert owned(real) == 0
    process.close()  # again
    second, file, raised = own(real), tmp_path / "holds", []

    def hold() -> None:
        try:
            second.run(HoldInterpreter(str(file)))
        except ExecutorEndedError as error:
            raised.append(error)

    thread = threading.Thread(target=hold)
    thread.start()
    wait_until(lambda: file.exists() and file.read_text(), what="the GIL to be held")
    second.kill()
    thread.join(20)
    assert "was killed by the worker" in str(raised[0])


def test_half_of_the_processes_belong_to_tasks_at_most(rig: Rig) -> None:
    """They are neither idle nor do they count as running, and there is room for splits."""
    mine = [own(rig, f"a-{n}") for n in range(MAX_PROCESSES // 2)]
    assert owned(rig) == len(mine)
    with rig.lock:
        assert rig.processes.running == []
    assert asked(rig, "c-0").result(20) == [None]
    assert rig.submit("b-0", Answer(1)).result(20) == [1]
    mine[0].close()
    assert asked(rig, "c-0").result(20) != [None]


def test_it_is_kept_when_another_launcher_takes_over_and_ends_with_the_pool(rig: Rig) -> None:
    process = own(rig)
    rig.pool.use(Threads())
    assert rig.submit("b-0", Answer(2)).result(20) == [2]
    assert process.run(Answer(1)) == 1
    rig.pool.close(CancelledError(), 5)
    with pytest.raises(ExecutorEndedError):
        process.run(Answer(1))


def test_who_waits_for_one_may_give_up(rig: Rig) -> None:
    rig.idle(1)
    with rig.lock:
        rig.pool.use(None)  # no more are started
        for idle in list(rig.processes.idle):
            rig.processes.end_idle(idle)
    waiting = asked(rig, "b-0")
    assert rig.pool.batches
    assert waiting.cancel()
    assert not rig.pool.batches


def test_who_asks_for_one_does_not_wait_for_splits(rig: Rig) -> None:
    """As many as may use the CPU run, all of which are those of the same connector."""
    gates = [rig.gate(f"a-{n}", f"a{n}") for n in range(RUNNING)]
    waiting = rig.submit("a-9", Answer(1))
    assert own(rig, "a-connector").run(Answer(3)) == 3
    assert not waiting.done()
    assert not any(gate.done() for gate in gates)


@pytest.mark.integration  # processes of their own
def test_one_that_has_ended_is_found_although_its_task_is_idle(real: Rig) -> None:
    process = own(real)
    os.kill(process.run(Describe())["pid"], signal.SIGKILL)

    def found() -> bool:
        with real.lock:
            real.processes.kill_dead_idle()
        return process.ended

    wait_until(found, what="it to be found")
    assert owned(real) == 0
