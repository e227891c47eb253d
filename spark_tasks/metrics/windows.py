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

    # A scrape of 500 connectors calls these thousands of times: so they create no objects.
    def average(self, now: float) -> float:
        """Returns the average, NaN without values."""
        before, last = self._before, self._now
        if not last[1] or now - last[0] >= 2 * HALF_S:
            return _NAN
        if before[1] and now - before[0] < 2 * HALF_S:
            return (before[2] + last[2]) / (before[1] + last[1])
        return last[2] / last[1]

    def maximum(self, now: float) -> float:
        """Returns the maximum, NaN without values."""
        before, last = self._before, self._now
        if not last[1] or now - last[0] >= 2 * HALF_S:
            return _NAN
        return max(before[4], last[4]) if before[1] and now - before[0] < 2 * HALF_S else last[4]

    def minimum(self, now: float) -> float:
        """Returns the minimum, NaN without values."""
        before, last = self._before, self._now
        if not last[1] or now - last[0] >= 2 * HALF_S:
            return _NAN
        return min(before[3], last[3]) if before[1] and now - before[0] < 2 * HALF_S else last[3]

    def rate(self, now: float) -> float:
        """Returns the sum of the values per second. As in Kafka, the divisor is at least half a window, so that the
        first value does not result in a peak.
        """
        before, last = self._before, self._now
        if not last[1] or now - last[0] >= 2 * HALF_S:
            return 0.0
        if before[1] and now - before[0] < 2 * HALF_S:
            return (before[2] + last[2]) / max(now - before[0], HALF_S)
        return last[2] / max(now - last[0], HALF_S)
