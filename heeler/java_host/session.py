"""A task in the host: what starts it, and what comes from it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from heeler.java_host.connection import Connection, Event, HostGoneError, Message, thrown
from heeler.java_host.figures import figures
from spark_tasks.errors import ConnectError, StartCancelledError
from spark_tasks.metrics.plugins import Figures
from spark_tasks.task import TaskContext

HELD_EVENTS: Final = 8  # frames are of up to 4 MB; then the host is held back
_LOOK_S: Final = 0.2
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")


class Session:
    """A task in the host, and what has come from it."""

    def __init__(self, connect: Callable[..., Connection], op: str, order: Message, context: TaskContext,
                 offsets: Callable[[], list[tuple[str, str]]] = list) -> None:
        self._events: queue.Queue[Event] = queue.Queue(HELD_EVENTS)
        self._wake = context.wake
        self._measured = context.metrics.plugins
        self._closed = False
        self.retires = False
        """Whether its host is being replaced: the task has to leave it, or is ended with it some seconds later."""
        self.connection = connect(self._put, offsets, context.id, context.connector_name)
        self.connection.tell(op, **order)

    def _put(self, event: Event) -> None:
        """By the thread that reads. It waits where much is waiting, which holds the host back."""
        if isinstance(event, Mapping) and event.get("op") == "metrics":
            if not self._closed:
                self._measured.replace(figures(event["values"]))
            return
        if isinstance(event, Mapping) and event.get("op") == "retire":
            self.retires = True
            self._wake()
            return
        while not self._closed:
            with suppress(queue.Full):
                self._events.put(event, timeout=_LOOK_S)
                break
        self._wake()

    def next(self, *, wait: bool) -> Event | None:
        """What came first; None where nothing has come and nobody shall wait. Raises HostGoneError at the end."""
        while True:
            try:
                event = self._events.get(timeout=_LOOK_S) if wait else self._events.get_nowait()
            except queue.Empty:
                if self._closed:
                    raise HostGoneError("The connection to the host of Java plugins was given up") from None
                if not wait:
                    return None
                continue
            if isinstance(event, HostGoneError):
                raise event
            return event

    def close(self) -> None:
        """Any thread, any number of times. The host gives the task up."""
        self._closed = True
        self._measured.replace(Figures())
        self.connection.close()


class HeldSession:
    """The session of a task, of which there is one at a time. Its thread opens and drops it, any thread gives it up.

    `drop`: what the task does when the host has ended while it started.
    """

    def __init__(self, task: str, drop: Callable[[], None]) -> None:
        self.session: Session | None = None
        self.cancelled = False
        self._task = task
        self._drop = drop
        self._starting = False
        self._unwanted = False

    def open(self, make: Callable[[], Session], start: Callable[[Session], None]) -> Session:
        """Make a session; `start` waits until the task has started in it. Raises what either raises, and
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
                raise StartCancelledError(f"{self._task} is stopped before it has started") from None
            raise
        finally:
            self._starting = False
        return session

    def close(self) -> None:
        """The task in the host is over; another session may be opened."""
        session, self.session = self.session, None
        if session is not None:
            session.close()

    def stop_starting(self) -> None:
        """See TaskRunner. Any thread."""
        self._unwanted = True
        if self._starting and (session := self.session) is not None:
            session.close()

    def cancel(self) -> None:
        """See TaskRunner. Any thread. The host gives the task up too."""
        self.cancelled = True
        if (session := self.session) is not None:
            session.close()


def order(context: TaskContext, named: Mapping[str, str]) -> Message:
    """What the host needs to know of a task. The worker's converters are the connector's where it names none."""
    connector = {"name": context.connector_name, **context.connector}
    for name in _CONVERTERS:
        worker = context.worker.converters
        if not connector.get(name) and worker.get(name):
            connector |= {k: v for k, v in worker.items() if k == name or k.startswith(f"{name}.")}
    return {"name": context.connector_name, "task": context.task, **named, "connector": connector,
            "config": dict(context.config)}


def unexpected(event: Event | None) -> ConnectError:
    """The error that the host tells instead of what was waited for."""
    if isinstance(event, Mapping) and event.get("op") == "failed":
        return thrown(event)
    return event if isinstance(event, ConnectError) else ConnectError(f"the host of Java plugins said {event!r:.200}")
