"""Guesses which record an error is about: messages of drivers and of Python mostly quote the wrong value."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import frozen, texts
from spark_tasks.arrays.jit import kernel

_Rows = np.ndarray[Any, np.dtype[np.bool_]]
# 'x', "x", (x, y): invalid literal for int() with base 10: 'x'; Key (id)=(7) already exists
_QUOTED: Final = re.compile(r"""'([^']+)'|"([^"]+)"|\(([^()]+)\)""")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INTEGER: Final = re.compile(r"-?\d{1,18}")
_MOST_WORDS: Final = 8
_MOST_TEXT: Final = 2000  # characters of a message that are searched
# For each byte a bit: a digit, a letter, a space, a sign that numbers have, another sign, a byte beyond ASCII.
_KINDS: Final = np.array([
    1 if b"0" <= byte <= b"9" else 2 if byte.isalpha() else 4 if byte.isspace() else 8 if byte in b"+-.," else
    16 if byte < b"\x80" else 32 for byte in (bytes([n]) for n in range(256))
], np.uint8)  # fmt: skip


class _Suspect(NamedTuple):
    """The row that an error seems to mean, for the word that it quotes, which is in the column at this place."""

    row: int
    word: str
    place: int


class Pointer:
    """Of the batches of one split."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches
        self._ends = [0, *itertools.accumulate(map(len, batches))]
        self._last: _Suspect | None = None
        self._meant: dict[tuple[int, int], set[int]] = {}  # by column and look: the rows that errors seem to mean
        self._common: set[tuple[int, int]] = set()  # looks that other rows have too

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
        message quotes; none where there is none. It may be another one than the error means.

        Where the error before quoted the same of the same column, all rows behind it that have it follow: they will be
        refused as well. So do those with a text that looks like the quoted one, if so far only what errors have quoted
        looks like that: letters where all others are digits, for example.
        """
        words = _quoted(str(error)[:_MOST_TEXT])
        found = self._first(words, begin, end) if words else None
        if found is None:
            return []
        before, self._last = self._last, found
        if before is not None and before[1:] == found[1:]:
            return [found.row, *self._all(found.place, found.row + 1, partial(_having, word=found.word))]
        return self._alike(found) or [found.row]

    def _alike(self, found: _Suspect) -> list[int]:
        """The row and those behind it that look like it; none where others before it do, or none that errors mean."""
        look = (found.place, _look(found.word))
        meant = self._meant.setdefault(look, set())
        meant.add(found.row)
        if len(meant) < 2 or look in self._common:
            return []
        alike = self._all(found.place, 0, partial(_looking, word=found.word))
        before = bisect.bisect_right(alike, found.row)
        if before and meant.issuperset(alike[:before]):
            return alike[before - 1 :]
        self._common.add(look)
        return []

    def _first(self, words: Sequence[str], begin: int, end: int) -> _Suspect | None:
        usual = None if self._last is None else self._last.place
        for batch in self.stretch(begin, end):
            columns = list(enumerate(_columns(batch)))
            columns.sort(key=lambda one: one[0] != usual)
            for word in words:
                for place, column in columns:
                    there = _having(column, word)
                    if there is not None:
                        return _Suspect(begin + int(there.argmax()), word, place)
            begin += len(batch)
        return None

    def _all(self, place: int, begin: int, suspected: Callable[[pa.Array], _Rows | None]) -> list[int]:
        found: list[int] = []
        for batch in self.stretch(begin, self._ends[-1]):
            columns = list(_columns(batch))
            there = suspected(columns[place]) if place < len(columns) else None
            if there is not None:
                found += (begin + np.flatnonzero(there)).tolist()
            begin += len(batch)
        return found


def _quoted(message: str) -> list[str]:
    found: list[str] = []
    for single, double, listed in _QUOTED.findall(message):
        found += [single or double] if single or double else listed.split(", ")
    texts_only = (word for word in found if not _SURROGATE.search(word))  # no column has others
    return list(dict.fromkeys(texts_only))[:_MOST_WORDS]


def _columns(batch: pa.RecordBatch) -> Iterator[pa.Array]:
    for name in ("value", "key"):
        if name in batch.schema.names:
            yield from _scalars(batch.column(name))


def _having(column: pa.Array, word: str) -> _Rows | None:
    """Which rows have it; None where none has."""
    if pa.types.is_string(column.type):
        same = pc.equal(column, pa.scalar(word, pa.string()))
    elif pa.types.is_integer(column.type) and _INTEGER.fullmatch(word):
        same = pc.equal(column, pa.scalar(int(word), pa.int64()))
    else:
        return None
    if not same.true_count:
        return None
    found: _Rows = (same.fill_null(False) if same.null_count else same).to_numpy(zero_copy_only=False)
    return found


def _looking(column: pa.Array, word: str) -> _Rows | None:
    """Which rows have a text of the same kinds of characters; None for columns of other types."""
    if not pa.types.is_string(column.type):
        return None
    data, offsets, valid = texts(column)
    found = np.empty(len(column), np.bool_)
    _compare_kinds(frozen(data), frozen(offsets), _KINDS, _look(word), found)
    return found if valid is None else found & valid


@kernel
def _compare_kinds(data: Any, offsets: Any, kinds: Any, wanted: int, out: Any) -> None:
    for row in range(len(out)):
        mask = 0
        for at in range(offsets[row], offsets[row + 1]):
            mask |= kinds[data[at]]
        out[row] = mask == wanted


def _look(word: str) -> int:
    return int(np.bitwise_or.reduce(_KINDS[np.frombuffer(word.encode(), np.uint8)]))


def _scalars(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            yield from _scalars(array.field(i))
    else:
        yield array
