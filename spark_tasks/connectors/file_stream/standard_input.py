"""The worker's standard input, read ahead by one thread of the process; only the worker uses it, never an executor."""

from __future__ import annotations

import os
import sys
from functools import cache
from threading import Condition, Thread

_READ = 64 * 1024
_ROOM = 64 * 1024 * 1024


class ReadAhead:
    """Data read from a descriptor and not committed yet; positions count from the first byte."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()
        self._begin = 0
        self._changed = Condition()
        Thread(target=self._run, name="standard-input", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                data = os.read(self._fd, _READ)
            except OSError:
                return  # closed, or the terminal was closed: there is no more input
            if not data:
                return
            with self._changed:
                self._data += data
                while len(self._data) > _ROOM:
                    self._changed.wait()

    @property
    def begin(self) -> int:
        """The first position that is not forgotten."""
        return self._begin

    def line_end(self, start: int, limit: int) -> int:
        """The end of the last complete line after `start` and within `limit` bytes; of the first if it is longer."""
        with self._changed:
            first = start - self._begin
            for stop in (min(len(self._data), first + limit), len(self._data)):
                end = self._data.rfind(b"\n", first, stop) + 1
                back = self._data.rfind(b"\r", first, min(stop, len(self._data) - 1)) + 1
                if max(end, back) > first:
                    return self._begin + max(end, back)
            return start

    def between(self, start: int, end: int) -> bytes:
        """The bytes from one position to another."""
        with self._changed:
            return bytes(self._data[start - self._begin : end - self._begin])

    def forget(self, end: int) -> None:
        """Forget everything before `end`."""
        with self._changed:
            if end > self._begin:
                del self._data[: end - self._begin]
                self._begin = end
                self._changed.notify_all()


@cache
def standard_input() -> ReadAhead:
    """The standard input of this process."""
    return ReadAhead(sys.stdin.fileno())
