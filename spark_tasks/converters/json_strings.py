"""Strings as JSON string literals, escaped as Jackson escapes them, a column at a time."""
# ruff: noqa: PLR1714 - compiled code: plain comparisons are the fast ones, and it takes no keywords

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.converters.buffers import all_valid, string_array, texts
from spark_tasks.converters.json_tape import jit


def literals(array: pa.Array) -> pa.Array:
    """The quoted, escaped form of a string array; nulls stay."""
    found = texts(array)
    mask = all_valid(len(array)) if found.valid is None else found.valid
    offsets = np.empty(len(array) + 1, np.int32)
    out = np.empty(_measure(found.data, found.offsets, mask, offsets), np.uint8)
    _write(found.data, found.offsets, mask, offsets, out)
    return string_array(out, offsets, found.valid)


@jit
def _short(c: int) -> int:
    """The letter of a two-character escape, or 0."""
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
    for j in range(start, end):
        c = data[j]
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
            out[at + 4] = 48 + (c >> 4)
            low = c & 15
            out[at + 5] = 48 + low if low < 10 else 55 + low
            at += 6
    return at
