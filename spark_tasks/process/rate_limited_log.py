"""Limits log lines that clients can cause to a few per minute, so that no unauthenticated client fills the log."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict

_MAX_LINES = 5
_PERIOD_S = 60.0


class RateLimitedLog:
    """Allows `max_lines` lines of each kind in each period of `per_s` seconds. Thread-safe."""

    def __init__(self, max_lines: int = _MAX_LINES, per_s: float = _PERIOD_S) -> None:
        self._max_lines = max_lines
        self._per_s = per_s
        self._lock = threading.Lock()
        self._period_starts: dict[str, float] = {}
        self._counts = defaultdict[str, int](int)

    def suppressed(self, kind: str) -> int | None:
        """Counts a line. Returns None if the caller must not log it, else how many lines of its kind were suppressed in
        the previous period (if this line is the first of a new one, otherwise 0).

        `kind` must not come from a client, as kinds are never removed.
        """
        now = time.monotonic()
        with self._lock:
            if now - self._period_starts.get(kind, -self._per_s) >= self._per_s:
                suppressed = max(0, self._counts[kind] - self._max_lines)
                self._period_starts[kind], self._counts[kind] = now, 1
                return suppressed
            self._counts[kind] += 1
            return 0 if self._counts[kind] <= self._max_lines else None

    def log(self, logger: logging.Logger, level: int, text: str, *args: object, about: object = None) -> None:
        """Logs a line unless it is suppressed. Its kind is `text` without the arguments. `about`: its connector or task
        (`subject` in heeler/worker/logs.py).
        """
        suppressed = self.suppressed(text)
        if suppressed is not None:
            more = f" ({suppressed} similar lines were suppressed)" if suppressed else ""
            logger.log(level, f"{text}{more}", *args, stacklevel=2,  # noqa: G004 - a constant and a number
                       extra={"heeler_about": about})
