"""Reads the contents of JSON strings, for columns of tape tokens."""


from __future__ import annotations

from typing import Any

import numpy as np

from spark_tasks.arrays.jit import kernel as jit
from spark_tasks.arrays.memory import WORD, copy_text, first_byte, load_word, store_word
from spark_tasks.pipeline.converters.json_tape import ESCAPED, KEY, NULL
from spark_tasks.pipeline.converters.json_words import backslashes


@jit
def unescape(data: Any, kinds: Any, starts: Any, ends: Any, tokens: Any, offsets: Any, out: Any) -> int:
    """Writes the contents of the strings, with their escapes resolved, to `out`, and fills `offsets`. Returns the
    number of bytes written, which is at most that of the texts; `out` has SLACK more.
    """
    at = 0
    offsets[0] = 0
    for i in range(len(tokens)):
        token = tokens[i]
        if token >= 0 and kinds[token] != NULL:
            start, end = starts[token], ends[token]
            if kinds[token] == ESCAPED or kinds[token] == KEY:  # a key may have escapes, too
                at = _resolve(data, start, end, out, at)
            else:
                copy_text(out, at, data, start, end - start)
                at += end - start
        offsets[i + 1] = at
    return at


@jit
def _hex4(data: Any, at: int) -> int:
    value = 0
    for i in range(4):
        c = int(data[at + i])
        value = value * 16 + (c - 48 if c < 58 else (c | 32) - 87)
    return value


@jit
def _resolve(data: Any, start: int, end: int, out: Any, at: int) -> int:
    while start < end:
        if start + WORD <= end:
            word = load_word(data, np.int64(start))
            store_word(out, np.int64(at), word)
            plain = first_byte(backslashes(word))
            start += plain
            at += plain
            if plain == WORD:
                continue
        c = data[start]
        if c != 92:
            out[at] = c
            at += 1
            start += 1
            continue
        c = data[start + 1]
        start += 2
        if c == 117:
            code = _hex4(data, start)
            start += 4
            if 0xD800 <= code < 0xDC00 and start + 6 <= end and data[start] == 92 and data[start + 1] == 117:
                low = _hex4(data, start + 2)
                if 0xDC00 <= low < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    start += 6
            at = _put_code(out, at, code)
        else:
            out[at] = _short(c)
            at += 1
    return at


@jit
def _short(c: int) -> int:
    """Returns the character of a two-character escape; all but b f n r t stand for themselves."""
    if c == 98:
        return 8
    if c == 102:
        return 12
    if c == 110:
        return 10
    if c == 114:
        return 13
    return 9 if c == 116 else c


@jit
def _put_code(out: Any, at: int, code: int) -> int:
    if 0xD800 <= code < 0xE000:  # an unpaired surrogate becomes a question mark, as in Java's encoder
        out[at] = 63
        return at + 1
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at] = 0xC0 | (code >> 6)
        out[at + 1] = 0x80 | (code & 63)
        return at + 2
    if code < 0x10000:
        out[at] = 0xE0 | (code >> 12)
        out[at + 1] = 0x80 | ((code >> 6) & 63)
        out[at + 2] = 0x80 | (code & 63)
        return at + 3
    out[at] = 0xF0 | (code >> 18)
    out[at + 1] = 0x80 | ((code >> 12) & 63)
    out[at + 2] = 0x80 | ((code >> 6) & 63)
    out[at + 3] = 0x80 | (code & 63)
    return at + 4
