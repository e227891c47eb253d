"""What a task does about an error in its batch: try again and when, or fail. Pure.

As in Kafka Connect a retriable error is tried again for as long as it takes (a broker or a target system that is
down). Spark losing the job is different: it may be this task's data or plugin that kills the process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_tasks.errors import RetriableError
from spark_tasks.running.spark import SparkLostError

FIRST_WAIT_MS = 50
LONGEST_WAIT_MS = 10_000
MOST_LOST_JOBS = 4


@dataclass(frozen=True, slots=True)
class Retries:
    """How often in a row a batch has failed so far."""

    failures: int = 0
    lost_jobs: int = 0

    def after(self, error: BaseException) -> Retries | None:
        """The state after another failure; None where the task has to fail."""
        if not isinstance(error, RetriableError):
            return None
        lost = self.lost_jobs + isinstance(error, SparkLostError)
        if lost > MOST_LOST_JOBS:
            return None
        return replace(self, failures=self.failures + 1, lost_jobs=lost)

    @property
    def wait_ms(self) -> int:
        """How long to wait before the next attempt."""
        return min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** min(self.failures, 20)) if self.failures else 0
