"""Limits log lines that anybody can cause to a few a minute: a client without a password must not fill the log."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict

_MOST = 5
_PER_S = 60.0


class Seldom:
    """Counts lines of each kind. Thread-safe."""

    def __init__(self, most: int = _MOST, per_s: float = _PER_S) -> None:
        self._most = most
        self._per_s = per_s
        self._lock = threading.Lock()
        self._begun: dict[str, float] = {}
        self._counts = defaultdict[str, int](int)

    def unsaid(self, kind: str, now: float | None = None) -> int | None:
        """None if this line is to be left out; else the number of lines left out since the last one.

        `kind` must not be input: kinds are kept for ever. `now`: time.monotonic().
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
        """Log a line, unless it is to be left out. Its kind is `text` without the arguments."""
        unsaid = self.unsaid(text)
        if unsaid is not None:
            more = f" ({unsaid} more such lines were left out)" if unsaid else ""
            logger.log(level, f"{text}{more}", *args, stacklevel=2)  # noqa: G004 - a constant and a number
