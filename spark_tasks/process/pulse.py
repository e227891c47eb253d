"""Detects that this process did not run for a while because it or its machine was suspended."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Final

BEAT_S: Final = 0.25
_MIN_GAP_S: Final = 1.0  # shorter gaps are usual on a busy machine
_MAX_GAPS: Final = 64  # that are remembered


class Pulse:
    """Records the gaps between beats. After a suspension, a thread may run before the next beat; so the time since the
    last beat counts as a gap, too.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._gaps: deque[tuple[float, float]] = deque(maxlen=_MAX_GAPS)  # (end, length)

    def longest_gap_since(self, moment: float) -> float:
        """Returns the longest gap that ended after `moment` (time.monotonic) or has not ended yet, in seconds."""
        since_last_beat = self._clock() - self._last
        return max([length for end, length in tuple(self._gaps) if end > moment] + [since_last_beat])

    def beat(self) -> None:
        """Records that the process is running."""
        now = self._clock()
        if now - self._last > _MIN_GAP_S:
            self._gaps.append((now, now - self._last))
        self._last = now


@cache
def process_pulse() -> Pulse:
    """Returns the pulse of this process. The first call starts the thread that calls `beat`."""
    pulse = Pulse()

    def run() -> None:
        while True:
            time.sleep(BEAT_S)
            pulse.beat()

    threading.Thread(target=run, name="pulse", daemon=True).start()
    return pulse
