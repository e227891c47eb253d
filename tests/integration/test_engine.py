"""The engine with a real local Spark."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_tasks.errors import ConnectError, DataError
from spark_tasks.running.engine import EngineState, SparkEngine
from spark_tasks.running.gateway import SparkStartError
from spark_tasks.running.spark import SparkLostError
from tests.integration.workers import jvms, leftovers, wait_gone
from tests.running_splits import Answer, AnswerPoison, Describe, Fail, Hang, KillWorker, Meet
from tests.support import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def engine() -> Iterator[SparkEngine]:
    engine = SparkEngine({"group.id": "engine-test"})
    waiting = engine.submit("early", [Answer(1)])
    assert not waiting.done()
    assert engine.state is EngineState.NEW
    engine.start()
    assert not waiting.done(), "start delays nothing"
    assert waiting.result(60) == [1]
    yield engine
    engine.close()
    assert not jvms()


def slots(engine: SparkEngine) -> int:
    """How many Spark tasks run at a time: more on a larger machine."""
    assert engine._spark is not None
    return engine._spark.slots


def all_busy(engine: SparkEngine, folder: Path) -> list[Future[list[Any]]]:
    """What hangs in every slot."""
    busy = []
    for n in range(slots(engine)):
        busy.append(engine.submit(f"busy-{n}", [Hang(str(folder / f"busy-{n}"))]))
        wait_until(busy[-1].running)
    return busy


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the engine has told an operator."""
    return [r.getMessage() for r in caplog.records if r.levelname == "ERROR" and r.name == "spark_tasks.running.engine"]


def test_results_come_in_the_order_of_the_splits(engine: SparkEngine) -> None:
    splits = [Answer(n, 0.02 * (5 - n)) for n in range(6)]
    assert engine.submit("a-0", splits).result(20) == list(range(6))
    assert engine.submit("a-0", []).result(20) == []


def test_an_answer_that_cannot_be_read_fails_its_task_and_keeps_no_other_waiting(engine: SparkEngine) -> None:
    for _ in range(slots(engine)):  # as many as there are threads that run jobs
        with pytest.raises(SparkLostError, match=r"^p-0: no answer: .*no number"):
            engine.submit("p-0", [AnswerPoison()]).result(20)
    assert engine.submit("a-0", [Answer(1)]).result(20) == [1]


def test_workers_are_hot_reused_and_forked_from_a_daemon_without_threads(engine: SparkEngine) -> None:
    found: list[dict[str, Any]] = [engine.submit("a-0", [Describe()]).result(20)[0] for _ in range(3 * slots(engine))]
    assert len({f["pid"] for f in found}) <= slots(engine) + 1
    assert {f["executable"] for f in found} == {sys.executable}
    assert all(f["hot"] for f in found)
    assert {f["daemon_threads"] for f in found} == {1}
    assert "spark_tasks.daemon" in found[0]["daemon"]


def test_a_hundred_small_tasks_share_jobs_and_one_error_is_only_its_task_s(engine: SparkEngine) -> None:
    futures = [engine.submit(f"t-{n}", [Answer(n), Fail("no") if n == 50 else Answer(-n)]) for n in range(100)]
    for n, future in enumerate(futures):
        if n == 50:
            with pytest.raises(DataError, match="no") as caught:
                future.result(20)
            assert "running_splits.py" in str(caught.value.__cause__)
        else:
            assert future.result(20) == [n, -n]


def test_tasks_run_in_parallel(engine: SparkEngine, tmp_path: Path) -> None:
    futures = [engine.submit(f"p-{n}", [Meet(str(tmp_path), 2)]) for n in range(2)]
    assert [f.result(20) for f in futures] == [[2], [2]]


def test_a_python_worker_that_dies_fails_its_job_and_no_more(engine: SparkEngine) -> None:
    with pytest.raises(SparkLostError, match="a-0"):
        engine.submit("a-0", [KillWorker()]).result(20)
    assert engine.submit("a-0", [Answer(5)]).result(20) == [5]
    assert engine.state is EngineState.RUNNING


def test_cancel_what_runs_and_what_waits(engine: SparkEngine, tmp_path: Path) -> None:
    slots = 4
    hanging = [engine.submit("hang-0", [Hang(str(tmp_path / str(n)))]) for n in range(slots + 2)]
    wait_until(lambda: len(list(tmp_path.iterdir())) >= 2)
    for batch in hanging:
        engine.cancel(batch)
    for future in hanging:
        with pytest.raises(CancelledError):
            future.result(1)
    futures = [engine.submit(f"after-{n}", [Answer(n)]) for n in range(slots)]
    assert [f.result(20) for f in futures] == [[n] for n in range(slots)], "their slots come free"


def test_a_shared_job_ends_when_the_last_task_has_given_it_up(engine: SparkEngine, tmp_path: Path) -> None:
    busy = all_busy(engine, tmp_path)
    tasks = ["shared-0", "shared-1"]
    shared = [engine.submit(task, [Hang(str(tmp_path / task))]) for task in tasks]
    engine.cancel(busy.pop())  # one slot comes free, for both that wait
    wait_until(lambda: tasks in [[s.task for s in job] for job in engine._running.values()], what="a shared job")
    for batch in shared + busy:
        engine.cancel(batch)
    wait_until(lambda: not engine._running, what="free slots")


def test_a_submission_that_waits_can_be_taken_back(engine: SparkEngine, tmp_path: Path) -> None:
    busy = all_busy(engine, tmp_path)
    last, other = (engine.submit(task, [Answer(9)]) for task in ("last-0", "other-0"))
    assert last.cancel()
    assert not busy[0].cancel(), "what runs is not taken back"
    for batch in busy:
        engine.cancel(batch)
    assert other.result(20) == [9]


def test_a_dead_jvm_is_started_again_and_told(
    engine: SparkEngine, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    assert SparkSession.builder.getOrCreate().range(3).count() == 3, "a plugin gets a session on the worker's Spark"
    in_flight = engine.submit("a-0", [Hang(str(tmp_path / "started"))])
    wait_until((tmp_path / "started").exists)
    (jvm,) = jvms()
    os.kill(jvm.pid, signal.SIGKILL)
    with pytest.raises(SparkLostError):
        in_flight.result(20)
    assert engine.submit("a-0", [Answer(3)]).result(60) == [3]
    assert SparkSession.builder.getOrCreate().range(3).count() == 3
    assert [text.partition(";")[0] for text in errors(caplog)] == ["Spark's JVM died, or its context was stopped"]


def test_a_plugin_that_stops_spark_has_it_started_again(
    engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_tasks.running.engine.RESTART_AFTER_S", 0)
    assert engine.submit("a-0", [Answer(1)]).result(60) == [1]
    SparkSession.builder.getOrCreate().stop()
    with pytest.raises(SparkLostError):
        engine.submit("a-0", [Answer(2)]).result(20)
    assert engine.submit("a-0", [Answer(3)]).result(60) == [3]


def test_spark_that_cannot_start(caplog: pytest.LogCaptureFixture) -> None:
    # Last: it shares the process's one SparkContext with nobody, as the fixture's is still there to be refused.
    broken = SparkEngine({"spark.driver.extraJavaOptions": "-XX:NoSuchOption"})
    waiting = broken.submit("a-0", [Answer(1)])
    broken.start()
    with pytest.raises(SparkStartError):
        waiting.result(60)
    assert broken.state is EngineState.FAILED
    assert [text.partition(":")[0] for text in errors(caplog)] == ["Spark is not available"]
    with pytest.raises(SparkStartError):
        broken.submit("a-0", [Answer(1)]).result(1)
    broken.close()


@pytest.mark.parametrize("moment", ["heeler-spark-*", "spark-*"])
def test_closed_while_spark_starts(temporary: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """It waits for what it has begun to start: neither a process nor a file stays."""
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    here = psutil.Process()
    before = here.children(recursive=True)
    engine = SparkEngine({})
    engine.start()
    family = wait_until(lambda: [child for child in here.children(recursive=True) if child not in before])
    # Looked for without a pause: Spark makes its folder a few milliseconds before it knows of it at its end.
    wait_until(lambda: any(any(temporary.glob(moment)) for _ in range(100_000)), 60, f"the folder {moment}")
    engine.close()
    wait_gone(family)
    assert leftovers(temporary) == []


def test_a_closed_engine_refuses() -> None:
    engine = SparkEngine({})
    waiting = engine.submit("a-0", [Answer(1)])
    engine.close()
    with pytest.raises(CancelledError):
        waiting.result(1)
    with pytest.raises(ConnectError, match="closed"):
        engine.submit("a-0", [Answer(1)]).result(1)
    engine.start()
    assert engine.state is EngineState.CLOSED
