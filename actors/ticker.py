"""The worker's timers: all other parts of the control plane get the time and their alarms from here."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Hashable

_logger = logging.getLogger(__name__)

Alarm = Callable[[], None]

_LONGEST_WAIT_S = 3600.0  # a time read from a topic may be too far away for the timeout of a lock


class Ticker:
    """Calls alarms at their time, on its own thread; an alarm must not block.

    Alarms are identified by their key: a new one replaces the old one with the same key.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: list[tuple[float, int, Hashable]] = []  # by the monotonic clock, which is never set back
        self._alarms: dict[Hashable, tuple[int, Alarm]] = {}
        self._numbers = itertools.count()
        self._running = False
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    @staticmethod
    def now_ms() -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def start(self) -> None:
        """Starts calling alarms."""
        self._running = True
        self._thread.start()

    def stop(self) -> None:
        """Stops calling alarms."""
        with self._condition:
            self._running = False
            self._condition.notify()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(5)

    def set(self, key: Hashable, at_ms: int, alarm: Alarm) -> None:
        """Calls `alarm` at `at_ms`; replaces an earlier alarm with the same key."""
        number, at = next(self._numbers), time.monotonic() + (at_ms - self.now_ms()) / 1000
        with self._condition:
            self._alarms[key] = (number, alarm)
            heapq.heappush(self._due, (at, number, key))
            if self._due[0][1] == number:  # it is the next one that is due
                self._condition.notify()

    def cancel(self, key: Hashable) -> None:
        """Cancels the alarm with this key, if there is one."""
        with self._condition:
            self._alarms.pop(key, None)

    def every(self, key: Hashable, interval_ms: int, alarm: Alarm) -> None:
        """Calls `alarm` periodically."""

        def again() -> None:
            self.set(key, self.now_ms() + interval_ms, again)
            alarm()

        self.set(key, self.now_ms() + interval_ms, again)

    def _run(self) -> None:
        while (alarm := self._next()) is not None:
            try:
                alarm()
            except Exception:  # whatever the error, the other alarms have to be called
                _logger.exception("A timer callback failed; other timers are not affected")

    def _next(self) -> Alarm | None:
        with self._condition:
            while self._running:
                while self._due and self._alarms.get(self._due[0][2], (None,))[0] != self._due[0][1]:
                    heapq.heappop(self._due)  # replaced or cancelled
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is not None and wait <= 0:
                    _, _, key = heapq.heappop(self._due)
                    return self._alarms.pop(key)[1]
                self._condition.wait(None if wait is None else min(wait, _LONGEST_WAIT_S))
            return None
