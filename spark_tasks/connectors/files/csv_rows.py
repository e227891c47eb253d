"""Finds the ends of rows in CSV, as Arrow's parser does: a quote opens a field only at the start of the field."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from spark_tasks.arrays.jit import inlined
from spark_tasks.arrays.jit import kernel as jit
from spark_tasks.connectors.file_stream import line_ends
from spark_tasks.connectors.files.settings import FilesSettings

BLOCK_BYTES = 4 * 1024 * 1024
_LF, _CR = 10, 13
_START, _UNQUOTED, _QUOTED, _QUOTE, _RETURN = range(5)  # what was before: see _after


def complete_until(fd: int, start: int, bound: int, size: int, settings: FilesSettings) -> int:
    """Returns the end of the last complete row between `start` and `bound`, or of the first row if it is longer, or
    `start` if no row is complete. `size`: that of the file.
    """
    state, end, at = _START, start, start
    size = min(size, max(bound, start + line_ends.MAX_LINE_BYTES))
    while at < bound or (at < size and end == start):
        data = np.frombuffer(os.pread(fd, min(BLOCK_BYTES, size - at), at), np.uint8)
        if not len(data):
            break
        found, state = _end_of_rows(data, bound - at, end > start, state, *_characters(settings))
        end = end if found < 0 else at + int(found)
        at += len(data)
    return end


def end_of_rows(data: Any, size: int, settings: FilesSettings) -> int:
    """Returns the end of the rows in `data`, an array of bytes, that have at most `size` bytes, or of the first row if
    it is longer. The last row of `data` needs no line end.
    """
    if len(data) <= size:
        return len(data)
    if not settings.multiline and (found := len(complete_rows(data[:size].tobytes(), settings))):
        return found + 1 if data[found - 1] == _CR and data[found] == _LF else found
    end, _ = _end_of_rows(data, size, False, _START, *_characters(settings))
    return len(data) if end < 0 else int(end)


def complete_rows(data: bytes, settings: FilesSettings) -> bytes:
    """Returns the complete rows at the start of `data`."""
    if settings.multiline:
        end, _ = _end_of_rows(np.frombuffer(data, np.uint8), len(data), True, _START, *_characters(settings))
        return data[: max(0, int(end))]
    return data[: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1]


def quoted_line_end(data: Any, settings: FilesSettings) -> int:
    """Returns the index of the first line end in a quoted field of `data`, an array of bytes with whole rows, or -1."""
    delimiter, quote = ord(settings.delimiter), ord(settings.quote)
    return int(_quoted_line_end(data, delimiter, quote)) if settings.quote.encode() in data.tobytes() else -1


def _characters(settings: FilesSettings) -> tuple[int, int]:
    """Returns the delimiter and the quote character, -1 if all line ends are ends of rows."""
    return ord(settings.delimiter), ord(settings.quote) if settings.multiline else -1


@inlined
def _after(state: Any, c: Any, delimiter: int, quote: int) -> Any:
    """Returns the state after a character: the start of a field, a field without quotes or after them, a quoted field,
    a quote in it (its end, or the first of two), or a CR.
    """
    if state == _QUOTED:
        return _QUOTE if c == quote else _QUOTED
    if c == quote and state != _UNQUOTED:
        return _QUOTED
    if c in (delimiter, _LF):
        return _START
    return _RETURN if c == _CR else _UNQUOTED


@jit
def _end_of_rows(data: Any, size: int, known: bool, state: Any, delimiter: int, quote: int) -> tuple[Any, Any]:
    """Returns the end of the rows that end within `size` bytes, or, unless `known`, of the first row if it is longer;
    -1 if there is none. Also returns the state for the next block.
    """
    end: Any = -1
    for i in range(len(data)):
        if i >= size and (known or end >= 0):
            break
        before, c = state, data[i]
        state = _after(before, c, delimiter, quote)
        if before == _RETURN and c != _LF:
            end = i
        if c == _LF and before != _QUOTED:
            end = i + 1
    return end, state


@jit
def _quoted_line_end(data: Any, delimiter: int, quote: int) -> Any:
    state: Any = _START
    for i in range(len(data)):
        if state == _QUOTED and data[i] in (_LF, _CR):
            return i
        state = _after(state, data[i], delimiter, quote)
    return -1
