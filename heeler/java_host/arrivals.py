"""The events of a Java source's task that have arrived and are not handled yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from heeler.java_host.connection import Event
from heeler.java_host.session import Session
from spark_tasks.host_frames import Batch

KEPT_BYTES: Final = 32 << 20  # of one poll, until all of its frames have arrived


class Arrivals:
    """A queue in front of the session's. An event is taken with `pop` once it is handled, so that a step of the task
    can end before that.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()

    def __bool__(self) -> bool:
        return bool(self._events)

    def first(self, session: Session, *, in_poll: bool, wait: bool) -> Event | None:
        """The first event, which stays. A frame that begins a poll of several is returned when all of them have
        arrived, as the poll may turn out to be incomplete; but not later than when they are too large to be kept.
        `in_poll`: the frames before it are handled already. None if that has not arrived yet, unless `wait` is set.
        Raises HostGoneError.
        """
        while not self.ready(in_poll=in_poll):
            event = session.next(wait=wait)
            if event is None:
                return None
            self._events.append(event)
        return self._events[0]

    def ready(self, *, in_poll: bool) -> bool:
        """Whether `first` returns an event without receiving any."""
        if in_poll:
            return bool(self._events)
        size = 0
        for event in self._events:
            if not isinstance(event, Batch) or not event.more:
                return True
            size += event.nbytes
            if size >= KEPT_BYTES:
                return True
        return False

    @property
    def drained(self) -> bool:
        """Whether the first event is "drained": the host sends no more records."""
        first = self._events[0] if self._events else None
        return isinstance(first, Mapping) and first.get("op") == "drained"

    @property
    def failure(self) -> Event | None:
        """The event "failed", if the plugin has failed and that waits here behind frames."""
        failed = (event for event in self._events if isinstance(event, Mapping) and event.get("op") == "failed")
        return next(failed, None)

    def add(self, events: Iterable[Event]) -> None:
        """Adds events behind the others."""
        self._events.extend(events)

    def pop(self) -> None:
        """Takes the first event."""
        self._events.popleft()

    def put_back(self, frames: Sequence[Batch]) -> None:
        """Puts frames that were taken, and have to be handled again, before all others."""
        self._events.extendleft(reversed(frames))

    def clear(self) -> None:
        """Drops all."""
        self._events.clear()
