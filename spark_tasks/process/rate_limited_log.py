"""Limits log lines that clients can cause to a few per minute: an unauthenticated client must not fill the log."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict

_MOST = 5
_PER_S = 60.0


class RateLimitedLog:
    """Counts and limits lines of each kind. Thread-safe."""

    def __init__(self, most: int = _MOST, per_s: float = _PER_S) -> None:
        self._most = most
        self._per_s = per_s
        self._lock = threading.Lock()
        self._begun: dict[str, float] = {}
        self._counts = defaultdict[str, int](int)

    def suppressed(self, kind: str, now: float | None = None) -> int | None:
        """None if this line has to be suppressed; else the number of lines suppressed since the last one.

        `kind` must not be input: kinds are never forgotten. `now`: time.monotonic().
        """
        now = time.monotonic() if now is None else now
        with self._lock:
            if now - self._begun.get(kind, -self._per_s) >= self._per_s:
                left = max(0, self._counts[kind] - self._most)
                self._begun[kind], self._counts[kind] = now, 1
                return left
            self._counts[kind] += 1
            return 0 if self._counts[kind] <= self._most else None

    def log(self, logger: logging.Logger, level: int, text: str, *args: object) -> None:
        """Log a line, unless it has to be suppressed. Its kind is `text` without the arguments."""
        suppressed = self.suppressed(text)
        if suppressed is not None:
            more = f" ({suppressed} more such lines were left out)" if suppressed else ""
            logger.log(level, f"{text}{more}", *args, stacklevel=2)  # noqa: G004 - a constant and a number
