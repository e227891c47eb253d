"""Reads a response of unknown length, from a peer that may send too much or too slowly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_CHUNK = 65_536


class TooLongError(ValueError):
    """The response is longer than allowed."""


def read_bounded(read: Callable[[int], bytes], most: int, deadline: float = math.inf) -> bytes:
    """Everything that `read` (such as a response's read1) returns until it returns nothing.

    Raises TooLongError beyond `most` bytes, TimeoutError after the deadline (time.monotonic), and what `read` raises.
    """
    parts: list[bytes] = []
    size = 0
    while part := read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > most:
            raise TooLongError(f"the answer has more than {most // 2**20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError("the answer takes too long")
    return b"".join(parts)
