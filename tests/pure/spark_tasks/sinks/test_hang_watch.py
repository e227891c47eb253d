"""Which time of a shared split counts as hanging, and how a split that hangs is cancelled."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from spark_tasks.sinks.hang_watch import CUT_OFF_S, LONGEST_STEP_S, HangWatch
from tests.rigs.support import wait_until

STEP_S = LONGEST_STEP_S / 2
TASKS = [f"c-{number}" for number in range(7)]


class Engine:
    """Runs one split, whose process has been ready without a CPU for `ready_time_s`."""

    def __init__(self) -> None:
        self.declined = False
        self.ready_time_s = 100.0
        self.stack: Exception | str = "in write"
        self.cancelled: list[Future[list[Any]]] = []

    def submit(self, task: str, splits: Any) -> Future[list[Any]]:
        raise NotImplementedError

    def cancel(self, batch: Future[list[Any]]) -> None:
        self.cancelled.append(batch)

    def runs(self, batch: Future[list[Any]]) -> bool:
        return batch.running() and not self.declined

    def ready_s(self, _batch: Future[list[Any]]) -> float:
        return self.ready_time_s

    def where(self, _batch: Future[list[Any]]) -> str:
        if isinstance(self.stack, Exception):
            raise self.stack
        return self.stack


class Rig:
    def __init__(self) -> None:
        self.engine = Engine()
        self.split: Future[list[Any]] = Future()
        self.split.set_running_or_notify_cancel()
        self.watch = HangWatch(self.engine, self.split)
        self.now = 50.0

    def hangs_after(self, seconds: float, *, waiting_share: float = 0.0, step_s: float = STEP_S) -> bool:
        """Watches for that long. `waiting_share`: of the time, in which the process waits for a CPU."""
        until, found = self.now + seconds, self.watch.hangs(self.now)
        while self.now < until and not found:
            self.now += step_s
            self.engine.ready_time_s += waiting_share * step_s
            found = self.watch.hangs(self.now)
        return found


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_split_hangs_if_it_has_run_for_long_and_is_reported_once(rig: Rig) -> None:
    assert not rig.hangs_after(CUT_OFF_S - STEP_S)
    assert rig.hangs_after(3 * STEP_S)
    assert not rig.hangs_after(10 * CUT_OFF_S)


def test_time_without_a_cpu_does_not_count(rig: Rig) -> None:
    assert not rig.hangs_after(3 * CUT_OFF_S, waiting_share=1.0)
    assert not rig.hangs_after(CUT_OFF_S, waiting_share=0.5)
    assert rig.hangs_after(CUT_OFF_S)


def test_a_process_that_has_waited_less_than_the_one_before_gains_no_time_by_that(rig: Rig) -> None:
    assert not rig.hangs_after(STEP_S)
    rig.engine.ready_time_s = 0.0  # of another process, which has the split now
    assert not rig.hangs_after(CUT_OFF_S - 3 * STEP_S)


def test_time_in_which_this_process_did_not_run_does_not_count(rig: Rig) -> None:
    assert not rig.hangs_after(5 * CUT_OFF_S, step_s=CUT_OFF_S)
    assert rig.hangs_after(CUT_OFF_S)


def test_time_before_a_process_has_the_split_does_not_count(rig: Rig) -> None:
    assert not rig.hangs_after(CUT_OFF_S - STEP_S)
    rig.engine.declined = True
    assert not rig.hangs_after(2 * CUT_OFF_S)
    rig.engine.declined = False
    assert not rig.hangs_after(CUT_OFF_S - STEP_S), "it starts over"
    assert rig.hangs_after(3 * STEP_S)


@pytest.mark.parametrize("stack", ["in write", OSError("no such file")])
def test_a_split_is_cancelled_after_its_stack_is_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture, stack: Exception | str
) -> None:
    rig.engine.stack = stack
    rig.watch.cancel(TASKS)
    wait_until(lambda: rig.engine.cancelled == [rig.split])
    [record] = [record for record in caplog.records if "Cancelling a split" in record.getMessage()]
    assert record.getMessage() == (
        "Cancelling a split that 7 tasks share (c-0, c-1, c-2, c-3, c-4 and 2 more): it has run for more than 3 s. "
        "Each task repeats its records in a split of its own")
    below = "in write" if stack == "in write" else ""
    assert (vars(record)["heeler_about"], vars(record)["below"]) == ("c", below)


def test_a_split_is_cancelled_although_no_thread_can_be_started(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    rig.watch.cancel(TASKS)
    assert rig.engine.cancelled == [rig.split]
    assert "Cancelling a split" in caplog.text
