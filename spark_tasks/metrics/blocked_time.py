"""How long a thread has been blocked: neither running nor waiting for a CPU."""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Final

_SCHEDSTAT: Final = "/proc/thread-self/schedstat"  # Linux: ns on a CPU, ns of waiting for one, turns
_S: Final = 1e-9
_AT_ONCE_S: Final = 0.001
_ATTEMPTS: Final = 3


class _OpenFile:
    """A thread's file, which is closed when nobody uses it."""

    def __init__(self, path: str) -> None:
        self.thread = threading.get_native_id()
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)

    def read(self) -> bytes:
        return os.pread(self._file, 100, 0)


class Statistics(threading.local):
    """The kernel's statistics of each thread. Its file stays open: opening it takes ten times as long as reading it."""

    def __init__(self, path: str = _SCHEDSTAT) -> None:
        self._path = path
        self._file: _OpenFile | None = None

    def read(self) -> bytes:
        """Raises OSError on systems other than Linux."""
        if self._file is None or self._file.thread != threading.get_native_id():  # it is another one after a fork
            self._file = _OpenFile(self._path)
        return self._file.read()


statistics = Statistics()


def blocked_clock() -> float:
    """Returns the seconds for which this thread has been blocked, plus a constant: only differences have a meaning. On
    systems other than Linux, the time in which it waited for a CPU counts as well.
    """
    now = time.perf_counter()
    for _ in range(_ATTEMPTS):
        try:
            ran, ready, _turns = statistics.read().split()
        except (OSError, ValueError):
            return now - time.thread_time()
        before, now = now, time.perf_counter()
        if now - before < _AT_ONCE_S:  # otherwise another thread had the CPU between the two readings, which do not fit
            break
    return now - (int(ran) + int(ready)) * _S
