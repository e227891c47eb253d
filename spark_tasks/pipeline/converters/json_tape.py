"""Splits a column of JSON texts into tokens, in one pass over the bytes that numba compiles.

The tape is a flat list of the tokens of all rows, in the order of the text. An object consists of an OBJECT token, and
of a KEY token and the tokens of the value for each member. `nexts` has, for the first token of a value, the index of
the token after the whole value. A row that is not plain JSON (RFC 8259), or has an escaped member name, is unusual and
has no tokens; json_text reads it as Jackson does.
"""
# ruff: noqa: PLR1714, PLR0917 - compiled code: plain comparisons are faster, and keyword arguments are not possible

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spark_tasks.arrays.buffers import Bools, Bytes, Ints, frozen
from spark_tasks.arrays.jit import kernel as jit
from spark_tasks.arrays.memory import WORD, first_byte, load_word
from spark_tasks.limits import MAX_DEPTH, MAX_NUMBER_LENGTH
from spark_tasks.pipeline.converters.json_words import specials

NULL, FALSE, TRUE, INT, FLOAT, STRING, ESCAPED, OBJECT, ARRAY, KEY = range(10)
ABSENT = 15  # only in masks, for a missing token
_UNUSUAL = -2  # a row that needs json_text
_NO_ROW = -1  # a null row


class Tape(NamedTuple):
    """The tokens of many texts in one buffer. `roots`: the first token of each row, -1 if it is null. `unusual`: the
    numbers of unusual rows.
    """

    data: Bytes
    kinds: Bytes
    starts: Ints
    ends: Ints
    nexts: Ints
    roots: Ints
    unusual: Ints


def tokenize(data: Bytes, begins: Ints, stops: Ints, valid: Bools, *, rewritten: bool = False) -> Tape:
    """Returns the tape of a text column. Text i is data[begins[i]:stops[i]]. `rewritten`: json_text has written the
    texts. Then member names may have escapes, because they are known to be unique as written, and FLOAT tokens may be
    the words NaN, Infinity and -Infinity, which are no JSON.
    """
    data, begins, stops = frozen(data), frozen(begins), frozen(stops)
    size = int(np.sum(stops, dtype=np.int64) - np.sum(begins, dtype=np.int64))
    # The densest JSON, such as [1,1,1], has a token for every two bytes; what is not JSON may have more open brackets.
    room = size // 2 + len(valid) + MAX_DEPTH + 8
    kinds = np.empty(room, np.uint8)
    starts, ends, nexts = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    roots = np.empty(len(valid), np.int32)
    stack = np.empty(MAX_DEPTH + 1, np.int32)
    count = _tokenize(data, begins, stops, valid, rewritten, kinds, starts, ends, nexts, roots, stack)
    unusual = np.flatnonzero(roots == _UNUSUAL).astype(np.int32)
    return Tape(data, kinds[:count], starts[:count], ends[:count], nexts[:count], roots, unusual)


@jit
def _tokenize(
    data: Any, begins: Any, stops: Any, valid: Any, rewritten: bool, kinds: Any, starts: Any, ends: Any, nexts: Any,
    roots: Any, stack: Any,
) -> int:  # fmt: skip
    count = 0
    for row in range(len(valid)):
        if not valid[row]:
            roots[row] = _NO_ROW
            continue
        after = _row(data, begins[row], stops[row], rewritten, kinds, starts, ends, nexts, count, stack)
        if after < 0:
            roots[row] = _UNUSUAL
        else:
            roots[row] = count
            count = after
    return count


@jit
def _space(data: Any, pos: int, stop: int) -> int:
    while pos < stop and (data[pos] == 32 or data[pos] == 10 or data[pos] == 13 or data[pos] == 9):
        pos += 1
    return pos


@jit
def _string(data: Any, pos: int, stop: int) -> tuple[int, bool]:
    """Returns the position of the closing quote, -1 if the string is invalid, and whether the string has escapes.
    `pos`: the position after the opening quote.
    """
    escaped = False
    while pos < stop:
        if pos + WORD <= stop:
            word = load_word(data, np.int64(pos))
            plain = first_byte(specials(word))
            pos += plain
            if plain == WORD:
                continue
        c = data[pos]
        if c == 34:
            return pos, escaped
        if c < 32:
            return -1, False
        if c == 92:
            escaped = True
            pos += 1
            if pos >= stop or not _escape(data, pos, stop):
                return -1, False
        pos += 1
    return -1, False


@jit
def _escape(data: Any, pos: int, stop: int) -> bool:
    c = data[pos]
    if c == 117:  # u
        if pos + 4 >= stop:
            return False
        for i in range(1, 5):
            h = data[pos + i]
            if not (48 <= h <= 57 or 65 <= h <= 70 or 97 <= h <= 102):
                return False
        return True
    return bool(c == 34 or c == 92 or c == 47 or c == 98 or c == 102 or c == 110 or c == 114 or c == 116)


@jit
def _number(data: Any, pos: int, stop: int) -> tuple[int, int]:
    """Returns the end of the number and its kind. The end is -1 if the number is invalid or very long, or has leading
    zeros.
    """
    begin = pos
    if data[pos] == 45:
        pos += 1
    digits = pos
    while pos < stop and 48 <= data[pos] <= 57:
        pos += 1
    if pos == digits or (data[digits] == 48 and pos > digits + 1):
        return -1, INT
    kind = INT
    if pos < stop and data[pos] == 46:
        kind = FLOAT
        pos += 1
        digits = pos
        while pos < stop and 48 <= data[pos] <= 57:
            pos += 1
        if pos == digits:
            return -1, kind
    if pos < stop and (data[pos] == 101 or data[pos] == 69):
        kind = FLOAT
        pos += 1
        if pos < stop and (data[pos] == 43 or data[pos] == 45):
            pos += 1
        digits = pos
        while pos < stop and 48 <= data[pos] <= 57:
            pos += 1
        if pos == digits or pos - digits > 4:
            return -1, kind
    return (pos, kind) if pos - begin <= MAX_NUMBER_LENGTH else (-1, kind)


@jit
def _literal(data: Any, pos: int, stop: int) -> tuple[int, int]:
    c = data[pos]
    if c == 116 and pos + 4 <= stop and data[pos + 1] == 114 and data[pos + 2] == 117 and data[pos + 3] == 101:
        return pos + 4, TRUE
    if c == 110 and pos + 4 <= stop and data[pos + 1] == 117 and data[pos + 2] == 108 and data[pos + 3] == 108:
        return pos + 4, NULL
    if c == 102 and pos + 5 <= stop and data[pos + 1] == 97 and data[pos + 2] == 108 and data[pos + 3] == 115:
        return (pos + 5, FALSE) if data[pos + 4] == 101 else (-1, FALSE)
    return -1, NULL


@jit
def _not_number(data: Any, pos: int, stop: int) -> int:
    """Returns the end of the word NaN, Infinity or -Infinity, of which no other begins like them, or -1."""
    if data[pos] == 78:  # N
        return pos + 3 if pos + 3 <= stop and data[pos + 1] == 97 and data[pos + 2] == 78 else -1
    if data[pos] == 45:
        pos += 1
    return pos + 8 if pos + 8 <= stop and data[pos] == 73 and data[pos + 7] == 121 else -1  # I, y


@jit
def _row(  # noqa: C901, PLR0911, PLR0912, PLR0915 - one automaton; calls between its states would be slow
    data: Any, pos: int, stop: int, rewritten: bool, kinds: Any, starts: Any, ends: Any, nexts: Any, count: int,
    stack: Any,
) -> int:  # fmt: skip
    """Tokenizes one text. Returns the number of tokens including its own, or -1 if the row is unusual."""
    depth = 0
    in_object = False
    wants_key = False
    while True:
        pos = _space(data, pos, stop)
        if pos >= stop:
            return -1
        c = data[pos]
        if wants_key:
            if c != 34:
                return -1
            end, escaped = _string(data, pos + 1, stop)
            if end < 0 or (escaped and not rewritten):
                return -1
            kinds[count], starts[count], ends[count] = KEY, pos + 1, end
            count += 1
            pos = _space(data, end + 1, stop)
            if pos >= stop or data[pos] != 58:
                return -1
            pos += 1
            wants_key = False
            continue
        opened = False
        if c == 34:
            end, escaped = _string(data, pos + 1, stop)
            if end < 0:
                return -1
            kinds[count], starts[count], ends[count] = (ESCAPED if escaped else STRING), pos + 1, end
            pos = end + 1
        elif c == 123 or c == 91:
            if depth >= MAX_DEPTH:
                return -1
            kinds[count], starts[count] = (OBJECT if c == 123 else ARRAY), pos
            stack[depth] = count
            depth += 1
            in_object = c == 123
            pos = _space(data, pos + 1, stop)
            if pos >= stop:
                return -1
            opened = data[pos] != (125 if in_object else 93)
            wants_key = opened and in_object
        elif c == 45 or 48 <= c <= 57:
            end, kind = _number(data, pos, stop)
            if end < 0 and rewritten:
                end, kind = _not_number(data, pos, stop), FLOAT
            if end < 0:
                return -1
            kinds[count], starts[count], ends[count] = kind, pos, end
            pos = end
        else:
            end, kind = _literal(data, pos, stop)
            if end < 0 and rewritten:
                end, kind = _not_number(data, pos, stop), FLOAT
            if end < 0:
                return -1
            kinds[count], starts[count], ends[count] = kind, pos, end
            pos = end
        nexts[count] = count + 1
        count += 1
        if opened:
            continue
        while depth > 0:  # after a value: close the containers that end here, or continue with the next member
            pos = _space(data, pos, stop)
            if pos >= stop:
                return -1
            c = data[pos]
            pos += 1
            if c == 44:
                wants_key = in_object
                break
            if c != (125 if in_object else 93):
                return -1
            depth -= 1
            ends[stack[depth]] = pos
            nexts[stack[depth]] = count
            in_object = depth > 0 and kinds[stack[depth - 1]] == OBJECT
        if depth == 0:
            return count if _space(data, pos, stop) == stop else -1


@jit
def enclosed(data: Any, offsets: Any, valid: Any, prefix: Any, suffix: Any, begins: Any, stops: Any) -> bool:
    """Returns whether all texts begin with the prefix and end with the suffix. Fills `begins` and `stops` with the
    bounds of the text between them.
    """
    for row in range(len(valid)):
        begin, stop = offsets[row], offsets[row + 1]
        if valid[row]:
            if stop - begin < len(prefix) + len(suffix):
                return False
            differing = np.uint8(0)  # without an early exit the loop is vectorized
            for i in range(len(prefix)):
                differing |= data[begin + i] ^ prefix[i]
            begin += len(prefix)
            stop -= len(suffix)
            for i in range(len(suffix)):
                differing |= data[stop + i] ^ suffix[i]
            if differing:
                return False
        begins[row], stops[row] = begin, stop
    return True
