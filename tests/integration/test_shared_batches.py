"""Sink tasks that share batches, against a real broker; executors are threads here."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_tasks.sinks import batch_sharing
from spark_tasks.sinks.task import UPKEEP_MS
from tests.rigs.support import wait_until
from tests.rigs.task_rigs import SinkRig
from tests.rigs.tasks import Loop

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


class SharedRig(SinkRig):
    """Two tasks, each with a partition."""

    sent = 0

    def start_both(self, **options: str) -> list[Loop]:
        """Start the tasks; they have read what there is, and lend themselves."""
        loops = [self.start(task, writer="plain", **options) for task in range(2)]
        wait_until(lambda: all(self.lent(loop) for loop in loops) or self.send(2), 30, "both tasks are lent")
        return loops

    def lent(self, loop: Loop) -> bool:
        if loop.error is not None:
            raise loop.error
        return loop.idle_ms == UPKEEP_MS and "SharedSplit" in self.engine.kinds

    def send(self, count: int) -> None:
        self.produce(count, start=self.sent)
        self.sent += count

    def expect_all(self, *others: str) -> None:
        """Each record has been written, once."""
        wanted = sorted([*map(str, range(self.sent)), *others])
        wait_until(lambda: len(self.values()) >= len(wanted), 20, "all records")
        assert sorted(self.values()) == wanted

    def send_text(self, text: str, partition: int, *more: str) -> None:
        for each in (text, *more):  # they arrive together
            self.producer.produce(self.topic, each.encode(), partition=partition)
        self.producer.flush(20)


@pytest.fixture
def rig(broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedRig]:
    for limit in ("QUICK_S", "BLOCKED_S"):  # no write counts as slow, however busy the machine is
        monkeypatch.setattr(batch_sharing, limit, 60.0)
    rig = SharedRig(broker.bootstrap_servers, tmp_path)
    yield rig
    rig.close()


def test_records_pass_while_the_threads_of_the_tasks_sleep(rig: SharedRig) -> None:
    loops = rig.start_both()
    rig.expect_all()
    wait_until(lambda: rig.committed() == {0: rig.sent // 2, 1: rig.sent // 2}, 10, "the offsets of their own batches")
    jobs, runs, own = rig.engine.jobs, sum(loop.runs for loop in loops), rig.engine.kinds["DeferredSplit"]
    for _ in range(20):
        rig.send(2)
        rig.expect_all()
    assert sum(loop.runs for loop in loops) - runs <= 4, "upkeep at most"
    assert rig.engine.kinds["DeferredSplit"] - own <= 2
    assert rig.engine.kinds["SharedSplit"] >= 10
    assert rig.engine.jobs > jobs
    wait_until(lambda: rig.committed() == {0: rig.sent // 2, 1: rig.sent // 2}, 10, "the offsets are committed")


def test_a_burst_is_written_to_its_end_although_nothing_follows(rig: SharedRig) -> None:
    """A response has only its first records, and no other one will tell of the rest."""
    rig.start_both()
    rig.expect_all()
    for _ in range(5):
        rig.send(20_000)
        rig.expect_all()


def test_a_record_that_cannot_be_read_fails_its_task_although_nothing_follows(rig: SharedRig) -> None:
    """The records before it are written by a shared split, which ends there."""
    rig.worker["heeler.max.record.bytes"] = "20000"
    first, second = rig.start_both()
    rig.expect_all()
    rig.send_text("before", 0, "x" * 30_000)
    wait_until(lambda: first.error or second.error, 20, "the task has failed")
    assert "heeler.max.record.bytes" in str(first.error or second.error)
    rig.expect_all("before")


def test_a_task_that_joins_takes_over_partitions_and_nothing_is_written_twice(rig: SharedRig) -> None:
    alone = rig.start(0, writer="plain")
    wait_until(lambda: rig.lent(alone) or rig.send(2), 30)
    stop = threading.Event()

    def feed() -> None:
        while not stop.wait(0.02):
            rig.send(2)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        other = rig.start(1, writer="plain")
        wait_until(lambda: rig.lent(other), 30, "the second task is lent as well")
    finally:
        stop.set()
        feeder.join()
    rig.expect_all()
    other.stop()
    rig.send(10)
    rig.expect_all()


def test_a_lent_task_can_be_paused_resumed_and_stopped(rig: SharedRig) -> None:
    loops = rig.start_both()
    rig.expect_all()
    paused = threading.Barrier(len(loops) + 1)
    for loop in loops:
        loop.order(lambda runner: (runner.pause(), paused.wait(20)))
    paused.wait(20)
    written = rig.values()
    rig.send(4)
    for loop in loops:
        runs = loop.runs
        loop.wake()
        wait_until(lambda loop=loop, runs=runs: loop.runs > runs)
    assert rig.values() == written
    for loop in loops:
        loop.order(lambda runner: runner.resume())
    rig.expect_all()
    for loop in loops:
        loop.stop()
    assert rig.committed() == {0: rig.sent // 2, 1: rig.sent // 2}


def test_a_write_that_hangs_delays_no_other_task(rig: SharedRig) -> None:
    """Its split has no other task's records, so it is not cut off: the record would be repeated for nothing."""
    loops = rig.start_both()
    rig.expect_all()
    hanging = hang_in_a_shared_split(rig, loops)
    rig.send_text("other", 1)
    for n in range(20):
        rig.send_text(f"after {n}", 1)
        wait_until(lambda n=n: f"after {n}" in rig.values(), 20, "records pass while the write hangs")
    assert hanging not in rig.values()
    (rig.notes.path / "free").touch()
    wait_until(lambda: {hanging, "other"} <= set(rig.values()), 20, "the write goes on")
    rig.send(2)
    wait_until(lambda: str(rig.sent - 1) in rig.values(), 20, "what follows is written")
    assert rig.values().count(hanging) == 1


def hang_in_a_shared_split(rig: SharedRig, loops: list[Loop]) -> str:
    """A record that hangs. On a busy machine, a task may just have taken itself back and hang in a split of its own."""
    free = rig.notes.path / "free"
    for attempt in itertools.count():
        hanging = f"hang {attempt}"
        wait_until(lambda: all(rig.lent(loop) for loop in loops), 30, "both tasks are lent again")
        own = rig.engine.kinds["DeferredSplit"]
        rig.send_text(hanging, 0)
        wait_until((rig.notes.path / f"{hanging}.once").exists, 20, "the write hangs")
        if rig.engine.kinds["DeferredSplit"] == own:
            return hanging
        free.touch()
        wait_until(lambda wanted=hanging: wanted in rig.values(), 20, "the write goes on")
        free.unlink()
    raise AssertionError


def test_an_error_fails_the_task_whose_it_is(rig: SharedRig) -> None:
    loops = rig.start_both()
    rig.expect_all()
    rig.send_text("fail", 0)
    rig.send_text("other", 1)
    wait_until(lambda: any(loop.error for loop in loops), 20, "one task fails")
    assert [str(loop.error) for loop in loops if loop.error] == ["as it is asked to"]
    wait_until(lambda: "other" in rig.values(), 20)
