"""Numba kernels for columns of tape tokens: find members by name, measure and copy strings, parse numbers."""
# ruff: noqa: PLR0917 - compiled code: plain comparisons are faster, and keyword arguments are not possible

from __future__ import annotations

from typing import Any

import numpy as np

from spark_tasks.arrays.jit import kernel as jit
from spark_tasks.arrays.memory import copy_text
from spark_tasks.pipeline.converters.json_tape import ABSENT, ARRAY, ESCAPED, NULL, OBJECT, TRUE

FOUND, NEW_KEY = range(2)


@jit
def kinds_of(kinds: Any, tokens: Any) -> int:
    """Returns a bit mask of the kinds among the tokens; -1 counts as ABSENT."""
    mask = 0
    for i in range(len(tokens)):
        mask |= 1 << (ABSENT if tokens[i] < 0 else kinds[tokens[i]])
    return mask


@jit
def present(kinds: Any, tokens: Any, out: Any) -> None:
    """Sets out[i] to whether there is a value that is not null."""
    for i in range(len(tokens)):
        out[i] = tokens[i] >= 0 and kinds[tokens[i]] != NULL


@jit
def members(
    data: Any, kinds: Any, starts: Any, ends: Any, nexts: Any, tokens: Any, names: Any, name_ends: Any, known: int,
    row: int, out: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Fills out[name, row] with the value tokens of the objects among `tokens`, starting at `row`; -1 if there is no
    such member. If an object has a name twice, the last value counts, as in Java. `known`: the number of names.

    Stops at an unknown name and returns (state, row, key token).
    """
    while row < len(tokens):
        for k in range(known):
            out[k, row] = -1
        token = tokens[row]
        if token >= 0 and kinds[token] == OBJECT:
            stop = nexts[token]
            token += 1
            guess = 0
            while token < stop:
                k = _name(data, starts[token], ends[token], names, name_ends, known, guess)
                if k < 0:
                    return NEW_KEY, row, token
                out[k, row] = token + 1
                token = nexts[token + 1]
                guess = k + 1
        row += 1
    return FOUND, row, -1


@jit
def _name(data: Any, start: int, end: int, names: Any, name_ends: Any, known: int, guess: int) -> int:
    """Returns the index of a known name, or -1. `guess`: the index after that of the last member, which is usually
    right.
    """
    size = end - start
    for i in range(known):
        k = guess + i
        if k >= known:
            k -= known
        if name_ends[k + 1] - name_ends[k] == size and _compared(data, start, names, name_ends[k], size) == 0:
            return k
    return -1


@jit
def declared_members(
    data: Any, kinds: Any, starts: Any, ends: Any, nexts: Any, tokens: Any, names: Any, name_ends: Any, order: Any,
    after: Any, out: Any,
) -> None:  # fmt: skip
    """Fills out[order[k], row] with the value tokens of the objects among `tokens` that have name k, and leaves the
    rest. If an object has a name twice, the last value counts. The names are sorted by size and then by bytes.

    after[k]: the name that is expected after name k, or after[-1] at the start of an object. It becomes what follows
    in the objects: most have their members in the same order.
    """
    known = len(order)
    for row in range(len(tokens)):
        token = tokens[row]
        if token < 0 or kinds[token] != OBJECT:
            continue
        stop = nexts[token]
        token += 1
        last = known
        while token < stop:
            start, size = starts[token], ends[token] - starts[token]
            k = after[last]
            if name_ends[k + 1] - name_ends[k] != size or _compared(data, start, names, name_ends[k], size) != 0:
                k = _sorted_name(data, start, size, names, name_ends, known)
                if k >= 0:
                    after[last] = k
            if k >= 0:
                out[order[k], row] = token + 1
                last = k
            token = nexts[token + 1]


@jit
def _sorted_name(data: Any, start: int, size: int, names: Any, name_ends: Any, known: int) -> int:
    """Returns the index of a name among those that are sorted by size and then by bytes, or -1."""
    low, high = 0, known
    while low < high:
        k = (low + high) // 2
        order = size - (name_ends[k + 1] - name_ends[k])
        if order == 0:
            order = _compared(data, start, names, name_ends[k], size)
        if order == 0:
            return k
        if order < 0:
            high = k
        else:
            low = k + 1
    return -1


@jit
def _compared(data: Any, start: int, names: Any, at: int, size: int) -> int:
    """Returns -1 if the text is less than the name of the same size, 1 if it is greater, and 0 if they are equal."""
    for j in range(size):
        if data[start + j] != names[at + j]:
            return -1 if data[start + j] < names[at + j] else 1
    return 0


@jit
def item_counts(kinds: Any, nexts: Any, tokens: Any, offsets: Any) -> int:
    """Fills the offsets of the items of arrays, and of the values of objects, among `tokens`. Returns their number."""
    total = 0
    offsets[0] = 0
    for i in range(len(tokens)):
        token = tokens[i]
        if token >= 0 and (kinds[token] == ARRAY or kinds[token] == OBJECT):
            key = 1 if kinds[token] == OBJECT else 0
            stop = nexts[token]
            token += 1
            while token < stop:
                total += 1
                token = nexts[token + key]
        offsets[i + 1] = total
    return total


@jit
def items(kinds: Any, nexts: Any, tokens: Any, out: Any) -> None:
    """Fills `out` with the tokens of the items that `item_counts` counts."""
    n = 0
    for i in range(len(tokens)):
        token = tokens[i]
        if token >= 0 and (kinds[token] == ARRAY or kinds[token] == OBJECT):
            key = 1 if kinds[token] == OBJECT else 0
            stop = nexts[token]
            token += 1
            while token < stop:
                out[n] = token + key
                n += 1
                token = nexts[token + key]


@jit
def spans(starts: Any, ends: Any, tokens: Any, quotes: bool, kinds: Any, offsets: Any) -> int:
    """Fills the offsets for a copy of the tokens' text. Returns its size in bytes. `quotes`: strings include them."""
    total = 0
    offsets[0] = 0
    for i in range(len(tokens)):
        token = tokens[i]
        if token >= 0:
            total += ends[token] - starts[token]
            if quotes and (kinds[token] == ESCAPED - 1 or kinds[token] == ESCAPED):
                total += 2
        offsets[i + 1] = total
    return total


@jit
def copy_texts(data: Any, starts: Any, ends: Any, tokens: Any, offsets: Any, out: Any) -> None:
    """Copies each token's text into its span. A span that is two bytes longer than the token includes the quotes.
    `out` has SLACK bytes more than the spans, which follow each other.
    """
    for i in range(len(tokens)):
        token = tokens[i]
        at, size = offsets[i], offsets[i + 1] - offsets[i]
        if token >= 0:
            start = starts[token]
            if size > ends[token] - start:
                start -= 1
            copy_text(out, at, data, start, size)


@jit
def integers(data: Any, kinds: Any, starts: Any, ends: Any, tokens: Any, out: Any) -> bool:
    """Fills `out` with INT tokens as 64-bit numbers. Larger ones keep their low 64 bits, as in Java's
    BigInteger.longValue. Returns False if some may not fit.
    """
    fits = True
    for i in range(len(tokens)):
        token = tokens[i]
        value = np.uint64(0)
        if token >= 0 and kinds[token] != NULL:
            at, end = starts[token], ends[token]
            negative = data[at] == 45
            if negative:
                at += 1
            if end - at >= 19:
                fits = False  # 19 digits may fit, but callers then use the slow path, too
            while at < end:
                value = value * np.uint64(10) + np.uint64(data[at] - 48)
                at += 1
            if negative:
                value = np.uint64(0) - value
        out[i] = np.int64(value)
    return fits


@jit
def booleans(kinds: Any, tokens: Any, out: Any) -> None:
    """Sets out[i] to whether the token is TRUE."""
    for i in range(len(tokens)):
        out[i] = tokens[i] >= 0 and kinds[tokens[i]] == TRUE


@jit
def first_differing(data: Any, starts: Any, ends: Any, tokens: Any, begin: int) -> int:
    """Returns the first position after `begin` whose token has another text, or the number of tokens if none has."""
    first = tokens[begin]
    start, size = starts[first], ends[first] - starts[first]
    for i in range(begin + 1, len(tokens)):
        token = tokens[i]
        if token < 0:
            continue
        if ends[token] - starts[token] != size:
            return i
        at = starts[token]
        if at == start:
            continue
        for j in range(size):
            if data[at + j] != data[start + j]:
                return i
    return len(tokens)




@jit
def entry_counts(kinds: Any, nexts: Any, tokens: Any, offsets: Any) -> int:
    """Fills the offsets of the members of the objects among `tokens`. Returns the number of all members."""
    total = 0
    offsets[0] = 0
    for i in range(len(tokens)):
        token = tokens[i]
        if token >= 0 and kinds[token] == OBJECT:
            stop = nexts[token]
            token += 1
            while token < stop:
                total += 1
                token = nexts[token + 1]
        offsets[i + 1] = total
    return total


@jit
def entries(kinds: Any, nexts: Any, tokens: Any, keys: Any, values: Any) -> None:
    """Fills `keys` and `values` with the tokens of all members of the objects among `tokens`."""
    n = 0
    for i in range(len(tokens)):
        token = tokens[i]
        if token >= 0 and kinds[token] == OBJECT:
            stop = nexts[token]
            token += 1
            while token < stop:
                keys[n], values[n] = token, token + 1
                n += 1
                token = nexts[token + 1]
