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
    """Records the gaps between beats. Whoever asks causes a beat: after a suspension, the first thread that asks ends
    the gap for all, so that what is decided after an answer never counts as decided before the gap's end.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last = clock()
        self._gaps: deque[tuple[float, float]] = deque(maxlen=_MAX_GAPS)  # (end, length)

    def longest_gap_since(self, moment: float) -> float:
        """Returns the longest gap that ended after `moment` (time.monotonic), in seconds; 0 if there was none."""
        self.beat()
        if not self._gaps:
            return 0.0
        return max((length for end, length in tuple(self._gaps) if end > moment), default=0.0)

    def beat(self) -> float:
        """Records that the process is running, and returns the time (time.monotonic): all gaps ended before it."""
        with self._lock:
            now = self._clock()
            if now - self._last > _MIN_GAP_S:
                self._gaps.append((now, now - self._last))
            self._last = now
        return now


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
