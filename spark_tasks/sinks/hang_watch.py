"""Recognizes a shared split that hangs, and cancels it.

A plugin that hangs in a shared split delays the records of all its tasks. So the split is cancelled, its process is
killed, and each task repeats its records in a split of its own. Records must not be repeated because of other load on
the machine, so a split hangs only if it has run or slept in its process for CUT_OFF_S. This does not count:

- the time before a process has taken the split, or after a process has declined it;
- the time in which its process was ready to run but had no CPU, according to the kernel;
- the time in which the worker itself did not run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

from spark_tasks.task import Engine

_logger = logging.getLogger(__name__)

CUT_OFF_S: Final = 3.0  # for splits that took milliseconds before
LONGEST_STEP_S: Final = 0.3  # between two calls of `hangs`; in the rest of a longer step, the worker did not run
SHOWN_TASKS: Final = 5  # ids in a line of the log


class HangWatch:
    """Watches one split. Create it when the split has not ended after a moment, which few do."""

    def __init__(self, engine: Engine, batch: Future[list[Any]]) -> None:
        self._engine = engine
        self._batch = batch
        self._seen: float | None = None  # when the split was last seen in a process; None while it is in none
        self._ready_s = 0.0  # the engine's at that time
        self._hung_s = 0.0  # how long the split has run or slept in that process
        self._found = False

    def hangs(self, now: float) -> bool:
        """Returns whether the split hangs; True only once. `now`: time.monotonic. Does not block."""
        if not self._engine.runs(self._batch):
            self._seen, self._hung_s = None, 0.0
            return False
        ready_s, seen = self._engine.ready_s(self._batch), self._seen
        if seen is not None:
            waited_s = max(0.0, ready_s - self._ready_s)  # less than before: another process has the split
            self._hung_s += max(0.0, min(now - seen, LONGEST_STEP_S) - waited_s)
        self._seen, self._ready_s = now, ready_s
        if self._found or self._hung_s <= CUT_OFF_S:
            return False
        self._found = True
        return True

    def cancel(self, tasks: Sequence[str]) -> None:
        """Logs where the split hangs, and cancels it. Does not block: a thread of its own asks the process for its
        stack. `tasks`: the ids of the split's tasks.
        """
        try:
            threading.Thread(target=self._locate_and_cancel, args=(tasks,), name="cut-off", daemon=True).start()
        except RuntimeError:  # the system has no thread left; the split has to end nevertheless
            self._report_and_cancel(tasks, None)

    def _locate_and_cancel(self, tasks: Sequence[str]) -> None:
        where = None
        try:
            where = self._engine.where(self._batch)
        except Exception:  # whatever it is, the split has to end
            _logger.exception("Could not find out where a shared split hangs")
        if not self._batch.done():  # meanwhile
            self._report_and_cancel(tasks, where)

    def _report_and_cancel(self, tasks: Sequence[str], where: str | None) -> None:
        more = len(tasks) - SHOWN_TASKS
        some = ", ".join(tasks[:SHOWN_TASKS]) + (f" and {more} more" if more > 0 else "")
        _logger.warning("Cancelling a split that %d tasks share (%s): it has run for more than %g s. Each task repeats "
                        "its records in a split of its own", len(tasks), some, CUT_OFF_S,
                        extra={"heeler_about": tasks[0].rpartition("-")[0], "below": where or ""})
        self._engine.cancel(self._batch)
