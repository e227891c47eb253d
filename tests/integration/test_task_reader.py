"""Readers of source tasks in executor processes of their own, with a real engine."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from spark_tasks.errors import ConnectError, DataError, RetriableError, StartCancelledError
from spark_tasks.metrics.plugins import Series
from spark_tasks.sources.boundaries import BoundaryKind
from spark_tasks.sources.task_reader import TaskReader
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.tasks.pace import SplitSize
from tests.rigs.engines import MAX_PROCESSES
from tests.rigs.stateful_source import CountingConnector, SimpleConnector
from tests.rigs.support import wait_until
from tests.rigs.task_processes import TaskProcessRig, engine_without_spark, in_thread, wait_ended

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def engine() -> Iterator[ResidentEngine]:
    with engine_without_spark("readers") as engine:
        yield engine


@pytest.fixture
def rig(engine: ResidentEngine, tmp_path: Path) -> Iterator[TaskProcessRig]:
    with closing(TaskProcessRig(engine, tmp_path)) as rig:
        yield rig


def plan_of(reader: TaskReader, start: dict[str, Any]) -> Any:
    plan = reader.plan(start, SplitSize())
    assert plan is not None
    return plan


def test_all_calls_of_a_task_are_in_one_process_which_keeps_the_state(rig: TaskProcessRig) -> None:
    reader = rig.reader(CountingConnector)
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
    assert rig.metrics.plugins.figures().values == {Series("plans", "counter"): (3.0, 0.0)}
    reader.stop()
    pids = {pid for _, pid in rig.calls()}
    assert len(pids) == 1
    assert os.getpid() not in pids
    assert [what for what, _ in rig.calls()] == [
        "initial", *(f"{what}" for n in (1, 2, 3) for what in ("latest", "partitions", f"commit-{n}")), "stop"]
    wait_ended(*pids)


def test_an_error_of_the_reader_is_raised_as_it_is(rig: TaskProcessRig) -> None:
    reader = rig.reader(CountingConnector, do="refuse")
    reader.open()
    plan_of(reader, {"n": 0})
    with pytest.raises(DataError, match="refused"):
        reader.plan({"n": 1}, SplitSize())


def test_a_reader_whose_process_ends_is_replaced(rig: TaskProcessRig) -> None:
    reader = rig.reader(CountingConnector, do="exit")
    reader.open()
    plan_of(reader, {"n": 0})
    with pytest.raises(RetriableError, match="the process of c-0 ended with exit code 7"):
        reader.plan({"n": 1}, SplitSize())
    assert reader.position([({"task": 0}, {"n": 1})]) == {"n": 1}
    assert plan_of(reader, {"n": 0}).end == {"n": 1}, "a new one"
    assert len({pid for what, pid in rig.calls() if what == "latest"}) == 2


def test_a_reader_whose_process_ends_between_two_calls_is_not_replaced_silently(
    rig: TaskProcessRig, caplog: pytest.LogCaptureFixture
) -> None:
    """A new one has to be told first where the task is."""
    reader = rig.reader(CountingConnector)
    reader.open()
    plan_of(reader, {"n": 0})
    os.kill(rig.calls()[-1][1], signal.SIGKILL)
    wait_until(lambda: "The process of c-0 was killed by signal 9" in caplog.text, what="the monitor to find it")
    with pytest.raises(RetriableError, match="the process of c-0 has ended"):
        reader.plan({"n": 1}, SplitSize())
    reader.position([])
    assert plan_of(reader, {"n": 0}).end == {"n": 1}


@pytest.mark.parametrize("how", ["hold", "sleep"])
def test_a_call_that_hangs_shows_where_and_ends_with_the_task(rig: TaskProcessRig, how: str) -> None:
    reader = rig.reader(CountingConnector, do=how)
    reader.open()
    plan_of(reader, {"n": 0})
    thread, raised = in_thread(lambda: reader.plan({"n": 1}, SplitSize()))
    wait_until(lambda: [what for what, _ in rig.calls()].count("latest") == 2, what="the second plan")
    (call,) = wait_until(lambda: [one for one in reader.calls() if "misbehave" in one.stack], what="its stack")
    assert (call.method, call.waits) == ("plan", False)
    reader.kill()
    thread.join(20)
    assert isinstance(raised[0], RetriableError)
    wait_ended(rig.calls()[-1][1])
    with pytest.raises((ConnectError, StartCancelledError)):
        reader.position([])


def test_a_reader_that_uses_the_workers_spark_runs_on_the_worker(
    rig: TaskProcessRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(SparkContext, "getOrCreate", lambda *_: asked.append("here"))
    monkeypatch.setattr("pyspark.sql.SparkSession.Builder.getOrCreate",
                        lambda _: SparkContext.getOrCreate())
    at_once, later = rig.reader(CountingConnector, needs="session"), rig.reader(CountingConnector, do="session")
    at_once.open()
    assert asked == ["here"]
    assert plan_of(at_once, {"n": 0}).end == {"n": 1}
    assert rig.calls()[-1] == ("partitions", os.getpid())
    later.open()
    plan_of(later, {"n": 0})
    with pytest.raises(RetriableError, match="continues with a new one there"):
        later.plan({"n": 1}, SplitSize())
    plan_of(later, later.position([]))
    assert rig.calls()[-1] == ("partitions", os.getpid())


def test_a_simple_reader_has_a_process_only_until_its_position_is_known(rig: TaskProcessRig) -> None:
    reader = rig.reader(SimpleConnector)
    reader.open()
    assert reader.facts.simple
    assert reader.position([]) == {"n": 5}
    plan = plan_of(reader, {"n": 5})
    assert plan.start is not None
    ((what, pid),) = rig.calls()
    assert what == "initial"
    wait_ended(pid)


def test_half_of_the_processes_belong_to_tasks_at_most(rig: TaskProcessRig, caplog: pytest.LogCaptureFixture) -> None:
    readers = [rig.reader(CountingConnector) for _ in range(MAX_PROCESSES // 2 + 1)]
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(len(readers)) as tasks:  # all at the same time
        for _ in tasks.map(TaskReader.open, readers):
            pass
    for reader in readers:
        reader.position([])
    pids = [pid for _, pid in rig.calls()]
    assert len(set(pids)) == len(pids)
    assert os.getpid() in pids
    assert "runs on the worker" in caplog.text


def test_no_other_task_finds_the_object_of_one_that_has_ended(rig: TaskProcessRig) -> None:
    """Not even in the same process."""
    first = rig.reader(CountingConnector)
    first.open()
    first.position([])
    ((_, pid),) = rig.calls()
    first.stop()
    wait_ended(pid)


@pytest.mark.parametrize("how", ["commit", "wrapped"])
def test_what_needs_the_workers_spark_is_repeated_there(
    rig: TaskProcessRig, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """If it can be; also if the plugin hides why it has failed."""
    monkeypatch.setattr("pyspark.sql.SparkSession.Builder.getOrCreate", lambda _: None)
    reader = rig.reader(CountingConnector, do=how)
    reader.open()
    plan_of(reader, {"n": 0})
    if how == "commit":
        reader.commit({"n": 1})
        assert rig.calls()[-1] == ("commit-1", os.getpid())
    else:
        with pytest.raises(RetriableError, match="continues with a new one there"):
            reader.plan({"n": 1}, SplitSize())


def test_a_failing_constructor_runs_once(rig: TaskProcessRig) -> None:
    reader = rig.reader(CountingConnector, do="fail")
    with pytest.raises(DataError, match="wrong password"):
        reader.open()
    reader.stop()
    assert [what for what, _ in rig.calls()] == ["made"]
