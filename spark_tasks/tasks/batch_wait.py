"""How long a task waits for a batch in flight, and what wakes it when one that takes longer has ended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from spark_tasks.task import Progress

MAX_WAIT_S: Final = 1.0  # how long one run_once waits, so that messages are handled in between
_LOOK_MS: Final = 5_000


class BatchWait:
    """After MAX_WAIT_S the end of a batch wakes its task. If hundreds of tasks polled instead, that would be what they
    all wait for.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._awaited: Future[list[Any]] | None = None  # its end wakes the task

    def max_wait_s(self, batch: Future[list[Any]]) -> float:
        """How long a run_once should wait for this batch."""
        return 0.0 if batch is self._awaited else MAX_WAIT_S

    def longer(self, batch: Future[list[Any]]) -> Progress:
        """What a run_once returns if the batch did not end while it waited."""
        if batch is not self._awaited:
            self._awaited = batch
            batch.add_done_callback(lambda _: self._wake())
        return Progress(idle_ms=_LOOK_MS)
