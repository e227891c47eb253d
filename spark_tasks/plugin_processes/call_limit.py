"""Limits the calls of functions of plugins, each of which has a process: clients repeat requests that hang."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from spark_tasks.errors import StartCancelledError

MOST_CALLS: Final = 4
_LOOK_S: Final = 0.2  # how often a call that waits for its turn looks whether it was given up


class CallLimit:
    """Limits how many calls of each plugin run at a time. Thread-safe."""

    def __init__(self, most: int = MOST_CALLS) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._running: Counter[type[Any]] = Counter()

    @contextmanager
    def take(self, plugin: type[Any], given_up: Callable[[], bool]) -> Iterator[None]:
        """Waits for a turn of the plugin. Raises StartCancelledError if nobody waits for the call any more."""
        with self._changed:
            while self._running[plugin] >= self._most:
                if given_up():
                    raise StartCancelledError(f"{self._most} other calls of {plugin.__qualname__} have not returned")
                self._changed.wait(_LOOK_S)
            self._running[plugin] += 1
        try:
            yield
        finally:
            with self._changed:
                self._running[plugin] -= 1
                self._running += Counter()  # without plugins that have no calls
                self._changed.notify_all()
