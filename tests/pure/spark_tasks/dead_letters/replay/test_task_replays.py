"""A replay takes turns with the task's own batches, and its errors end it alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.replay.task_replays import Replays
from spark_tasks.errors import BusyError, RetriableError
from spark_tasks.metrics.task import TaskMetrics

BROKEN: Any = SimpleNamespace(partitions=None)  # any use of it raises an error


@pytest.fixture
def replays() -> Replays:
    made = Replays(ErrorHandling(queue="dead", tolerant=True, connector="c"), TaskMetrics())
    made.order({"dry_run": True})
    return made


def test_a_replay_alternates_with_batches_of_the_task(replays: Replays) -> None:
    assert [replays.takes_turn(alone=False) for _ in range(4)] == [True, False, True, False]
    assert [replays.takes_turn(alone=True) for _ in range(2)] == [True, True], "the task has none"


def test_a_second_replay_is_refused_while_one_is_running(replays: Replays) -> None:
    with pytest.raises(BusyError):
        replays.order({"dry_run": True})


def test_an_error_ends_the_replay_alone(replays: Replays) -> None:
    assert replays.takes_turn(alone=True)
    assert replays.next_range(BROKEN, lambda _: None) is None
    assert not replays.running
    assert not replays.takes_turn(alone=True)
    state = replays.order(None)
    assert state is not None
    assert state["state"] == "FAILED"
    replays.order({"dry_run": True})
    replays.fail(RetriableError("the target is away"))
    assert not replays.running


def test_there_is_no_state_before_the_first_replay() -> None:
    replays = Replays(ErrorHandling(queue="dead", tolerant=True), TaskMetrics())
    assert replays.order(None) is None
    assert not replays.takes_turn(alone=True)
