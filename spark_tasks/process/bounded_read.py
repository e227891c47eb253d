"""Reads a response of unknown length, with limits on its size and duration."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_CHUNK = 65_536


class TooLongError(ValueError):
    """The response is longer than allowed."""


def read_bounded(read: Callable[[int], bytes], max_bytes: int, deadline: float = math.inf) -> bytes:
    """Calls `read` (such as a response's `read1`) with a number of bytes until it returns none, and returns all bytes.

    Raises TooLongError beyond `max_bytes`, TimeoutError after `deadline` (time.monotonic), and the errors of `read`.
    """
    parts: list[bytes] = []
    size = 0
    while part := read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise TooLongError(f"the response has more than {max_bytes // 2**20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError("the response takes too long")
    return b"".join(parts)
