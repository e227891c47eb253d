"""Writers of sink tasks in executor processes of their own, with a real engine."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from spark_tasks.errors import RetriableError
from spark_tasks.sinks.task_writer import TaskWriter
from spark_tasks.spark.residents.engine import ResidentEngine
from tests.rigs.engines import SETTINGS
from tests.rigs.stateful_sink import CountingSink, Written
from tests.rigs.support import wait_until
from tests.rigs.tasks import context_of
from tests.rigs.workers import wait_gone

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def engine() -> Iterator[ResidentEngine]:
    engine = ResidentEngine({"group.id": "writers"}, replace(SETTINGS, spark_delay_s=3600.0))
    engine.start()
    yield engine
    engine.close()


class Rig:
    def __init__(self, engine: ResidentEngine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.writers: list[TaskWriter] = []

    def writer(self, **config: str) -> TaskWriter:
        given = {"name": "c", "folder": str(self.folder), **config}
        self.writers.append(TaskWriter(context_of(self.engine, {}, given, lambda: None), CountingSink))
        return self.writers[-1]

    def said(self) -> list[tuple[str, int]]:
        """The calls, and the process of each."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [(what, int(pid)) for what, pid in map(str.split, lines)]


@pytest.fixture
def rig(engine: ResidentEngine, tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(engine, tmp_path)
    yield rig
    for writer in rig.writers:
        writer.kill()
        writer.end()


def test_batches_are_committed_in_one_process_which_keeps_the_state(rig: Rig) -> None:
    writer = rig.writer()
    copy = pickle.loads(writer.open())
    assert copy.write(iter("abc")) == Written(3), "as executors use it"
    assert not writer.commits_nothing
    writer.commit([Written(3), Written(2)])
    writer.abort([Written(1)])  # which it does not define
    writer.commit([Written(1)])
    assert writer.resume_from is not None
    assert writer.resume_from("t", 0) == 6
    assert [what for what, _ in rig.said()] == ["made", "commit-5", "commit-6", "resume"]
    ((pid,),) = [{pid for _, pid in rig.said()}]
    assert pid != os.getpid()
    process = psutil.Process(pid)
    writer.end()
    wait_gone([process])


def test_a_writer_that_does_nothing_between_batches_has_no_process(rig: Rig) -> None:
    writer = rig.writer(plain="yes")
    assert pickle.loads(writer.open()).write(iter("ab")) == Written(2)
    assert writer.commits_nothing
    assert writer.resume_from is None
    writer.commit([Written(2)])
    ((what, pid),) = rig.said()
    assert what == "made"
    wait_gone([psutil.Process(pid)] if psutil.pid_exists(pid) else [])


def test_a_writer_whose_process_ends_is_replaced(rig: Rig) -> None:
    writer = rig.writer(do="exit")
    writer.open()
    writer.commit([Written(1)])
    with pytest.raises(RetriableError, match="the process of c-0 ended with exit code 7"):
        writer.commit([Written(1)])
    writer.commit([Written(4)])
    assert [what for what, _ in rig.said()] == ["made", "commit-1", "made", "commit-4"]


def test_a_commit_that_hangs_shows_where_and_ends_with_the_task(rig: Rig) -> None:
    writer = rig.writer(do="hold")
    writer.open()
    writer.commit([Written(1)])
    raised: list[Exception] = []

    def commit() -> None:
        try:
            writer.commit([Written(1)])
        except RetriableError as error:
            raised.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    wait_until(lambda: rig.said()[-1][0] == "holds", what="the commit")
    (call,) = wait_until(lambda: [one for one in writer.calls() if "in commit" in one.stack], what="its stack")
    assert call.method == "commit"
    process = psutil.Process(rig.said()[-1][1])
    writer.kill()
    thread.join(20)
    assert raised
    wait_gone([process])
