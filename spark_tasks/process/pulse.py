"""Notices that this process did not run for a while, because it or its machine was suspended."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Final

BEAT_S: Final = 0.25
_NOTABLE_S: Final = 1.0  # shorter silences are a busy machine's
_KEPT: Final = 64


class Pulse:
    """Records gaps between beats. A thread that runs again before the next beat sees that the last one is long ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._silences: deque[tuple[float, float]] = deque(maxlen=_KEPT)  # (end, length)

    def silence_since(self, moment: float) -> float:
        """The longest gap, in seconds, that was not over at `moment` (of time.monotonic)."""
        going_on = self._clock() - self._last
        return max([length for end, length in tuple(self._silences) if end > moment] + [going_on])

    def beat(self) -> None:
        """Note that the process runs."""
        now = self._clock()
        if now - self._last > _NOTABLE_S:
            self._silences.append((now, now - self._last))
        self._last = now


@cache
def process_pulse() -> Pulse:
    """The pulse of this process, which beats from the first call on."""
    pulse = Pulse()

    def run() -> None:
        while True:
            time.sleep(BEAT_S)
            pulse.beat()

    threading.Thread(target=run, name="pulse", daemon=True).start()
    return pulse
