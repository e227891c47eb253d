"""How long one step of a task waits for Kafka and executors."""

from __future__ import annotations

import time
from collections.abc import Callable


class TimeBudget:
    """The seconds that a task may still wait, in all its waits together."""

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds

    @property
    def spent(self) -> bool:
        """Whether no time is left."""
        return self._left_s <= 0

    def wait(self, wait: Callable[[float], bool]) -> bool:
        """Calls `wait` with the seconds that are left. Returns its result: whether what it waits for has happened."""
        begun = time.monotonic()
        try:
            return wait(self._left_s)
        finally:
            self._left_s = max(0.0, self._left_s - (time.monotonic() - begun))
