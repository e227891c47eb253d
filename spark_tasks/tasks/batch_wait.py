"""How long a task waits for a batch in flight."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from spark_tasks.task import Progress

MAX_WAIT_S: Final = 1.0  # for one run_once, so that the task actor handles messages in between
_POLL_MS: Final = 5_000


class BatchWait:
    """Lets a task wait up to MAX_WAIT_S for a batch; after that, the end of the batch wakes the task. Frequent polls of
    hundreds of tasks would take so much CPU time that they would delay the batches.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._awaited: Future[list[Any]] | None = None  # its end wakes the task

    def max_wait_s(self, batch: Future[list[Any]]) -> float:
        """Returns how long a `run_once` should wait for this batch."""
        return 0.0 if batch is self._awaited else MAX_WAIT_S

    def timed_out(self, batch: Future[list[Any]]) -> Progress:
        """Returns the result of a `run_once` whose batch did not end in time, and makes the end of the batch wake the
        task.
        """
        if batch is not self._awaited:
            self._awaited = batch
            batch.add_done_callback(lambda _: self._wake())
        return Progress(idle_ms=_POLL_MS)
