"""What a task does about an error in its batch: try again and when, or fail.

As in Kafka Connect a retriable error is tried again for as long as it takes (a broker or a target system that is
down). Spark losing the job is different: it may be this task's data or plugin that kills the process.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace

from spark_tasks.errors import RetriableError
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.spark.context import SparkLostError
from spark_tasks.task import Progress

_logger = logging.getLogger(__name__)

FIRST_WAIT_MS = 50
LONGEST_WAIT_MS = 10_000
MOST_LOST_JOBS = 4
LOST_WAIT_MS = 2_500  # by then Spark has killed what was left of a lost job, so that it writes no more


@dataclass(frozen=True, slots=True)
class Retries:
    """How often in a row a batch has failed so far."""

    failures: int = 0
    lost_jobs: int = 0
    lost_last: bool = False

    def after(self, error: BaseException) -> Retries | None:
        """The state after another failure; None where the task has to fail."""
        if not isinstance(error, RetriableError):
            return None
        is_lost = isinstance(error, SparkLostError)
        lost = self.lost_jobs + is_lost
        if lost > MOST_LOST_JOBS:
            return None
        return replace(self, failures=self.failures + 1, lost_jobs=lost, lost_last=is_lost)

    @property
    def wait_ms(self) -> int:
        """How long to wait before the next attempt."""
        if not self.failures:
            return 0
        wait: int = min(LONGEST_WAIT_MS, FIRST_WAIT_MS << min(self.failures, 20))
        return max(wait, LOST_WAIT_MS) if self.lost_last else wait


class Patience:
    """A task's retries with the time to the next attempt."""

    def __init__(self, task: str, metrics: TaskMetrics | None = None) -> None:
        self._task = task
        self._metrics = metrics or TaskMetrics()
        self._retries = Retries()
        self._until = 0.0

    def later(self, error: Exception) -> Progress:
        """Raises the error where the task has to fail; else the pause before the next attempt."""
        retries = self._retries.after(error)
        if retries is None:
            raise error
        self._retries = retries
        self._metrics.failed(error, "spark" if isinstance(error, SparkLostError) else "task", again=True)
        self._until = time.monotonic() + retries.wait_ms / 1000
        _logger.warning("%s tries again in %d ms: %s", self._task, retries.wait_ms, error)
        return Progress(idle_ms=retries.wait_ms)

    def pause(self) -> Progress | None:
        """What is left of the pause, if it is not over."""
        wait_ms = int((self._until - time.monotonic()) * 1000)
        return Progress(idle_ms=wait_ms) if wait_ms > 0 else None

    def succeeded(self) -> None:
        """An attempt went well: the next error is the first one."""
        self._retries = Retries()
