"""Finds connectors and tasks that have work but make no progress: a call of the plugin that does not return, or a batch
that does not end (task.progress.timeout.ms). It reports them to the herder, which decides what follows, with a stack
trace.

A plugin in another process is asked what it does if nothing has come from it for that time. A `poll` may wait for data
as long as it likes, which is only mentioned.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import CodeType
from typing import Any, Self

from typing_extensions import override

from actors.messages.correlation_ids import Epoch
from actors.messages.events import InstanceRecovered, InstanceStalled
from spark_tasks import spaces
from spark_tasks.config.masking import process_secrets
from spark_tasks.plugins.connector_instance import ConnectorInstance
from spark_tasks.task import PluginCall, TaskRunner
from storage.ids import ItemId

_logger = logging.getLogger(__name__)
_ENDED = "Its thread has just ended"

Batch = Future[list[Any]]
Where = Callable[[Batch], str | None]
"""The stack traces of a batch's splits; None if none of them runs. May take seconds."""
Tell = Callable[[InstanceStalled | InstanceRecovered], None]


class Pace:
    """The progress of one connector or task instance. The thread that serves it uses `call`; the rest is for any
    thread.
    """

    def __init__(self, item: ItemId, epoch: Epoch, limit_s: float,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """`limit_s`: how long one call, or one batch, may take; 0: without a limit."""
        self._clock = clock
        self.item = item
        self.epoch = epoch
        self.limit_s = limit_s
        self.runner: TaskRunner | ConnectorInstance | None = None
        self.ended = False
        self.stalled: str | None = None  # a description while it is stalled
        self.waiting: str | None = None  # a description while its plugin waits for data
        self.waited = False  # whether it has done so before
        self._call: tuple[int, float] | None = None  # its thread, and since when
        self._batch: tuple[Batch | None, bool] = (None, False)  # the batch, and whether it has begun to run
        self._batch_since = 0.0
        self._events: object = None  # of the plugin's process
        self._events_at = 0.0
        self._due_s = limit_s

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call of the plugin (or of the task's runner) in this thread."""
        self._call = threading.get_ident(), self._clock()
        try:
            yield
        finally:
            self._call = None

    def where(self) -> Stack | None:
        """The stack of the call; None if there is none."""
        call = self._call
        if call is None:
            return None
        stack = Stack.of(call[0], self._calls_elsewhere())
        return stack if self._call is call else None  # connectors share threads: it may be another one's by now

    def _calls_elsewhere(self) -> Callable[[], Sequence[PluginCall] | None] | None:
        """What asks for the calls in a connector's process. A task's batch is given up before it could be asked."""
        elsewhere = isinstance(self.runner, ConnectorInstance) and self.runner.elsewhere
        return self.plugin_calls if elsewhere else None

    def overdue(self, now: float) -> OverdueWork | None:
        """The call or batch that has taken longer than `limit_s`, or the silence of the plugin's process; None if there
        is none.
        """
        batch = getattr(self.runner, "batch", None)
        known = (batch, batch is not None and batch.running())
        if known != self._batch:
            self._batch, self._batch_since = known, now
        events = getattr(self.runner, "events", None)
        if events != self._events:
            self._events, self._events_at = events, now
        batch_s = now - self._batch_since if batch is not None and not batch.done() else 0.0
        call_s = 0.0 if (call := self._call) is None else now - call[1]
        limit_s = self.limit_s or math.inf
        if batch_s > limit_s:
            return OverdueWork(batch_s, batch, call_s)
        if call_s > limit_s:
            return OverdueWork(call_s, None, call_s)
        silent_s = now - self._events_at if events is not None else 0.0
        return OverdueWork(silent_s, None, call_s) if silent_s > limit_s else None

    def plugin_calls(self) -> Sequence[PluginCall] | None:
        """The calls of a plugin in another process; None if they are not known. Takes seconds."""
        ask: Callable[[], Sequence[PluginCall] | None] = getattr(self.runner, "plugin_calls", tuple)
        return ask()

    def silent_for(self, seconds: float) -> None:
        """The plugin's process has been silent for longer, but the call that it is in began only `seconds` ago."""
        self._events_at = self._clock() - seconds

    def is_due(self, overdue: OverdueWork) -> bool:
        """Whether to report: at the limit, and each time that the duration has doubled since."""
        return overdue.seconds >= self._due_s

    def reports(self, overdue: OverdueWork) -> None:
        """The report is on its way."""
        self._due_s = 2 * overdue.seconds

    def recovers(self) -> bool:
        """There is progress. Returns whether it was stalled before."""
        was, self.stalled, self.waiting = self.stalled is not None, None, None
        self._due_s = self.limit_s
        return was


@dataclass(frozen=True, slots=True)
class OverdueWork:
    """A batch (or, without one, a call or the silence of the plugin's process) and how long it has taken. `call_s`: how
    long the call has taken, 0.0 if there is none.
    """

    seconds: float
    batch: Batch | None
    call_s: float


@dataclass(frozen=True, slots=True)
class _Found:
    """What overdue work is about, and the stack where the task hangs: empty if it waits for batches of other tasks.
    `waits`: it waits for data.
    """

    what: str
    stack: str
    waits: bool = False


class Watchdog:
    """Watches the pace of all connectors and tasks. `check` has to be called periodically, and returns at once."""

    def __init__(self, tell: Tell, where: Where = lambda _: None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tell = tell
        self._where = where
        self._lock = threading.Lock()
        self._paces: list[Pace] = []

    def watch(self, item: ItemId, epoch: Epoch, limit_s: float) -> Pace:
        """Watches a new instance until its pace has `ended`."""
        pace = Pace(item, epoch, limit_s, self._clock)
        with self._lock:
            self._paces.append(pace)
        return pace

    def check(self) -> None:
        """Checks all, and reports those that have stalled or make progress again."""
        with self._lock:
            self._paces = [pace for pace in self._paces if not pace.ended]
            now = self._clock()
            for pace in self._paces:
                overdue = pace.overdue(now)
                if overdue is None:
                    if pace.recovers():
                        self._tell(InstanceRecovered(pace.item, pace.epoch))
                elif pace.is_due(overdue):
                    self._start_report(pace, overdue)

    def _start_report(self, pace: Pace, overdue: OverdueWork) -> None:
        name = f"watchdog-{pace.item}"
        try:
            threading.Thread(target=self._report, args=(pace, overdue), name=name, daemon=True).start()
        except RuntimeError as error:
            _logger.warning("No progress; reporting it at the next check: %s", error, extra={"heeler_about": pace.item})
            return
        pace.reports(overdue)

    def degraded(self) -> Sequence[str]:
        """Stalled connectors and tasks, each with a description."""
        return [f"{pace.item}: {pace.stalled}" for pace in self._stalling()]

    def waiting(self) -> Sequence[str]:
        """Tasks whose plugins have waited for data for long, each with a description. Nothing is wrong with them."""
        with self._lock:
            return [f"{pace.item}: {pace.waiting}" for pace in self._paces
                    if pace.waiting is not None and pace.stalled is None and not pace.ended]

    def stalled(self) -> frozenset[ItemId]:
        """The stalled connectors and tasks."""
        return frozenset(pace.item for pace in self._stalling())

    def _stalling(self) -> list[Pace]:
        with self._lock:
            return [pace for pace in self._paces if pace.stalled is not None and not pace.ended]

    def _report(self, pace: Pace, overdue: OverdueWork) -> None:
        try:
            found = self._examine(pace, overdue)
        except Exception:
            # Whatever the error, the stall itself has to be reported.
            _logger.exception("Could not find out where it hangs", extra={"heeler_about": pace.item})
            found = _Found(f"no progress for {overdue.seconds:.0f} s", "")
        if found is None:
            return
        text = presentable(f"{found.what} (task.progress.timeout.ms)\n{found.stack}")
        with self._lock:  # so that a stall is never reported after the recovery from it
            if pace.ended or (now := pace.overdue(self._clock())) is None:
                return
            if not found.waits:
                pace.stalled = found.what
                self._tell(InstanceStalled(
                    pace.item, pace.epoch, text, int(now.seconds * 1000), hangs=bool(found.stack)))
                return
            pace.waiting = found.what
            if pace.waited:
                return
            pace.waited = True
        _logger.info("%s\nA plugin may do that while there is no data. This is logged once.", text,
                     extra={"heeler_about": pace.item})

    def _examine(self, pace: Pace, overdue: OverdueWork) -> _Found | None:
        """What overdue work is about; None if there is nothing to report."""
        if overdue.batch is not None and (where := self._where(overdue.batch)) is not None:
            return _Found(f"a batch has been running for {overdue.seconds:.0f} s", where)
        on_worker = pace.where()
        known = pace.plugin_calls()
        calls = known or ()
        late = [call for call in calls if call.seconds > pace.limit_s]
        if hung := next((call for call in late if not call.waits), None):  # a call on the worker waits for it
            return _Found(f"{hung.method} has not returned for {hung.seconds:.0f} s", hung.stack)
        if overdue.call_s > pace.limit_s:  # the batch, if there is one, waits for this call
            stacks = [str(on_worker or _ENDED), *(f"The plugin, in {call.method}:\n{call.stack}" for call in calls)]
            return _Found(f"a call on the worker has not returned for {overdue.call_s:.0f} s", "\n".join(stacks))
        if overdue.batch is not None:
            waits = f"a batch has been waiting for {overdue.seconds:.0f} s; no executor process is running it"
            return _Found(waits, "")
        if late:
            since = datetime.now(UTC) - timedelta(seconds=late[0].seconds)
            what = f"{late[0].method} has been waiting since {since:%Y-%m-%dT%H:%M:%SZ}"
            return _Found(what, late[0].stack, waits=True)
        if known is not None:  # otherwise, whatever was found before may still hold
            pace.silent_for(max((call.seconds for call in known), default=0.0))
        return None


class Stack:
    """The stack of a thread of this process at one moment. Taking it reads no files. `str` reads the source lines, from
    a folder of plugins that may not answer. If the thread has just ended, the text says so.

    `calls`: if the thread waits for a connector's process, `str` asks it for its calls and shows them instead, which
    takes seconds.
    """

    def __init__(self, frames: Sequence[tuple[CodeType, int]],
                 calls: Callable[[], Sequence[PluginCall] | None] | None = None) -> None:
        self._frames = frames
        self._calls = calls

    @property
    def asks(self) -> bool:
        """Whether `str` asks a process, which must not be ended before."""
        return self._calls is not None

    @classmethod
    def of(cls, thread: int, calls: Callable[[], Sequence[PluginCall] | None] | None = None) -> Self:
        """Takes the stack of a thread."""
        frame = sys._current_frames().get(thread)  # noqa: SLF001 - the only way
        frames = [(one.f_code, number) for one, number in traceback.walk_stack(frame)] if frame is not None else ()
        return cls(frames, calls)

    @override
    def __str__(self) -> str:
        if self._calls is not None and (calls := self._calls()):
            return "\n".join(f"In {call.method}:\n{call.stack}" for call in calls)
        lines = [traceback.FrameSummary(code.co_filename, number, code.co_name) for code, number in self._frames]
        return "".join(traceback.format_list(reversed(lines))).rstrip() or _ENDED


def presentable(text: str) -> str:
    """A text with stacks for the log and the story: with plain names of modules, and with secrets masked."""
    return process_secrets().mask(spaces.with_plain_names(text.rstrip()))
