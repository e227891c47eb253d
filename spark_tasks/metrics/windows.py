"""Averages, extremes and rates over a sliding window, like those of Kafka's metrics."""

from __future__ import annotations

_NAN = float("nan")
HALF_S = 30.0  # Kafka's default metrics.sample.window.ms; a window has two samples (metrics.num.samples)


class Window:
    """The values of the last 30 to 60 seconds. One thread adds values; any thread reads. `now` is in seconds, of any
    clock.
    """

    __slots__ = ("_before", "_now")

    def __init__(self) -> None:
        # (start, count, sum, minimum, maximum)
        self._before: tuple[float, int, float, float, float] = (0.0, 0, 0.0, 0.0, 0.0)
        self._now = self._before

    def add(self, value: float, now: float) -> None:
        """Adds a value."""
        begun, count, total, minimum, maximum = self._now
        if now - begun >= HALF_S:
            self._before = self._now if now - begun < 2 * HALF_S else (now - HALF_S, 0, 0.0, 0.0, 0.0)
            self._now = (now, 1, value, value, value)
        else:
            self._now = (begun, count + 1, total + value, min(minimum, value) if count else value, max(maximum, value))

    def _halves(self, now: float) -> tuple[tuple[float, int, float, float, float], ...]:
        """Returns the halves that are at most a minute old and not empty."""
        before, last = self._before, self._now
        if not last[1] or now - last[0] >= 2 * HALF_S:
            return ()
        return (before, last) if before[1] and now - before[0] < 2 * HALF_S else (last,)

    def average(self, now: float) -> float:
        """Returns the average, NaN without values."""
        halves = self._halves(now)
        if not halves:
            return _NAN
        return (halves[0][2] + halves[-1][2]) / (halves[0][1] + halves[-1][1])

    def maximum(self, now: float) -> float:
        """Returns the maximum, NaN without values."""
        halves = self._halves(now)
        return max(halves[0][4], halves[-1][4]) if halves else _NAN

    def minimum(self, now: float) -> float:
        """Returns the minimum, NaN without values."""
        halves = self._halves(now)
        return min(halves[0][3], halves[-1][3]) if halves else _NAN

    def rate(self, now: float) -> float:
        """Returns the sum of the values per second. As in Kafka, the divisor is at least half a window, so that the
        first value does not result in a peak.
        """
        halves = self._halves(now)
        if not halves:
            return 0.0
        return sum(half[2] for half in halves) / max(now - halves[0][0], HALF_S)
