"""How far a log has been read, and the futures that wait for it to be read further."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from spark_tasks.futures import complete
from storage.log.record import Position

Ends = Mapping[int, int]  # partition -> first offset that need not have been read


class ReadProgress:
    """Thread-safe. `advance` is called after records have been delivered, so futures complete after their records."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached: dict[int, int] = {}
        self._waiting: list[tuple[Ends, Future[None]]] = []
        self._closed = False

    def reached(self) -> dict[int, int]:
        """The next offset to read of each partition."""
        with self._lock:
            return dict(self._reached)

    def wait(self, wanted: Ends, future: Future[None]) -> Future[None]:
        """Completes `future` once everything before `wanted` has been read; cancels it after `close`."""
        with self._lock:
            if not self._has(wanted) and not self._closed:
                self._waiting = [waiter for waiter in self._waiting if not waiter[1].done()]
                self._waiting.append((wanted, future))
                return future
            closed = self._closed
        if closed:
            future.cancel()
        else:
            complete(future, None)
        return future

    def advance(self, ends: Ends) -> None:
        """Everything before `ends` has been read."""
        with self._lock:
            self._reached.update(ends)
            ready = [future for wanted, future in self._waiting if self._has(wanted)]
            if ready:
                self._waiting = [(wanted, future) for wanted, future in self._waiting if not self._has(wanted)]
        for future in ready:
            complete(future, None)

    def close(self) -> None:
        """Cancels all futures, now and later."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            future.cancel()

    def _has(self, wanted: Ends) -> bool:
        return all(self._reached.get(partition, 0) >= end for partition, end in wanted.items())


def ends_of(positions: Iterable[Position]) -> Ends:
    """The ends that include all these records."""
    ends: dict[int, int] = {}
    for partition, offset in positions:
        ends[partition] = max(offset + 1, ends.get(partition, 0))
    return ends
