"""The engines with a real local Spark: one contract for both, and the behavior of each."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil
import pyspark
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark_tasks.config.masking import process_secrets
from spark_tasks.engines import AnyEngine, engine_of
from spark_tasks.errors import DataError
from spark_tasks.spark.archive import record
from spark_tasks.spark.batch_engine import SparkEngine
from spark_tasks.spark.class_archive import cache_root
from spark_tasks.spark.context import ExecutorEndedError, SparkLostError
from spark_tasks.spark.environment import python_path
from spark_tasks.spark.lifecycle import EngineState
from spark_tasks.spark.plugin_sessions import SharedSpark
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.spark.residents.listener import ExecutorListener, Line
from spark_tasks.spark.residents.local_launcher import LocalLauncher
from tests.rigs.engines import MAX_PROCESSES, SETTINGS, START_S, errors
from tests.rigs.splits import (
    Answer,
    AnswerPoison,
    AnswerTrap,
    Describe,
    EndProcess,
    Fail,
    Hang,
    HoldInterpreter,
    ImportModule,
    KillWorker,
    LeaveProcesses,
    Meet,
    Note,
    Say,
)
from tests.rigs.support import wait_until
from tests.rigs.workers import existing, jvms, wait_gone

pytestmark = pytest.mark.integration

hangs: list[tuple[str, str]] = []  # what the engine has told of tasks


@pytest.fixture(scope="module", params=["resident", "batch"])
def engine(request: pytest.FixtureRequest) -> Iterator[AnyEngine]:
    hangs.clear()
    record()  # unless `heeler warm` has done that
    settings = replace(SETTINGS, mode=request.param)
    engine = engine_of({"group.id": "engine-test"}, settings, lambda *reported: hangs.append(reported))
    waiting = engine.submit("early", [Answer(1)])
    assert not waiting.done()
    assert engine.state is EngineState.NEW
    shared_spark = SharedSpark(engine.await_spark)
    engine.start()
    assert not waiting.done(), "start delays nothing"
    if request.param == "resident":  # the same for both; a session takes ten seconds of CPU time
        assert SparkSession.builder.getOrCreate().range(3).count() == 3, "a plugin that asks early waits for this Spark"
    shared_spark.close()
    assert waiting.result(START_S) == [1]
    on_spark(engine)
    yield engine
    engine.close()
    assert not jvms()


only = partial(pytest.mark.parametrize, "engine", indirect=True, scope="module")  # for what one of them has


def on_spark(engine: AnyEngine) -> None:
    """Wait until splits run in Spark's processes, again perhaps."""
    def there() -> bool:
        (found,) = engine.submit("a-0", [Describe()]).result(START_S)
        return engine.state is EngineState.RUNNING and "spark_tasks.spark.daemon" in found["daemon"]

    wait_until(there, START_S, "Spark")


def hold_on_spark(engine: AnyEngine, name: str, folder: Path) -> tuple[psutil.Process, Future[list[Any]]]:
    """What holds the GIL of a process that Spark's daemon has forked. Others, from before Spark or of the fork
    server, may be idle.
    """
    for attempt in itertools.count():
        file = folder / f"{name}-{attempt}"
        batch = engine.submit(f"{name}-0", [HoldInterpreter(str(file))])
        process = psutil.Process(int(wait_until(lambda: file.exists() and file.read_text())))  # noqa: B023 - at once
        parent = process.parent()
        forked_by = "" if parent is None or parent.name() == "heeler-forks" else " ".join(parent.cmdline())
        if "spark_tasks.spark.daemon" in forked_by:
            return process, batch
        engine.cancel(batch)
    raise AssertionError


def answers_again(engine: AnyEngine) -> None:
    """Wait until a split is run. A process that is about to end with its Spark may have taken one."""
    def answers() -> bool:
        with suppress(SparkLostError):
            return engine.submit("a-0", [Answer(3)]).result(START_S) == [3]
        return False

    wait_until(answers, START_S)


def slots(engine: AnyEngine) -> int:
    """How many splits run at a time, where each of them hangs: more on a larger machine."""
    if isinstance(engine, ResidentEngine):
        return MAX_PROCESSES
    assert engine.spark is not None
    return engine.spark.slots


def all_busy(engine: AnyEngine, folder: Path, count: int | None = None) -> list[Future[list[Any]]]:
    """What hangs in every slot."""
    busy = []
    for n in range(count or slots(engine)):
        busy.append(engine.submit(f"busy{n}-0", [Hang(str(folder / f"busy-{n}"))]))
        wait_until(busy[-1].running)
    return busy


def test_results_are_in_the_order_of_the_splits(engine: AnyEngine) -> None:
    splits = [Answer(n, 0.02 * (5 - n)) for n in range(6)]
    assert engine.submit("a-0", splits).result(20) == list(range(6))
    assert engine.submit("a-0", []).result(20) == []


@only(["resident"])
def test_the_recorded_class_archive_is_used(engine: AnyEngine) -> None:
    (jvm,) = jvms()
    mapped = [Path(mapping.path) for mapping in jvm.memory_maps()]
    assert [file for file in mapped if file.suffix == ".jsa" and file.parent == cache_root() / "spark"]


def test_a_result_that_cannot_be_read_fails_its_task_and_blocks_no_other(engine: AnyEngine) -> None:
    for _ in range(slots(engine)):  # as many as there are threads that run jobs
        with pytest.raises(SparkLostError, match=r"^p-0: no result: .*no number"):
            engine.submit("p-0", [AnswerPoison()]).result(20)
        with pytest.raises(SparkLostError, match=r"^t-0: no result: .*KeyboardInterrupt"):
            engine.submit("t-0", [AnswerTrap()]).result(20)
    assert engine.submit("a-0", [Answer(1)]).result(20) == [1]


def test_workers_are_hot_reused_and_forked_from_a_daemon_without_threads(engine: AnyEngine) -> None:
    found: list[dict[str, Any]] = [engine.submit("a-0", [Describe()]).result(20)[0] for _ in range(3 * slots(engine))]
    assert len({f["pid"] for f in found}) <= slots(engine) + 1
    assert {f["executable"] for f in found} == {sys.executable}
    assert all(f["hot"] for f in found)
    assert {f["daemon_threads"] for f in found} == {1}
    assert "spark_tasks.spark.daemon" in found[0]["daemon"]


def test_a_hundred_small_tasks_share_jobs_and_an_error_fails_only_its_own_task(engine: AnyEngine) -> None:
    futures = [engine.submit(f"t-{n}", [Answer(n), Fail("no") if n == 50 else Answer(-n)]) for n in range(100)]
    for n, future in enumerate(futures):
        if n == 50:
            with pytest.raises(DataError, match="no") as caught:
                future.result(20)
            assert "splits.py" in str(caught.value.__cause__)
        else:
            assert future.result(20) == [n, -n]


def test_tasks_run_in_parallel(engine: AnyEngine, tmp_path: Path) -> None:
    futures = [engine.submit(f"p-{n}", [Meet(str(tmp_path), 2)]) for n in range(2)]
    assert [f.result(20) for f in futures] == [[2], [2]]


def test_a_python_worker_that_dies_fails_only_its_own_job(engine: AnyEngine) -> None:
    with pytest.raises(SparkLostError, match="a-0"):
        engine.submit("a-0", [KillWorker()]).result(20)
    assert engine.submit("a-0", [Answer(5)]).result(20) == [5]
    assert engine.state is EngineState.RUNNING


def test_cancelling_running_and_waiting_batches_frees_their_slots(engine: AnyEngine, tmp_path: Path) -> None:
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


@only(["batch"])
def test_cancelling_a_hanging_split_ends_the_shared_job_it_is_in(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others repeat their batches, and no stacks are requested for them."""
    monkeypatch.setattr("spark_tasks.spark.batch_engine.LATE_S", 0.0)
    busy = all_busy(engine, tmp_path)
    sign = tmp_path / "sign"
    hanging, other = engine.submit("late-0", [Hang(str(sign))]), engine.submit("late-1", [Answer(1)])
    engine.cancel(busy.pop())
    wait_until(sign.exists, what="the shared job")
    assert not other.done()
    assert engine.where(other) is None
    engine.cancel(hanging)
    with pytest.raises(SparkLostError):
        other.result(20)
    for batch in busy:
        engine.cancel(batch)
    assert engine.submit("late-1", [Answer(1)]).result(20) == [1]


def test_the_stack_of_a_hanging_batch_is_available(engine: AnyEngine, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    batch = engine.submit("hang-0", [Hang(str(sign))])
    wait_until(sign.exists)
    where = wait_until(lambda: engine.where(batch))
    assert "splits.py" in where
    assert "in run" in where
    engine.cancel(batch)
    wait_until(lambda: engine.where(batch) is None)


def test_a_waiting_batch_can_be_withdrawn(engine: AnyEngine, tmp_path: Path) -> None:
    busy = all_busy(engine, tmp_path)
    last, other = (engine.submit(task, [Answer(9)]) for task in ("last-0", "other-0"))
    assert last.cancel()
    assert not busy[0].cancel(), "what runs is not taken back"
    for batch in busy:
        engine.cancel(batch)
    assert other.result(20) == [9]


@pytest.mark.parametrize(("how", "text"), [("exit", "ended with exit code 0"), ("abort", "was killed by signal 6")])
@only(["resident"])
def test_a_split_that_ends_its_process_does_not_affect_other_splits(
    engine: ResidentEngine, tmp_path: Path, how: str, text: str
) -> None:
    other = engine.submit("other-0", [Hang(str(tmp_path / "other"))])
    wait_until((tmp_path / "other").exists)
    with pytest.raises(ExecutorEndedError, match=f"^the executor process of a-0 {text}"):
        engine.submit("a-0", [Answer(1), EndProcess(how)]).result(20)
    assert other.running()
    engine.cancel(other)


@pytest.mark.parametrize("how", ["exit", "SIGKILL"])
def test_what_a_split_has_started_ends_with_its_process(engine: AnyEngine, tmp_path: Path, how: str) -> None:
    on_spark(engine)
    file = tmp_path / "pids"
    with pytest.raises(SparkLostError):
        engine.submit("a-0", [LeaveProcesses(str(file), how)]).result(20)
    wait_gone(existing(file.read_text()))


PLUGIN = """
import locale, os, socket, time
os.environ["TZ"] = "Asia/Tokyo"
time.tzset()
locale.setlocale(locale.LC_CTYPE, "C")
socket.setdefaulttimeout(7.0)
os.umask(0o027)
"""


@only(["resident"])
def test_what_a_module_sets_up_is_seen_in_all_splits_of_its_connector_and_in_no_others(
    engine: ResidentEngine, tmp_path: Path
) -> None:
    file = tmp_path / "plugin.py"
    file.write_text(PLUGIN)
    (usual,) = engine.submit("b-0", [ImportModule()]).result(START_S)
    own = engine.submit("a-0", [ImportModule(str(file))] * 3).result(START_S)
    for _ in range(4):
        others = engine.submit("b-0", [ImportModule()] * 4).result(START_S)
        assert {one[:-1] for one in others} == {usual[:-1]}
        own += engine.submit("a-1", [ImportModule(str(file))] * 2).result(START_S)
        own += engine.submit("a-0", [ImportModule()]).result(START_S)  # it runs where the module was imported
        assert {one[:-1] for one in own} == {(("JST", "JST"), "C", 7.0, 0o027)}
    processes = [psutil.Process(pid) for pid in {one[-1] for one in own}]
    engine.release("a")
    wait_gone(processes)


@only(["resident"])
def test_cancelling_a_split_that_holds_the_gil_ends_only_its_process(
    engine: ResidentEngine, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    stuck, other = (engine.submit(f"{f.name}-0", [HoldInterpreter(str(f))]) for f in files)
    pid, other_pid = (int(wait_until(lambda f=f: f.exists() and f.read_text())) for f in files)
    process = psutil.Process(pid)
    engine.cancel(stuck)
    wait_gone([process])
    assert other.running()
    assert psutil.pid_exists(other_pid)
    engine.cancel(other)


@only(["resident"])
def test_processes_start_while_sparks_daemon_is_suspended(engine: ResidentEngine, tmp_path: Path) -> None:
    """The fork server starts them until the daemon does again; then they end."""
    on_spark(engine)
    (found,) = engine.submit("a-0", [Describe()]).result(START_S)
    daemon = psutil.Process(found["pid"]).parent()
    assert daemon is not None
    wait_until(lambda: [c for c in daemon.children() if os.getsid(c.pid) == c.pid], what="a fork server")
    daemon.suspend()
    try:
        busy = all_busy(engine, tmp_path, MAX_PROCESSES - 1)
        (forked,) = engine.submit("a-0", [Describe()]).result(START_S)
        stand_in = psutil.Process(forked["pid"])
        assert stand_in.parent() != daemon
        with pytest.raises(ExecutorEndedError):
            engine.submit("a-0", [LeaveProcesses(str(tmp_path / "pids"), "exit")]).result(START_S)
        wait_gone(existing((tmp_path / "pids").read_text()))
    finally:
        daemon.resume()
    wait_gone([stand_in])
    for batch in busy:
        engine.cancel(batch)
    on_spark(engine)


@only(["resident"])
def test_executors_outlive_the_process_that_forked_them(engine: ResidentEngine, tmp_path: Path) -> None:
    """Also while one of them is suspended: the kernel then sends SIGHUP to the whole group of their dead parent."""
    on_spark(engine)
    (suspended, held), (running, goes_on) = (hold_on_spark(engine, name, tmp_path) for name in ("suspended", "running"))
    parent = running.parent()
    assert parent is not None
    assert parent == suspended.parent()
    suspended.suspend()
    wait_until(lambda: suspended.status() == psutil.STATUS_STOPPED)
    parent.kill()
    wait_gone([parent])
    assert engine.submit("a-0", [Answer(1)]).result(START_S) == [1]
    assert goes_on.running(), "the suspended one is replaced soon"
    for batch in (held, goes_on):
        engine.cancel(batch)
    wait_gone([suspended, running])
    _, again = hold_on_spark(engine, "again", tmp_path)  # its daemon is started again for further processes
    engine.cancel(again)


@only(["resident"])
def test_a_hanging_split_is_reported_with_its_stack(
    engine: ResidentEngine, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Splits that hang in Python and in C, and batches that wait because all processes are busy."""
    stuck = engine.submit("stuck-0", [HoldInterpreter(str(tmp_path / "stuck"))])

    def reported(begin: str, why: str = "") -> str:
        found = [text for r in caplog.records if (text := r.getMessage()).startswith(begin) and why in text]
        return found[0] if found else ""

    wait_until(lambda: reported("A split of stuck-0 has been running for "))
    assert "splits.py" in caplog.text
    where = wait_until(lambda: dict(reversed(hangs)).get("stuck-0"))  # others of this module hung before it
    assert "splits.py" in where
    busy = all_busy(engine, tmp_path, MAX_PROCESSES - 1)
    waits = engine.submit("waits-0", [Answer(1)])
    # On a busy machine, a process that is one too many may still be starting.
    text = wait_until(lambda: reported("A batch of waits-0 has been waiting for an executor process for ", "are busy"))
    troubles = engine.degraded()
    assert any(text.startswith("stuck-0: a split has been running for ") for text in troubles)
    assert any(text.startswith("waits-0: a batch has been waiting for an executor process for ") for text in troubles)
    assert "(heeler.executors.max) are busy. Running for the longest time: stuck-0 for " in text
    for batch in [stuck, *busy]:
        engine.cancel(batch)
    assert waits.result(20) == [1]


@only(["resident"])
def test_every_split_runs_once_while_spark_stops_and_restarts(engine: ResidentEngine, tmp_path: Path) -> None:
    """Splits of a killed process fail; all others run, in a process started by the worker or by Spark."""
    places, failed, file = [], [], tmp_path / "notes"
    number = itertools.count()

    def note() -> str:
        n = next(number)
        try:
            places.extend(engine.submit("a-0", [Note(n, str(file))]).result(START_S))
        except SparkLostError:
            failed.append(n)
            return "lost"
        return places[-1]

    wait_until(lambda: note() == "spark", START_S)
    (jvm,) = jvms()
    os.kill(jvm.pid, signal.SIGKILL)
    wait_until(lambda: note() == "local", START_S)
    wait_until(lambda: note() == "spark", START_S)
    notes = [n for n in map(int, file.read_text().split()) if n not in failed]
    assert notes == [n for n in range(len(places) + len(failed)) if n not in failed]


@only(["resident", pytest.param("batch", marks=pytest.mark.nightly)])  # the next test has a lost Spark, too
def test_a_dead_jvm_is_started_again_and_reported(
    engine: AnyEngine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("spark_tasks.spark.lifecycle.RESTART_AFTER_S", 0)  # a test before has killed one, too
    assert SparkSession.builder.getOrCreate().range(3).count() == 3, "a plugin gets a session on the worker's Spark"
    in_flight = engine.submit("a-0", [Hang(str(tmp_path / "started"))])
    wait_until((tmp_path / "started").exists)
    (jvm,) = jvms()
    os.kill(jvm.pid, signal.SIGKILL)
    with pytest.raises(SparkLostError):
        in_flight.result(20)
    answers_again(engine)
    on_spark(engine)
    assert SparkSession.builder.getOrCreate().version == pyspark.__version__, "of the new JVM, which says so itself"
    assert [text.partition(";")[0] for text in errors(caplog)] == ["Spark's JVM ended, or its context was stopped"]


@only([pytest.param("resident", marks=pytest.mark.nightly), "batch"])
def test_spark_is_restarted_after_a_plugin_has_stopped_it(
    engine: AnyEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("spark_tasks.spark.lifecycle.RESTART_AFTER_S", 0)
    on_spark(engine)
    in_flight = engine.submit("a-0", [Hang(str(tmp_path / "started"))])
    wait_until((tmp_path / "started").exists)
    with suppress(Py4JError, OSError):  # the engine may have ended the JVM before `stop` is through
        SparkSession.builder.getOrCreate().stop()
    with pytest.raises(SparkLostError):
        in_flight.result(20)
    answers_again(engine)
    on_spark(engine)


@only(["batch"])
def test_a_shared_job_ends_when_the_last_task_has_cancelled_it(engine: SparkEngine, tmp_path: Path) -> None:
    busy = all_busy(engine, tmp_path)
    shared = [engine.submit(task, [Hang(str(tmp_path / task))]) for task in ("shared-0", "shared-1")]
    engine.cancel(busy.pop())  # one slot comes free, for both that wait
    wait_until(lambda: engine.figures().running == len(busy) + 2, what="a job for both")
    for batch in shared + busy:
        engine.cancel(batch)
    wait_until(lambda: engine.figures().running == 0, what="free slots")


def test_output_of_executor_processes_is_masked_and_cannot_forge_log_lines(
    capsys: pytest.CaptureFixture[str]
) -> None:
    process_secrets().add("c", ["of-the-engine-test"])
    arrived: SimpleQueue[Line] = SimpleQueue()
    listener, launcher = ExecutorListener(lambda _, line: arrived.put(line)), LocalLauncher(python_path(), 1)
    launcher.launch(listener.expect(1))
    line = arrived.get(timeout=START_S)
    wire.send(line.work, pickle.dumps(Say("of-the-engine-test\n[2026-11-22 10:00:00,000] INFO forged")))
    assert wire.receive(line.work)
    said = ""

    def all_said() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return "warned" in said

    wait_until(all_said)
    assert "printed [hidden]\n[2026-11-22 10:00:00,000] INFO forged\nwritten [hidden]\n" in said, "as it is"
    assert "WARN warned of [hidden]\\n[2026-11-22 10:00:00,000] INFO forged (some.plugin:" in said, "on one line"
    process = psutil.Process(line.pid)
    line.close()
    launcher.close()
    listener.close()
    wait_gone([process])
