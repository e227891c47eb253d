"""A task in the host: how it is started, and the events that it sends."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from heeler.java_host.connection import Connection, Event, JavaPluginError, Message, thrown
from heeler.java_host.plugin_metrics import figures
from spark_tasks.errors import ConnectError, StartCancelledError
from spark_tasks.host_frames import HostGoneError
from spark_tasks.metrics.plugins import Figures, PluginMetrics
from spark_tasks.plugins.chain_cut import Cut, with_converters
from spark_tasks.task import PluginCall, TaskContext

_logger = logging.getLogger(__name__)

HELD_EVENTS: Final = 8  # queued events, after which the host has to wait; a frame has some MB, or one larger record
_POLL_S: Final = 0.2
_ANSWER_S: Final = 2.0


class Session:
    """A task in the host, and the events received from it. `measured`: the figures of its plugins, which are the
    task's by default.
    """

    def __init__(self, connect: Callable[..., Connection], op: str, order: Message, context: TaskContext,
                 offsets: Callable[[], list[tuple[str, str]]] = list, measured: PluginMetrics | None = None) -> None:
        self._events: queue.Queue[Event] = queue.Queue(HELD_EVENTS)
        self._wake = context.wake
        self._measured = measured or context.metrics.plugins
        self._closed = False
        self.events = 0
        """How many were received, without those about metrics."""
        self._end: HostGoneError | None = None
        self.stopped = False
        """Whether the plugin has stopped or failed."""
        self.retires = False
        """Whether its host is being replaced: the task must leave it, or ends with it some seconds later."""
        self.connection = connect(self._put, offsets, context.id, context.connector_name)
        self.connection.tell(op, **order)

    def _put(self, event: Event) -> None:
        """Called by the reading thread. Blocks if many events are queued; the host then has to wait."""
        if isinstance(event, Mapping) and event.get("op") == "metrics":
            if not self._closed:
                self._measured.replace(figures(event["values"]))
            return
        self.events += 1
        if isinstance(event, Mapping) and event.get("op") == "returned":  # of a call in `plugin_calls`
            return
        if isinstance(event, Mapping) and event.get("op") == "retire":
            self.retires = True
            self._wake()
            return
        while not self._closed:
            with suppress(queue.Full):
                self._events.put(event, timeout=_POLL_S)
                break
        self._wake()

    def next(self, *, wait: bool) -> Event | None:
        """The next event; None if there is none, unless `wait` is set. Raises HostGoneError at the end, every time."""
        while True:
            if self._end is not None:
                raise self._end
            try:
                event = self._events.get(timeout=_POLL_S) if wait else self._events.get_nowait()
            except queue.Empty:
                if self._closed:
                    raise HostGoneError("The connection to the Java plugin host was closed") from None
                if not wait:
                    return None
                continue
            if isinstance(event, HostGoneError):
                self._end = event
                continue
            if isinstance(event, Mapping) and event.get("op") in {"stopped", "failed"}:
                self.stopped = True
            return event

    def rest(self) -> Iterator[Event]:
        """What the host has sent before its end, which may be the reason. Call it only if the host has ended."""
        with suppress(HostGoneError):
            while (event := self.next(wait=True)) is not None:
                yield event

    def plugin_calls(self) -> Sequence[PluginCall] | None:
        """The calls of the plugin that have not returned. None if the host does not say."""
        try:
            found = self.connection.ask_within(_ANSWER_S, "where")
        except ConnectError as error:
            _logger.debug("The host did not say what its plugin does: %s", error)
            return None
        return [PluginCall(one["method"], one["ms"] / 1000, one["waits"], one["stack"]) for one in found["calls"]]

    def close(self) -> None:
        """Ends the session: the host gives the task up. Any thread, any number of times."""
        self._closed = True
        self._measured.replace(Figures())
        self.connection.close()


class HeldSession:
    """The current session of a task. The task's thread opens and drops it; any thread may give it up.

    `drop`: called if the host has ended while the task was starting, and when the task leaves its host; `finish`:
    called to stop the task in the host cleanly.
    """

    def __init__(self, task: str, drop: Callable[[], None], finish: Callable[[Session], None]) -> None:
        self.session: Session | None = None
        self.cancelled = False
        self._task = task
        self._drop = drop
        self._finish = finish
        self._starting = False
        self._unwanted = False

    def open(self, make: Callable[[], Session], start: Callable[[Session], None]) -> Session:
        """Creates a session with `make`; `start` waits until the task has started in it. Raises the errors of both, and
        StartCancelledError after `stop_starting`.
        """
        self._starting = True
        try:
            self.session = session = make()
            if self.cancelled or self._unwanted:
                session.close()
            start(session)
        except HostGoneError:
            self._drop()
            if self._unwanted:
                raise StartCancelledError(f"{self._task} was stopped before it had started") from None
            raise
        finally:
            self._starting = False
        return session

    def current(self) -> Session | None:
        """The session; None if a new one has to be opened. If its host is being replaced, the task is first stopped
        there cleanly.
        """
        session = self.session
        if session is None or not session.retires:
            return session
        _logger.info("%s continues in another Java plugin host", self._task)
        try:
            self._finish(session)
        except JavaPluginError as error:
            _logger.warning("Could not stop %s cleanly: %s", self._task, error)
        self._drop()
        return None

    def finish(self) -> bool:
        """Stops the task cleanly, unless it was cancelled. Returns False if the host had already ended. Raises the
        plugin's errors.
        """
        if self.session is None or self.cancelled:
            return True
        try:
            self._finish(self.session)
        except HostGoneError:
            _logger.info("%s: the Java plugin host has ended before the task was stopped", self._task)
            return False
        return True

    def close(self) -> None:
        """Ends the session; another one may be opened."""
        session, self.session = self.session, None
        if session is not None:
            session.close()

    def stop_starting(self) -> None:
        """Cancels a start. Any thread."""
        self._unwanted = True
        if self._starting and (session := self.session) is not None:
            session.close()

    def cancel(self) -> None:
        """Cancels the task; the host abandons it, too. Any thread."""
        self.cancelled = True
        if (session := self.session) is not None:
            session.close()


def order(context: TaskContext, named: Mapping[str, str], cut: Cut | None = None) -> Message:
    """The start request for a task. The worker's converters are used if the connector names none."""
    connector = with_converters({"name": context.connector_name, **context.connector}, context.worker.converters)
    if cut is not None:
        connector = cut.for_near(connector)
    return {"name": context.connector_name, "task": context.task, **named, "connector": connector,
            "config": dict(context.config)}


def unexpected(event: Event | None) -> ConnectError:
    """The error for an event other than the expected one."""
    if isinstance(event, Mapping) and event.get("op") == "failed":
        return thrown(event)
    if isinstance(event, ConnectError):
        return event
    return ConnectError(f"unexpected event of the Java plugin host: {event!r:.200}")
