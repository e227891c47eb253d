"""Guesses which record an error is about: messages of drivers and of Python mostly quote the wrong value."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# 'x', "x", (x, y): invalid literal for int() with base 10: 'x'; Key (id)=(7) already exists
_QUOTED: Final = re.compile(r"""'([^']+)'|"([^"]+)"|\(([^()]+)\)""")
_INTEGER: Final = re.compile(r"-?\d{1,18}")
_MOST_WORDS: Final = 8
_MOST_TEXT: Final = 2000  # characters of a message that are searched


class Pointer:
    """Of the batches of one split."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches
        self._ends = [0, *itertools.accumulate(map(len, batches))]
        self._last: tuple[str, int] | None = None

    def stretch(self, begin: int, end: int) -> list[pa.RecordBatch]:
        """The rows from begin to end of all batches together."""
        found, at = [], bisect.bisect_right(self._ends, begin) - 1
        while begin < end:
            last = min(self._ends[at + 1], end)
            found.append(self._batches[at].slice(begin - self._ends[at], last - begin))
            begin, at = last, at + 1
        return found

    def rows(self, error: Exception, begin: int, end: int) -> list[int]:
        """The first row from `begin` on, before `end`, in whose key or value a text or an integer is what the error's
        message quotes; none where there is none. It may be another one than the error means. Where the error before
        quoted the same, of the same column, all rows behind it that have it follow: they will be refused as well.
        """
        words = _quoted(str(error)[:_MOST_TEXT])
        found = self._first(words, begin, end) if words else None
        if found is None:
            return []
        row, word, place = found
        again, self._last = self._last == (word, place), (word, place)
        return [row, *self._all(word, place, row + 1)] if again else [row]

    def _first(self, words: Sequence[str], begin: int, end: int) -> tuple[int, str, int] | None:
        usual = None if self._last is None else self._last[1]
        for batch in self.stretch(begin, end):
            columns = list(enumerate(_columns(batch)))
            columns.sort(key=lambda one: one[0] != usual)
            for word in words:
                for place, column in columns:
                    there = _having(column, word)
                    if there is not None:
                        return begin + int(there.argmax()), word, place
            begin += len(batch)
        return None

    def _all(self, word: str, place: int, begin: int) -> Iterator[int]:
        for batch in self.stretch(begin, self._ends[-1]):
            columns = list(_columns(batch))
            there = _having(columns[place], word) if place < len(columns) else None
            if there is not None:
                yield from (begin + np.flatnonzero(there)).tolist()
            begin += len(batch)


def _quoted(message: str) -> list[str]:
    found: list[str] = []
    for single, double, listed in _QUOTED.findall(message):
        found += [single or double] if single or double else listed.split(", ")
    return list(dict.fromkeys(found))[:_MOST_WORDS]


def _columns(batch: pa.RecordBatch) -> Iterator[pa.Array]:
    for name in ("value", "key"):
        if name in batch.schema.names:
            yield from _scalars(batch.column(name))


def _having(column: pa.Array, word: str) -> np.ndarray[Any, Any] | None:
    """Which rows have it; None where none has."""
    if pa.types.is_string(column.type):
        same = pc.equal(column, pa.scalar(word, pa.string()))
    elif pa.types.is_integer(column.type) and _INTEGER.fullmatch(word):
        same = pc.equal(column, pa.scalar(int(word), pa.int64()))
    else:
        return None
    if not same.true_count:
        return None
    found: np.ndarray[Any, Any] = (same.fill_null(False) if same.null_count else same).to_numpy(zero_copy_only=False)
    return found


def _scalars(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            yield from _scalars(array.field(i))
    else:
        yield array
