"""Notices afterwards that this process did nothing for a while: it was suspended, or its machine was."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

BEAT_S: Final = 0.25
_NOTABLE_S: Final = 1.0  # shorter silences are a busy machine's
_KEPT: Final = 64


class Pulse:
    """A thread that beats. Whoever comes to life again before it does sees that its last beat is long ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._silences: deque[tuple[float, float]] = deque(maxlen=_KEPT)  # (end, length)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to beat."""
        self._last = self._clock()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Beat no more. Safe twice."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(5)

    def silence_since(self, moment: float) -> float:
        """The longest silence, in seconds, that was not over at `moment` (of time.monotonic)."""
        going_on = self._clock() - self._last
        return max([length for end, length in tuple(self._silences) if end > moment] + [going_on])

    def beat(self) -> None:
        """One beat."""
        now = self._clock()
        if now - self._last > _NOTABLE_S:
            self._silences.append((now, now - self._last))
        self._last = now

    def _run(self) -> None:
        while not self._ended.wait(BEAT_S):
            self.beat()
