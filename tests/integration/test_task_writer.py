"""Writers of sink tasks in executor processes of their own, with a real engine."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from spark_tasks.errors import RetriableError
from spark_tasks.spark.residents.engine import ResidentEngine
from tests.rigs.stateful_sink import CountingSink, Written
from tests.rigs.support import wait_until
from tests.rigs.task_processes import TaskProcessRig, engine_without_spark, in_thread, wait_ended

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def engine() -> Iterator[ResidentEngine]:
    with engine_without_spark("writers") as engine:
        yield engine


@pytest.fixture
def rig(engine: ResidentEngine, tmp_path: Path) -> Iterator[TaskProcessRig]:
    with closing(TaskProcessRig(engine, tmp_path)) as rig:
        yield rig


def test_batches_are_committed_in_one_process_which_keeps_the_state(rig: TaskProcessRig) -> None:
    writer = rig.writer(CountingSink)
    copy = pickle.loads(writer.open())
    assert copy.write(iter("abc")) == Written(3), "as executors use it"
    assert not writer.commits_nothing
    writer.commit([Written(3), Written(2)])
    writer.abort([Written(1)])  # which it does not define
    writer.commit([Written(1)])
    assert writer.resume_from is not None
    assert writer.resume_from("t", 0) == 6
    assert [what for what, _ in rig.calls()] == ["made", "commit-5", "commit-6", "resume"]
    ((pid,),) = [{pid for _, pid in rig.calls()}]
    assert pid != os.getpid()
    writer.end()
    wait_ended(pid)


def test_a_writer_that_does_nothing_between_batches_has_no_process(rig: TaskProcessRig) -> None:
    writer = rig.writer(CountingSink, plain="yes")
    assert pickle.loads(writer.open()).write(iter("ab")) == Written(2)
    assert writer.commits_nothing
    assert writer.resume_from is None
    writer.commit([Written(2)])
    ((what, pid),) = rig.calls()
    assert what == "made"
    wait_ended(pid)


def test_a_writer_whose_process_ends_is_replaced(rig: TaskProcessRig) -> None:
    writer = rig.writer(CountingSink, do="exit")
    writer.open()
    writer.commit([Written(1)])
    with pytest.raises(RetriableError, match="the process of c-0 ended with exit code 7"):
        writer.commit([Written(1)])
    writer.commit([Written(4)])
    assert [what for what, _ in rig.calls()] == ["made", "commit-1", "made", "commit-4"]


def test_a_commit_that_hangs_shows_where_and_ends_with_the_task(rig: TaskProcessRig) -> None:
    writer = rig.writer(CountingSink, do="hold")
    writer.open()
    writer.commit([Written(1)])
    thread, raised = in_thread(lambda: writer.commit([Written(1)]))
    wait_until(lambda: rig.calls()[-1][0] == "holds", what="the commit")
    (call,) = wait_until(lambda: [one for one in writer.calls() if "in commit" in one.stack], what="its stack")
    assert call.method == "commit"
    writer.kill()
    thread.join(20)
    assert isinstance(raised[0], RetriableError)
    wait_ended(rig.calls()[-1][1])
