"""Finds the ends of lines in a file that may still grow."""

from __future__ import annotations

import os

import numpy as np

from spark_tasks.errors import ConnectError

BLOCK_BYTES = 64 * 1024
MAX_LINE_BYTES = 1024 * 1024 * 1024  # in memory; no record of Kafka is that large
_LINE_BLOCK = 1024 * 1024
_LF, _CR = 10, 13


def last_line_end(fd: int, start: int, bound: int, size: int) -> int:
    """Returns the position after the last complete line that starts at or after `start` and ends at or before `bound`,
    or one byte later if `bound` is inside a CR LF. If the first line is longer, returns its end. If no line is
    complete, returns `start`; lines of more than MAX_LINE_BYTES are not searched for their end. `size`: the size of the
    file.
    """
    at = bound
    while at > start:
        begin = max(start, at - BLOCK_BYTES)
        end = _last_in(os.pread(fd, at - begin + 1, begin), begin, at, size)
        if end is not None:
            return end
        at = begin
    return first_line_end(fd, bound, min(size, max(bound, start + MAX_LINE_BYTES))) or start


def check_line(path: object, start: int, size: int) -> None:
    """Raises ConnectError if the line that starts at `start`, and has at least `size` bytes, is too long."""
    if size >= MAX_LINE_BYTES:
        raise ConnectError(f"file {path} has a line of {MAX_LINE_BYTES} bytes or more at byte {start}, too large for a "
                           "record; alter the connector's offset to skip it")


def _last_in(block: bytes, begin: int, at: int, size: int) -> int | None:
    """Returns the position after the last line end in [begin, at), or None. `block`: these bytes and the next one, if
    the file has it.
    """
    index = max(block.rfind(b"\n", 0, at - begin), block.rfind(b"\r", 0, at - begin))
    while index >= 0:
        position = begin + index
        if block[index] == 10:
            return position + 1
        if position + 1 < size and index + 1 < len(block):
            return position + (2 if block[index + 1] == 10 else 1)
        # A CR at the end of the file: a LF may still follow.
        index = max(block.rfind(b"\n", 0, index), block.rfind(b"\r", 0, index))
    return None


def first_line_end(fd: int, start: int, size: int) -> int | None:
    """Returns the position after the first line end at or after `start`, or None if there is none."""
    at = start
    while at < size:
        block = os.pread(fd, min(_LINE_BLOCK, size - at) + 1, at)
        usable = min(len(block), size - at)
        feed, back = block.find(b"\n", 0, usable), block.find(b"\r", 0, usable)
        if feed >= 0 and (back < 0 or feed < back):
            return at + feed + 1
        if back >= 0:
            if at + back + 1 >= size or back + 1 >= len(block):
                return None
            return at + back + (2 if block[back + 1] == 10 else 1)
        at += usable
    return None


def nth_line_end(fd: int, start: int, bound: int, lines: int) -> int:
    """Returns the position after `lines` complete lines from `start`, but at most `bound`."""
    at = start
    # The additional byte shows whether a CR ends a line. If the file has no more bytes, its end is the bound anyway.
    while len(block := np.frombuffer(os.pread(fd, min(BLOCK_BYTES, bound - at) + 1, at), np.uint8)) > 1:
        here, following = block[:-1], block[1:]
        ends = np.flatnonzero((here == _LF) | ((here == _CR) & (following != _LF)))
        if len(ends) >= lines:
            return at + int(ends[lines - 1]) + 1
        lines -= len(ends)
        at += len(here)
    return bound
