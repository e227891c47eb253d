"""errors.retry.timeout and errors.retry.delay.max.ms."""

from __future__ import annotations

import pytest

from spark_tasks.errors import RetriableError, ToleranceExceededError
from spark_tasks.pipeline.errors.failures import StageOutageError
from spark_tasks.tasks import retries
from spark_tasks.tasks.retries import RetryLimits, RetryState


def test_retry_pauses_double_up_to_the_maximum():
    limits = RetryLimits(-1, 2000)
    assert [limits.wait_ms(n, 10.0**9, 0.25) for n in (1, 2, 3, 4, 5)] == [300, 600, 1200, 500, 500]


def test_the_last_pause_ends_with_the_retry_timeout():
    limits = RetryLimits(1000, 60_000)
    assert [limits.wait_ms(2, since, 0) for since in (0, 300, 900, 1000)] == [600, 600, 100, None]


def test_an_outage_of_a_stage_over_the_retry_timeout_fails_the_task():
    state = RetryState("t-0", limits=RetryLimits(1, 60_000))
    first = state.later(StageOutageError("registry away"))
    assert 0 <= first.idle_ms <= 1

    def until_it_fails():
        while True:
            state.later(StageOutageError("registry away"))

    with pytest.raises(ToleranceExceededError, match="Tolerance exceeded in error handler: registry away"):
        until_it_fails()


def test_the_retry_timeout_begins_with_the_first_outage_of_a_stage(monkeypatch: pytest.MonkeyPatch):
    """Failures of other kinds neither begin it nor begin it anew."""
    now = [100.0]
    monkeypatch.setattr(retries.time, "monotonic", lambda: now[0])
    state = RetryState("t-0", limits=RetryLimits(60_000, 10_000))
    state.later(RetriableError("Kafka is away"))
    now[0] += 3600
    for _ in range(6):
        state.later(StageOutageError("registry away"))
        state.later(RetriableError("Kafka is away"))
        now[0] += 10
    with pytest.raises(ToleranceExceededError):
        state.later(StageOutageError("registry away"))


def test_other_outages_are_retried_without_a_limit():
    state = RetryState("t-0", limits=RetryLimits(1, 60_000))
    assert [state.later(RetriableError("down")).idle_ms for _ in range(3)] == [100, 200, 400]
    unlimited = RetryState("t-0")
    assert [unlimited.later(StageOutageError("registry away")).idle_ms for _ in range(2)] == [100, 200]
