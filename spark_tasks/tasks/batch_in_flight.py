"""The batch of a task that is in the engine."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Final

from spark_tasks.errors import ConnectError
from spark_tasks.futures import ended
from spark_tasks.task import Progress, Split, TaskContext

MAX_WAIT_S: Final = 1.0  # for one run_once, so that the task actor handles messages in between
_POLL_MS: Final = 5_000


class BatchCancelledError(ConnectError):
    """The batch was cancelled, because its task was."""


class BatchInFlight:
    """At most one batch of a task is in flight. `future`: its results, None if there is no batch. `cancelled`: whether
    the task was cancelled, and with it every later batch. `future` and `cancelled` may be read, and `cancel` called, on
    any thread.

    The task waits up to MAX_WAIT_S for a batch; after that, the end of the batch wakes the task. Frequent polls of
    hundreds of tasks would take so much CPU time that they would delay the batches.
    """

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self.future: Future[list[Any]] | None = None
        self.cancelled = False
        self._awaited: Future[list[Any]] | None = None  # its end wakes the task

    def begin(self, splits: Sequence[Split[Any]]) -> Future[list[Any]]:
        """Submits a batch."""
        self.future = future = self._context.engine.submit(self._context.id, splits)
        if self.cancelled:  # meanwhile: `cancel` has not seen the batch
            self._context.engine.cancel(future)
        return future

    def wait(self, *, again: bool = False) -> bool:
        """Waits for the batch. Returns whether it has ended; if not, its end will wake the task. `again`: not only the
        first time.
        """
        future = self.future
        if future is None or ended(future, 0.0 if future is self._awaited and not again else MAX_WAIT_S):
            return True
        if future is not self._awaited:
            self._awaited = future
            future.add_done_callback(lambda _: self._context.wake())
        return False

    @property
    def idle(self) -> Progress:
        """The result of a `run_once` whose batch did not end in time."""
        return Progress(idle_ms=_POLL_MS)

    def take(self) -> list[Any]:
        """Returns the results of the batch, which has ended, and is no longer in flight. Raises its error, and
        BatchCancelledError.
        """
        future, self.future = self.future, None
        if future is None:
            raise RuntimeError(f"{self._context.id} has no batch in flight")
        try:
            return future.result()
        except CancelledError:
            raise BatchCancelledError(f"the batch of {self._context.id} was cancelled") from None

    def withdraw(self) -> bool:
        """Takes the batch out of the engine if it has not begun. Returns whether it has not."""
        if self.future is None or not self.future.cancel():
            return False
        self.future = None
        return True

    def abandon(self, timeout_s: float = 0.0) -> None:
        """Waits for the end of the batch, whatever its result, and cancels it if that takes longer."""
        future, self.future = self.future, None
        if future is not None:
            ended(future, timeout_s)
            self._context.engine.cancel(future)

    def cancel(self) -> None:
        """Cancels the batch, and later ones as soon as they begin. The task must not continue."""
        self.cancelled = True
        if (future := self.future) is not None:
            self._context.engine.cancel(future)
