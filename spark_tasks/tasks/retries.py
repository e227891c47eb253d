"""Decides whether and when a task retries a failed batch.

As in Kafka Connect, retriable errors (such as an unavailable broker or external system) are retried without limit.
Batches whose process ended are retried only a few times, since the task's data or plugin may have ended the process.
"""

from __future__ import annotations

import logging
import random
import sys
import time
from dataclasses import dataclass, replace

from spark_tasks.backoff import doubled
from spark_tasks.errors import RetriableError, ToleranceExceededError
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.pipeline.errors.failures import StageOutageError
from spark_tasks.spark.context import ExecutorEndedError, SparkLostError
from spark_tasks.task import Progress

_logger = logging.getLogger(__name__)

FIRST_WAIT_MS = 50
LONGEST_WAIT_MS = 10_000
MAX_LOST_JOBS = 4
MIN_DELAY_MS = 300  # Kafka Connect's, where errors.retry.timeout is set
LOST_WAIT_MS = 2_500  # within this time Spark kills all processes of a lost job, so that they no longer write


@dataclass(frozen=True, slots=True)
class Retries:
    """Counts consecutive failures of a batch. `may_run`: the last attempt may still be running somewhere."""

    failures: int = 0
    lost_jobs: int = 0
    may_run: bool = False

    def after(self, error: BaseException) -> Retries | None:
        """Returns the state after another failure, or None if the task has to fail."""
        if not isinstance(error, RetriableError):
            return None
        is_lost = isinstance(error, SparkLostError)
        lost = self.lost_jobs + is_lost
        if lost > MAX_LOST_JOBS:
            return None
        may_run = is_lost and not isinstance(error, ExecutorEndedError)
        return replace(self, failures=self.failures + 1, lost_jobs=lost, may_run=may_run)

    @property
    def wait_ms(self) -> int:
        """The pause before the next attempt."""
        if not self.failures:
            return 0
        wait = doubled(FIRST_WAIT_MS, self.failures, LONGEST_WAIT_MS)
        return max(wait, LOST_WAIT_MS) if self.may_run else wait


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """errors.retry.timeout and errors.retry.delay.max.ms, which apply to retriable errors of converters and transforms.

    `timeout_ms`: for how long such an error is retried; -1 means forever, 0 that these limits do not apply.
    `delay_max_ms`: the longest pause.
    """

    timeout_ms: int = 0
    delay_max_ms: int = 60_000

    def wait_ms(self, failures: int, since_ms: float, chance: float) -> int | None:
        """Returns the pause before the next attempt, or None after the timeout. `since_ms`: the time since the first of
        the `failures`. `chance`: a random number from 0 to 1; a pause above `delay_max_ms` becomes that fraction of it.
        """
        left = float("inf") if self.timeout_ms < 0 else self.timeout_ms - since_ms
        if left <= 0:
            return None
        wait = doubled(MIN_DELAY_MS, failures - 1, sys.maxsize)
        if wait > self.delay_max_ms:
            wait = int(chance * self.delay_max_ms)
        return int(min(wait, left))


class RetryState:
    """How often a task's batch has failed, and when the next attempt is due."""

    def __init__(self, task: str, metrics: TaskMetrics | None = None, limits: RetryLimits | None = None) -> None:
        self._task = task
        self._metrics = metrics or TaskMetrics()
        self._limits = limits or RetryLimits()
        self._retries = Retries()
        self._since: float | None = None  # the first outage of a stage since the last success
        self._until = 0.0

    @property
    def failures(self) -> int:
        """The number of failures since the last success."""
        return self._retries.failures

    @property
    def may_run(self) -> bool:
        """Whether the last attempt may still be running somewhere."""
        return self._retries.may_run

    def later(self, error: Exception) -> Progress:
        """Records a failure and returns the pause before the next attempt. Raises the error if the task has to fail."""
        retries = self._retries.after(error)
        if retries is None:
            raise error
        now = time.monotonic()
        wait_ms = retries.wait_ms
        if self._limits.timeout_ms and isinstance(error, StageOutageError):
            self._since = self._since or now
            outage_wait_ms = self._limits.wait_ms(retries.failures, (now - self._since) * 1000, random.random())  # noqa: S311
            if outage_wait_ms is None:
                raise ToleranceExceededError(f"Tolerance exceeded in error handler: {error}") from error
            wait_ms = outage_wait_ms
        self._retries = retries
        self._metrics.failed(error, "spark" if isinstance(error, SparkLostError) else "task", again=True)
        self._until = now + wait_ms / 1000
        _logger.warning("%s will retry in %d ms: %s", self._task, wait_ms, error)
        return Progress(idle_ms=wait_ms)

    def pause(self) -> Progress | None:
        """Returns the rest of the pause before the next attempt, or None if it is over."""
        wait_ms = int((self._until - time.monotonic()) * 1000)
        return Progress(idle_ms=wait_ms) if wait_ms > 0 else None

    def succeeded(self) -> None:
        """Resets the state after a successful attempt."""
        self._retries, self._since = Retries(), None
