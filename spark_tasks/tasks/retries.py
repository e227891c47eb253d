"""What a task does after an error in its batch: retry, and when, or fail.

As in Kafka Connect, retriable errors (a broker or an external system that is down) are retried without limit. A job
that Spark has lost is different: it may be this task's data or plugin that kills the process.
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
from spark_tasks.pipeline.failures import StageOutageError
from spark_tasks.spark.context import ExecutorEndedError, SparkLostError
from spark_tasks.task import Progress

_logger = logging.getLogger(__name__)

FIRST_WAIT_MS = 50
LONGEST_WAIT_MS = 10_000
MOST_LOST_JOBS = 4
LEAST_DELAY_MS = 300  # Kafka Connect's, where errors.retry.timeout is set
LOST_WAIT_MS = 2_500  # by then Spark has killed the rest of a lost job, so that it no longer writes


@dataclass(frozen=True, slots=True)
class Retries:
    """How often in a row a batch has failed so far."""

    failures: int = 0
    lost_jobs: int = 0
    lingers: bool = False  # something of the last one may still run

    def after(self, error: BaseException) -> Retries | None:
        """The state after another failure; None if the task has to fail."""
        if not isinstance(error, RetriableError):
            return None
        is_lost = isinstance(error, SparkLostError)
        lost = self.lost_jobs + is_lost
        if lost > MOST_LOST_JOBS:
            return None
        lingers = is_lost and not isinstance(error, ExecutorEndedError)
        return replace(self, failures=self.failures + 1, lost_jobs=lost, lingers=lingers)

    @property
    def wait_ms(self) -> int:
        """How long to wait before the next attempt."""
        if not self.failures:
            return 0
        wait = doubled(FIRST_WAIT_MS, self.failures, LONGEST_WAIT_MS)
        return max(wait, LOST_WAIT_MS) if self.lingers else wait


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """errors.retry.timeout and errors.retry.delay.max.ms: for how long a converter or transform with a retriable error
    is retried (-1: without limit), and the longest pause. Neither applies with a timeout of 0.
    """

    timeout_ms: int = 0
    delay_max_ms: int = 60_000

    def wait_ms(self, failures: int, since_ms: float, chance: float) -> int | None:
        """The pause before the next attempt after so many failures, the first of them `since_ms` ago; None if the time
        is over. `chance`, from 0 to 1: the part of the longest pause that replaces a pause that would be longer.
        """
        left = float("inf") if self.timeout_ms < 0 else self.timeout_ms - since_ms
        if left <= 0:
            return None
        wait = doubled(LEAST_DELAY_MS, failures - 1, sys.maxsize)
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
        self._since = 0.0
        self._until = 0.0

    def later(self, error: Exception) -> Progress:
        """The pause before the next attempt. Raises the error if the task has to fail."""
        retries = self._retries.after(error)
        if retries is None:
            raise error
        now = time.monotonic()
        if retries.failures == 1:
            self._since = now
        wait_ms = retries.wait_ms
        if self._limits.timeout_ms and isinstance(error, StageOutageError):
            limited = self._limits.wait_ms(retries.failures, (now - self._since) * 1000, random.random())  # noqa: S311
            if limited is None:
                raise ToleranceExceededError(f"Tolerance exceeded in error handler: {error}") from error
            wait_ms = limited
        self._retries = retries
        self._metrics.failed(error, "spark" if isinstance(error, SparkLostError) else "task", again=True)
        self._until = now + wait_ms / 1000
        _logger.warning("%s tries again in %d ms: %s", self._task, wait_ms, error)
        return Progress(idle_ms=wait_ms)

    def pause(self) -> Progress | None:
        """The rest of the pause; None if it is over."""
        wait_ms = int((self._until - time.monotonic()) * 1000)
        return Progress(idle_ms=wait_ms) if wait_ms > 0 else None

    def succeeded(self) -> None:
        """An attempt succeeded: the next error counts as the first."""
        self._retries = Retries()
