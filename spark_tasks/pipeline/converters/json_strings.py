"""Writes columns of strings as JSON string literals, with Jackson's escapes."""
# ruff: noqa: PLR1714 - compiled code: plain comparisons are faster, and keyword arguments are not possible

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import all_valid, frozen, string_array, texts
from spark_tasks.arrays.jit import kernel as jit


def literals(array: pa.Array) -> pa.Array:
    """Returns the strings quoted and escaped; null remains null."""
    found = texts(array)
    mask = all_valid(len(array)) if found.valid is None else found.valid
    offsets = np.empty(len(array) + 1, np.int32)
    data, ends = frozen(found.data), frozen(found.offsets)
    out = np.empty(_measure(data, ends, mask, offsets), np.uint8)
    _write(data, ends, mask, offsets, out)
    return string_array(out, offsets, found.valid)


@jit
def _short(c: int) -> int:
    """Returns the letter of a two-character escape, or 0."""
    if c == 34 or c == 92:
        return c
    if c == 10:
        return 110
    if c == 13:
        return 114
    if c == 9:
        return 116
    if c == 8:
        return 98
    return 102 if c == 12 else 0


@jit
def _measure(data: Any, ends: Any, mask: Any, offsets: Any) -> int:
    total = 0
    offsets[0] = 0
    for i in range(len(mask)):
        if mask[i]:
            total += 2 + ends[i + 1] - ends[i]
            for j in range(ends[i], ends[i + 1]):
                c = data[j]
                if c < 32 or c == 34 or c == 92:
                    total += 1 if _short(c) else 5
                elif c >= 240:
                    total += 8  # four bytes become two escapes of six bytes
        offsets[i + 1] = total
    return total


@jit
def _write(data: Any, ends: Any, mask: Any, offsets: Any, out: Any) -> None:
    for i in range(len(mask)):
        if not mask[i]:
            continue
        at = offsets[i]
        size = ends[i + 1] - ends[i]
        out[at] = 34
        at += 1
        if offsets[i + 1] - offsets[i] == size + 2:
            for j in range(size):
                out[at + j] = data[ends[i] + j]
            at += size
        else:
            at = _escaped(data, ends[i], ends[i + 1], out, at)
        out[at] = 34


@jit
def _escaped(data: Any, start: int, end: int, out: Any, at: int) -> int:
    after = start
    for j in range(start, end):
        c = data[j]
        if j < after:
            continue
        if c >= 240:
            at = _pair(data, j, out, at)
            after = j + 4
            continue
        if c >= 32 and c != 34 and c != 92:
            out[at] = c
            at += 1
            continue
        out[at] = 92
        letter = _short(c)
        if letter:
            out[at + 1] = letter
            at += 2
        else:  # \u00XX, with Jackson's capital letters
            out[at + 1], out[at + 2], out[at + 3] = 117, 48, 48
            out[at + 4], out[at + 5] = _digit(c >> 4), _digit(c & 15)
            at += 6
    return at


@jit
def _digit(value: int) -> int:
    return 48 + value if value < 10 else 55 + value


@jit
def _pair(data: Any, j: int, out: Any, at: int) -> int:
    """Writes a character beyond U+FFFF as Jackson does: as an escaped surrogate pair."""
    code = ((data[j] & 7) << 18) | ((data[j + 1] & 63) << 12) | ((data[j + 2] & 63) << 6) | (data[j + 3] & 63)
    code -= 0x10000
    for half in (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF)):
        out[at], out[at + 1] = 92, 117
        for place in range(4):
            out[at + 2 + place] = _digit((half >> (12 - 4 * place)) & 15)
        at += 6
    return at


def literal(text: str) -> str:
    """Returns one text as a JSON string literal."""
    return str(literals(pa.array([text], pa.string()))[0].as_py())
