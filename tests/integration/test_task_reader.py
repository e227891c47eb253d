"""Readers of source tasks in executor processes of their own, with a real engine."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import SparkContext

from spark_tasks.errors import ConnectError, DataError, RetriableError, StartCancelledError
from spark_tasks.metrics.plugins import Series
from spark_tasks.plugins.api import SourceConnector
from spark_tasks.sources.boundaries import BoundaryKind
from spark_tasks.sources.task_reader import TaskReader
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.tasks.pace import SplitSize
from tests.rigs.engines import MAX_PROCESSES, SETTINGS
from tests.rigs.stateful_source import CountingConnector, SimpleConnector
from tests.rigs.support import wait_until
from tests.rigs.tasks import MemoryOffsets, context_of
from tests.rigs.workers import wait_gone

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def engine() -> Iterator[ResidentEngine]:
    engine = ResidentEngine({"group.id": "readers"}, replace(SETTINGS, spark_delay_s=3600.0))
    engine.start()
    yield engine
    engine.close()


class Rig:
    def __init__(self, engine: ResidentEngine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.readers: list[TaskReader] = []

    def reader(self, connector: type[SourceConnector] = CountingConnector, **config: str) -> TaskReader:
        given = {"name": "c", "folder": str(self.folder), **config}
        context = context_of(self.engine, {}, given, lambda: None, offsets=MemoryOffsets())
        self.readers.append(TaskReader(context, connector))
        self.metrics = context.metrics.plugins
        return self.readers[-1]

    def said(self) -> list[tuple[str, int]]:
        """The calls, and the process of each."""
        lines = (self.folder / "calls").read_text().splitlines() if (self.folder / "calls").exists() else []
        return [(what, int(pid)) for what, pid in map(str.split, lines)]


@pytest.fixture
def rig(engine: ResidentEngine, tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(engine, tmp_path)
    yield rig
    for reader in rig.readers:
        reader.kill()
        reader.stop()


def plan_of(reader: TaskReader, start: dict[str, Any]) -> Any:
    plan = reader.plan(start, SplitSize())
    assert plan is not None
    return plan


def in_thread(call: Any) -> tuple[threading.Thread, list[Exception]]:
    raised: list[Exception] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - for the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def test_all_calls_of_a_task_are_in_one_process_which_keeps_the_state(rig: Rig) -> None:
    reader = rig.reader()
    reader.open()
    position = reader.position([])
    assert position == {"n": 0}
    for n in (1, 2, 3):
        plan = plan_of(reader, position)
        assert plan.end == {"n": n}
        position = plan.end
        reader.commit(position)
    assert reader.offsets(position) == [({"task": 0}, {"n": 3})]
    assert reader.signal(BoundaryKind.POLL, {}, {}) == "commit"
    assert rig.metrics.figures().values == {Series("plans", "counter"): (3.0, 0.0)}
    reader.stop()
    pids = {pid for _, pid in rig.said()}
    assert len(pids) == 1
    assert os.getpid() not in pids
    assert [what for what, _ in rig.said()] == [
        "initial", *(f"{what}" for n in (1, 2, 3) for what in ("latest", "partitions", f"commit-{n}")), "stop"]
    wait_gone([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)])


def test_an_error_of_the_reader_is_raised_as_it_is(rig: Rig) -> None:
    reader = rig.reader(do="refuse")
    reader.open()
    plan_of(reader, {"n": 0})
    with pytest.raises(DataError, match="refused"):
        reader.plan({"n": 1}, SplitSize())


def test_a_reader_whose_process_ends_is_replaced(rig: Rig) -> None:
    reader = rig.reader(do="exit")
    reader.open()
    plan_of(reader, {"n": 0})
    with pytest.raises(RetriableError, match="the process of c-0 ended with exit code 7"):
        reader.plan({"n": 1}, SplitSize())
    assert reader.position([({"task": 0}, {"n": 1})]) == {"n": 1}
    assert plan_of(reader, {"n": 0}).end == {"n": 1}, "a new one"
    assert len({pid for what, pid in rig.said() if what == "latest"}) == 2


def test_a_reader_whose_process_ends_between_two_calls_is_not_replaced_silently(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """A new one has to be told first where the task is."""
    reader = rig.reader()
    reader.open()
    plan_of(reader, {"n": 0})
    os.kill(rig.said()[-1][1], signal.SIGKILL)
    wait_until(lambda: "The process of c-0 was killed by signal 9" in caplog.text, what="the monitor to find it")
    with pytest.raises(RetriableError, match="the process of c-0 has ended"):
        reader.plan({"n": 1}, SplitSize())
    reader.position([])
    assert plan_of(reader, {"n": 0}).end == {"n": 1}


@pytest.mark.parametrize("how", ["hold", "sleep"])
def test_a_call_that_hangs_shows_where_and_ends_with_the_task(rig: Rig, how: str) -> None:
    reader = rig.reader(do=how)
    reader.open()
    plan_of(reader, {"n": 0})
    thread, raised = in_thread(lambda: reader.plan({"n": 1}, SplitSize()))
    wait_until(lambda: [what for what, _ in rig.said()].count("latest") == 2, what="the second plan")
    (call,) = wait_until(lambda: [one for one in reader.calls() if "misbehave" in one.stack], what="its stack")
    assert (call.method, call.waits) == ("plan", False)
    process = psutil.Process(rig.said()[-1][1])
    reader.kill()
    thread.join(20)
    assert isinstance(raised[0], RetriableError)
    wait_gone([process])
    with pytest.raises((ConnectError, StartCancelledError)):
        reader.position([])


def test_a_reader_that_uses_the_workers_spark_runs_on_the_worker(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(SparkContext, "getOrCreate", lambda *_: asked.append("here"))
    monkeypatch.setattr("pyspark.sql.SparkSession.Builder.getOrCreate",
                        lambda _: SparkContext.getOrCreate())
    at_once, later = rig.reader(needs="session"), rig.reader(do="session")
    at_once.open()
    assert asked == ["here"]
    assert plan_of(at_once, {"n": 0}).end == {"n": 1}
    assert rig.said()[-1] == ("partitions", os.getpid())
    later.open()
    plan_of(later, {"n": 0})
    with pytest.raises(RetriableError, match="continues with a new one there"):
        later.plan({"n": 1}, SplitSize())
    plan_of(later, later.position([]))
    assert rig.said()[-1] == ("partitions", os.getpid())


def test_a_simple_reader_has_a_process_only_until_its_position_is_known(rig: Rig) -> None:
    reader = rig.reader(SimpleConnector)
    reader.open()
    assert reader.facts.simple
    assert reader.position([]) == {"n": 5}
    plan = plan_of(reader, {"n": 5})
    assert plan.start is not None
    ((what, pid),) = rig.said()
    assert what == "initial"
    wait_gone([psutil.Process(pid)] if psutil.pid_exists(pid) else [])


def test_half_of_the_processes_belong_to_tasks_at_most(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    readers = [rig.reader() for _ in range(MAX_PROCESSES // 2 + 1)]
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(len(readers)) as tasks:  # all at the same time
        for _ in tasks.map(TaskReader.open, readers):
            pass
    for reader in readers:
        reader.position([])
    pids = [pid for _, pid in rig.said()]
    assert len(set(pids)) == len(pids)
    assert os.getpid() in pids
    assert "runs on the worker" in caplog.text


def test_no_other_task_finds_the_object_of_one_that_has_ended(rig: Rig) -> None:
    """Not even in the same process."""
    first = rig.reader()
    first.open()
    first.position([])
    ((_, pid),) = rig.said()
    first.stop()
    wait_gone([psutil.Process(pid)] if psutil.pid_exists(pid) else [])


@pytest.mark.parametrize("how", ["commit", "wrapped"])
def test_what_needs_the_workers_spark_is_repeated_there(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """If it can be; also if the plugin hides why it has failed."""
    monkeypatch.setattr("pyspark.sql.SparkSession.Builder.getOrCreate", lambda _: None)
    reader = rig.reader(do=how)
    reader.open()
    plan_of(reader, {"n": 0})
    if how == "commit":
        reader.commit({"n": 1})
        assert rig.said()[-1] == ("commit-1", os.getpid())
    else:
        with pytest.raises(RetriableError, match="continues with a new one there"):
            reader.plan({"n": 1}, SplitSize())


def test_a_failing_constructor_runs_once(rig: Rig) -> None:
    reader = rig.reader(do="fail")
    with pytest.raises(DataError, match="wrong password"):
        reader.open()
    reader.stop()
    assert [what for what, _ in rig.said()] == ["made"]
