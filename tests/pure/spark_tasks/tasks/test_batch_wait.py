"""A task with a long batch is woken once at its end and does not poll."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from spark_tasks.tasks.batch_wait import MAX_WAIT_S, BatchWait


def test_the_end_of_a_batch_wakes_the_task_once() -> None:
    batch: Future[list[Any]] = Future()
    woken: list[bool] = []
    waiting = BatchWait(lambda: woken.append(True))
    assert waiting.max_wait_s(batch) == MAX_WAIT_S
    for _ in range(3):  # something else has woken it meanwhile
        assert waiting.timed_out(batch).idle_ms > MAX_WAIT_S * 1000
        assert waiting.max_wait_s(batch) == 0
    assert not woken
    batch.set_result([])
    assert woken == [True]


def test_a_batch_that_ended_meanwhile_wakes_the_task_at_once() -> None:
    batch: Future[list[Any]] = Future()
    batch.set_exception(ValueError())
    woken: list[bool] = []
    BatchWait(lambda: woken.append(True)).timed_out(batch)
    assert woken == [True]


def test_the_next_batch_has_the_full_maximum_wait() -> None:
    """Even if the run_once that took the previous batch has submitted it."""
    first: Future[list[Any]] = Future()
    waiting = BatchWait(lambda: None)
    waiting.timed_out(first)
    assert waiting.max_wait_s(Future()) == MAX_WAIT_S
