"""Finds tasks that have something to do and make no progress: a call of the plugin that does not return, a batch that
does not end (task.progress.timeout.ms). It tells the herder, with where they hang; that one decides what follows.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from actors.messages.events import Remark, TaskRecovered, TaskStalled
from actors.messages.ids import Epoch
from spark_tasks import spaces
from spark_tasks.config.masking import process_secrets
from spark_tasks.task import TaskRunner
from storage.ids import ConnectorTaskId

_logger = logging.getLogger(__name__)

Batch = Future[list[Any]]
Where = Callable[[Batch], str | None]
"""Where the splits of a batch are now; None where none of them runs. May take seconds."""
Tell = Callable[[TaskStalled | TaskRecovered | Remark], None]


class Pace:
    """What one task instance is at. Its own thread says when calls begin and end; any other may look."""

    def __init__(self, task: ConnectorTaskId, epoch: Epoch, limit_s: float,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """`limit_s`: how long one call, or one batch, may take; 0 for any time."""
        self._clock = clock
        self.task = task
        self.epoch = epoch
        self.limit_s = limit_s
        self.runner: TaskRunner | None = None
        self.thread: int | None = None
        self.ended = False
        self.stalled: str | None = None  # in words, while it is
        self._call_since: float | None = None
        self._batch: tuple[Batch | None, bool] = (None, False)  # and whether it has begun to run
        self._batch_since = 0.0
        self._due_s = limit_s

    def begin(self) -> None:
        """A call of the runner, by its own thread."""
        self.thread = threading.get_ident()
        self._call_since = self._clock()

    def end(self) -> None:
        """It has returned."""
        self._call_since = None

    def look(self, now: float) -> Lapse | None:
        """What it has been at for longer than it may; None where it goes on."""
        batch = getattr(self.runner, "batch", None)
        known = (batch, batch is not None and batch.running())
        if known != self._batch:
            self._batch, self._batch_since = known, now
        if batch is not None and not batch.done():
            lapse = Lapse(now - self._batch_since, batch)
        elif (since := self._call_since) is not None:
            lapse = Lapse(now - since, None)
        else:
            return None
        return lapse if self.limit_s and lapse.seconds > self.limit_s else None

    def is_due(self, lapse: Lapse) -> bool:
        """Whether to tell: at the limit, and whenever it has taken twice as long again."""
        if lapse.seconds < self._due_s:
            return False
        self._due_s = 2 * lapse.seconds
        return True

    def goes_on(self) -> bool:
        """It makes progress; whether that is news."""
        was, self.stalled = self.stalled is not None, None
        self._due_s = self.limit_s
        return was


@dataclass(frozen=True, slots=True)
class Lapse:
    """Something that takes long: a batch, or a call of the runner."""

    seconds: float
    batch: Batch | None


class Watchdog:
    """`look` is to be called from time to time, and returns at once."""

    def __init__(self, tell: Tell, where: Where = lambda _: None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tell = tell
        self._where = where
        self._lock = threading.Lock()
        self._paces: list[Pace] = []

    def watch(self, task: ConnectorTaskId, epoch: Epoch, limit_s: float) -> Pace:
        """An instance begins; it is watched until its pace has `ended`."""
        pace = Pace(task, epoch, limit_s, self._clock)
        with self._lock:
            self._paces.append(pace)
        return pace

    def look(self) -> None:
        """See the module."""
        with self._lock:
            self._paces = [pace for pace in self._paces if not pace.ended]
            paces = list(self._paces)
        now = self._clock()
        for pace in paces:
            lapse = pace.look(now)
            if lapse is None:
                if pace.goes_on():
                    self._tell(TaskRecovered(pace.task, pace.epoch))
            elif pace.is_due(lapse):
                name = f"watchdog-{pace.task}"
                threading.Thread(target=self._report, args=(pace, lapse), name=name, daemon=True).start()

    def degraded(self) -> Sequence[str]:
        """Tasks that have stalled, in words."""
        return [f"{pace.task}: {pace.stalled}" for pace in self._stalling()]

    def stalled(self) -> frozenset[ConnectorTaskId]:
        """Tasks that have stalled."""
        return frozenset(pace.task for pace in self._stalling())

    def _stalling(self) -> list[Pace]:
        with self._lock:
            return [pace for pace in self._paces if pace.stalled is not None and not pace.ended]

    def _report(self, pace: Pace, lapse: Lapse) -> None:
        try:
            what, stack = self._examine(pace, lapse)
        except Exception:
            # Whatever keeps it from saying where: that it stalls is to be told all the same.
            _logger.exception("%s: could not find out where it hangs", pace.task, extra={"about": pace.task})
            what, stack = f"no progress for {lapse.seconds:.0f} s", ""
        if pace.ended or pace.look(self._clock()) is None:
            return
        pace.stalled = what
        text = process_secrets().mask(spaces.shown(f"{what} (task.progress.timeout.ms)\n{stack}".rstrip()))
        self._tell(TaskStalled(pace.task, pace.epoch, text, hangs=bool(stack)))
        self._tell(Remark(pace.task, text, "watchdog"))

    def _examine(self, pace: Pace, lapse: Lapse) -> tuple[str, str]:
        """What it is at, and the stack of where it hangs; none where it waits for others."""
        if lapse.batch is None:
            return f"a call on the worker has not returned for {lapse.seconds:.0f} s", stack_of(pace.thread)
        where = self._where(lapse.batch)
        if where is None:
            return f"a batch has been waiting for Spark, which others use, for {lapse.seconds:.0f} s", ""
        return f"a batch has been running for {lapse.seconds:.0f} s", where


def stack_of(thread: int | None) -> str:
    """Where a thread of this process is; a line of its own where it has just ended."""
    frame = None
    with suppress(KeyError):
        frame = sys._current_frames()[thread] if thread is not None else None  # noqa: SLF001 - the only way
    return "".join(traceback.format_stack(frame)).rstrip() if frame is not None else "Its thread has just ended"
