"""Reads the worker's standard input ahead in a thread. Only the worker uses it, not executors."""

from __future__ import annotations

import os
import sys
from functools import cache
from threading import Condition, Thread

from spark_tasks.errors import ConnectError

_READ_BYTES = 64 * 1024
BUFFER_BYTES = 64 * 1024 * 1024


class ReadAhead:
    """Data that was read from a file descriptor and is not committed yet. Positions are the number of bytes before.

    If there are several readers, each continues after what any of them has committed, as the readers of one stream do.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()
        self._begin = 0
        self._changed = Condition()
        Thread(target=self._run, name="standard-input", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except OSError:
                return  # the descriptor or the terminal was closed
            if not data:
                return
            with self._changed:
                self._data += data
                while len(self._data) > BUFFER_BYTES:
                    self._changed.wait()

    @property
    def begin(self) -> int:
        """The position of the first byte that is not discarded."""
        return self._begin

    def line_end(self, start: int, limit: int) -> int:
        """Returns the end of the last complete line within `limit` bytes after `start` (one byte later if the limit is
        inside a CR LF), or of the first one if it is longer, or `start` if no line is complete. Raises ConnectError for
        a line that is longer than the data that can be held.
        """
        with self._changed:
            start = max(start, self._begin)
            first = start - self._begin
            for stop in (min(len(self._data), first + limit), len(self._data)):
                end = self._data.rfind(b"\n", first, stop) + 1
                back = self._data.rfind(b"\r", first, min(stop, len(self._data) - 1)) + 1
                if back > first and self._data[back] == 10:  # the limit is inside a CR LF
                    back += 1
                if max(end, back) > first:
                    return self._begin + max(end, back)
            if len(self._data) - first > BUFFER_BYTES:  # nothing more is read
                raise ConnectError(f"standard input has a line of more than {BUFFER_BYTES} bytes")
            return start

    def between(self, start: int, end: int) -> bytes:
        """Returns the bytes from position `start` to `end` (exclusive)."""
        with self._changed:
            return bytes(self._data[max(0, start - self._begin) : max(0, end - self._begin)])

    def discard(self, end: int) -> None:
        """Discards the bytes before position `end`."""
        with self._changed:
            if end > self._begin:
                del self._data[: end - self._begin]
                self._begin = end
                self._changed.notify_all()


@cache
def standard_input() -> ReadAhead:
    """Returns the standard input of this process."""
    return ReadAhead(sys.stdin.fileno())
