"""Writes columns of strings as JSON string literals, with Jackson's escapes."""
# ruff: noqa: PLR1714, SIM109 - compiled code: plain comparisons are faster, and keyword arguments are not possible

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import all_valid, frozen, string_array, texts
from spark_tasks.arrays.jit import inlined
from spark_tasks.arrays.jit import kernel as jit
from spark_tasks.arrays.memory import HIGH_BITS, WORD, count_bytes, first_byte, load_word, store_word
from spark_tasks.pipeline.converters.json_words import BACKSLASH, QUOTE, specials

_1, _2, _3 = map(np.uint64, (1, 2, 3))
_LONGEST: Final = 8  # by how many bytes an escape is longer than what it replaces, at most


def literals(array: pa.Array) -> pa.Array:
    """Returns the strings quoted and escaped; null remains null."""
    found = texts(array)
    mask = all_valid(len(array)) if found.valid is None else found.valid
    offsets = np.empty(len(array) + 1, np.int32)
    data, ends = frozen(found.data), frozen(found.offsets)
    out = np.empty(_room(data, int(ends[0]), int(ends[-1])) + 2 * len(array) + WORD, np.uint8)
    size = _write(data, ends, mask, offsets, out)
    return string_array(out[:size], offsets, found.valid)


@jit
def _short(c: int) -> int:
    """Returns the letter of a two-character escape, or 0."""
    if c == QUOTE or c == BACKSLASH:
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


@inlined
def _to_escape(word: Any) -> Any:
    """Returns the high bit of each byte that is escaped: quotes, backslashes, controls, and from 240 on the first bytes
    of characters beyond U+FFFF.
    """
    beyond = word & (word << _1) & (word << _2) & (word << _3) & HIGH_BITS  # the four high bits of the byte are set
    return specials(word) | beyond


@jit
def _room(data: Any, start: int, end: int) -> Any:
    """Returns an upper bound for the size of the escaped strings."""
    escapes = np.uint64(0)
    at = start
    while at + WORD <= end:
        escapes += count_bytes(_to_escape(load_word(data, at)))
        at += WORD
    return end - start + _LONGEST * (np.int64(escapes) + end - at)


@jit
def _write(data: Any, ends: Any, mask: Any, offsets: Any, out: Any) -> int:
    at = 0
    offsets[0] = 0
    last_word = len(data) - WORD
    for i in range(len(mask)):
        if mask[i]:
            out[at] = QUOTE
            at += 1
            j: Any = np.int64(ends[i])
            end: Any = np.int64(ends[i + 1])
            while j < end:
                if j <= last_word:
                    at, j = _copy_word(data, j, min(WORD, end - j), out, at)
                else:
                    at, j = _write_character(data, j, out, at)
            out[at] = QUOTE
            at += 1
        offsets[i + 1] = at
    return at


@inlined
def _copy_word(data: Any, j: int, count: int, out: Any, at: int) -> tuple[int, int]:
    """Writes `count` bytes, or only those before a character that needs a long escape, and that character."""
    word = load_word(data, j)
    store_word(out, at, word)
    found = _to_escape(word)
    if count < WORD:
        found &= (_1 << np.uint64(8 * count)) - _1
    done = 0
    while found:
        place = first_byte(found)
        at += place - done
        done = place
        c = data[j + place]
        if c != QUOTE and c != BACKSLASH:
            return _write_character(data, j + place, out, at)
        out[at] = BACKSLASH
        store_word(out, at + 1, word >> np.uint64(8 * place))
        at += 1
        found &= found - _1
    return at + count - done, j + count


@jit
def _write_character(data: Any, j: int, out: Any, at: int) -> tuple[int, int]:
    c = data[j]
    if c >= 240:
        return _write_pair(data, j, out, at), j + 4
    if c >= 32 and c != QUOTE and c != BACKSLASH:
        out[at] = c
        return at + 1, j + 1
    return _write_escape(c, out, at), j + 1


@jit
def _write_escape(c: int, out: Any, at: int) -> int:
    out[at] = BACKSLASH
    letter = _short(c)
    if letter:
        out[at + 1] = letter
        return at + 2
    out[at + 1], out[at + 2], out[at + 3] = 117, 48, 48  # \u00XX, with Jackson's capital letters
    out[at + 4], out[at + 5] = _digit(c >> 4), _digit(c & 15)
    return at + 6


@jit
def _digit(value: int) -> int:
    return 48 + value if value < 10 else 55 + value


@jit
def _write_pair(data: Any, j: int, out: Any, at: int) -> int:
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
