"""Whether records that are being sent may still be sent after this process was suspended."""

from __future__ import annotations

import itertools
import threading

from spark_tasks.process.suspension import process_pulse
from storage.log.interface import SuspendedError


class Freshness:
    """Whether records may still be sent: not if this process, or its machine, was suspended for longer than `session_s`
    since they were decided on. Others have its work by then, and may have written newer records.
    """

    def __init__(self, session_s: float) -> None:
        self._session_s = session_s
        self._lock = threading.Lock()
        self._released = threading.Condition(self._lock)
        self._since: dict[int, float] = {}  # of the records that are held
        self._numbers = itertools.count()
        process_pulse()  # starts it, so that a later suspension is noticed

    def hold(self, since: float | None) -> int:
        """A record that was decided on at `since` (time.monotonic; None: now) is being sent, until `release`."""
        since = process_pulse().beat() if since is None else since
        with self._lock:
            number = next(self._numbers)
            self._since[number] = since
        return number

    def release(self, number: int) -> float:
        """The send of a record has ended. Returns when it was decided on."""
        with self._lock:
            since = self._since.pop(number)
            self._released.notify_all()
        return since

    def wait_for_held(self, timeout_s: float) -> bool:
        """Waits until the sends of all records that are held now have ended. Returns False after the timeout."""
        with self._released:
            held = set(self._since)
            return self._released.wait_for(lambda: self._since.keys().isdisjoint(held), max(0.0, timeout_s))

    def error(self) -> SuspendedError | None:
        """The error if one of the records that are being sent must no longer be sent."""
        with self._lock:
            held = tuple(self._since.values())
        return self.error_since(min(held)) if held else None

    def error_since(self, since: float) -> SuspendedError | None:
        """The error if a record that was decided on at `since` must no longer be sent."""
        slept = process_pulse().longest_gap_since(since)
        return SuspendedError(f"this process was suspended for {slept:.1f} s") if slept > self._session_s else None
