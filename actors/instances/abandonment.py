"""Gives up a task that does not stop in time, from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from actors.instances.watchdog import Pace, Stack
from spark_tasks.task import TaskRunner


class Abandonment:
    """Lets other threads cancel a running task's start or its batch in flight. `released` is called once, when the task
    has closed its runner, or was given up; it must not block.
    """

    def __init__(self, released: Callable[[], None] = lambda: None) -> None:
        self._released: Callable[[], None] | None = released
        self._lock = threading.Lock()
        self._runner: TaskRunner | None = None
        self._given_up = False
        self._stopping = False
        self.pace: Pace | None = None

    @property
    def given_up(self) -> bool:
        """Whether `cancel` was called."""
        return self._given_up

    def watch(self, runner: TaskRunner) -> bool:
        """Sets the runner that `cancel` applies to; False if `cancel` was called before."""
        with self._lock:
            self._runner = runner
            if self._stopping:
                runner.stop_starting()
            return not self._given_up

    def stop_starting(self) -> None:
        """The task is about to be stopped: a start that waits for other tasks may end. Never blocks; any thread."""
        with self._lock:
            self._stopping = True
            runner = self._runner
        if runner is not None:
            runner.stop_starting()

    def where(self) -> Stack | None:
        """The stack of the call that the task is in; None if there is none. Any thread."""
        return self.pace.where() if self.pace is not None else None

    def cancel(self) -> None:
        """The task did not stop in time: gives up the batch in flight. Never blocks; any thread."""
        if self.pace is not None:
            self.pace.ended = True
        with self._lock:
            self._given_up = True
            runner = self._runner
        if runner is not None:
            runner.cancel()
        self.release()

    def release(self) -> None:
        """The task needs nothing any more. Only the first call counts."""
        with self._lock:
            released, self._released = self._released, None
        if released is not None:
            released()
