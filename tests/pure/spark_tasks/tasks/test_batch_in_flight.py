"""A task has one batch in the engine. While that takes long, the task is woken once at its end and does not poll."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from spark_tasks.tasks import batch_in_flight
from spark_tasks.tasks.batch_in_flight import MAX_WAIT_S, BatchCancelledError, BatchInFlight
from tests.rigs.tasks import context_of


class Rig:
    """`meanwhile` is called while a batch is submitted."""

    def __init__(self) -> None:
        self.woken = 0
        self.cancelled: list[Future[list[Any]]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.batch = BatchInFlight(context_of(self, {}, {"name": "c"}, self._wake))

    def _wake(self) -> None:
        self.woken += 1

    def submit(self, task: str, _splits: Sequence[Any]) -> Future[list[Any]]:
        assert task == "c-0"
        self.meanwhile()
        return Future()

    def cancel(self, batch: Future[list[Any]]) -> None:
        self.cancelled.append(batch)
        if not batch.done():
            batch.set_exception(CancelledError())


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(batch_in_flight, "MAX_WAIT_S", 0.01)
    return Rig()


def test_the_end_of_a_batch_wakes_the_task_once(rig: Rig) -> None:
    future = rig.batch.begin([])
    for _ in range(3):  # something else has woken it meanwhile
        assert not rig.batch.wait()
    assert rig.batch.idle.idle_ms > MAX_WAIT_S * 1000
    assert not rig.woken
    future.set_result([1])
    assert rig.woken == 1
    assert rig.batch.wait()
    assert (rig.batch.take(), rig.batch.future) == ([1], None)


def test_a_batch_that_ended_meanwhile_wakes_the_task_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_in_flight, "ended", lambda *_: False)
    rig.batch.begin([]).set_exception(ValueError())
    assert not rig.batch.wait()
    assert rig.woken == 1


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the task has waited each time."""
    seconds: list[float] = []
    monkeypatch.setattr(batch_in_flight, "ended", lambda _future, wait_s: seconds.append(wait_s))
    return seconds


def test_only_the_first_wait_for_a_batch_takes_time(rig: Rig, waits: list[float]) -> None:
    rig.batch.begin([])
    for again in (False, False, True):
        rig.batch.wait(again=again)
    assert waits == [0.01, 0.0, 0.01]


def test_the_next_batch_has_the_full_maximum_wait(rig: Rig, waits: list[float]) -> None:
    """Even if the run_once that took the previous batch has submitted it."""
    for _ in range(2):
        rig.batch.begin([])
        rig.batch.wait()
    assert waits == [0.01, 0.01]


def test_the_error_of_a_batch_is_raised_once(rig: Rig) -> None:
    rig.batch.begin([]).set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        rig.batch.take()
    assert rig.batch.future is None


def test_only_a_batch_that_has_not_begun_is_withdrawn(rig: Rig) -> None:
    assert not rig.batch.withdraw(), "there is none"
    future = rig.batch.begin([])
    assert rig.batch.withdraw()
    assert (future.cancelled(), rig.batch.future) == (True, None)
    future = rig.batch.begin([])
    future.set_running_or_notify_cancel()
    assert not rig.batch.withdraw()
    assert rig.batch.future is future


def test_a_batch_that_is_abandoned_is_cancelled_whatever_its_result(rig: Rig) -> None:
    futures = [rig.batch.begin([])]
    rig.batch.abandon()
    futures.append(rig.batch.begin([]))
    futures[1].set_exception(ValueError())
    rig.batch.abandon(5)
    rig.batch.abandon()
    assert (rig.cancelled, rig.batch.future, rig.batch.cancelled) == (futures, None, False)


def test_a_cancelled_task_cancels_also_the_batch_that_is_just_being_submitted(rig: Rig) -> None:
    future = rig.batch.begin([])
    rig.batch.cancel()
    assert rig.cancelled == [future]
    with pytest.raises(BatchCancelledError, match="the batch of c-0 was cancelled"):
        rig.batch.take()
    late = Rig()
    late.meanwhile = late.batch.cancel
    future = late.batch.begin([])
    assert late.cancelled == [future]
