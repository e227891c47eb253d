"""Guesses which record caused an error: messages of database drivers and of Python usually quote the bad value."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import frozen, texts
from spark_tasks.arrays.jit import kernel
from spark_tasks.errors import message_of

_Rows = np.ndarray[Any, np.dtype[np.bool_]]
# 'x', "x" or (x, y), as in: invalid literal for int() with base 10: 'x'; Key (id)=(7) already exists
_QUOTED: Final = re.compile(r"""'([^']+)'|"([^"]+)"|\(([^()]+)\)""")
_KEY: Final = re.compile(r"\(([^()]+)\)=\(([^()]+)\)")  # of PostgreSQL: Key (region, id)=(eu, 7) already exists
_BEGUN: Final = re.compile(r"(?:\w|\d\.)\Z")  # before a part of a word or number
_GOES_ON: Final = re.compile(r"\w|\.\d")  # after such a part
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SHORT_NUMBER: Final = re.compile(r"-?\d{1,2}")
_INTEGER: Final = re.compile(r"-?\d{1,18}")
_MAX_QUOTES: Final = 8
_MAX_TEXT: Final = 2000  # characters of a message that are searched
# A bit for the class of each byte: digit, letter, space, sign that occurs in numbers, other ASCII, not ASCII.
_CHAR_CLASSES: Final = np.array([
    1 if b"0" <= byte <= b"9" else 2 if byte.isalpha() else 4 if byte.isspace() else 8 if byte in b"+-.," else
    16 if byte < b"\x80" else 32 for byte in (bytes([n]) for n in range(256))
], np.uint8)  # fmt: skip


class _Guess(NamedTuple):
    """The row that probably caused an error, whose message quotes `word`: the value of the row's scalar column number
    `place`. The columns are numbered in the order of _columns.
    """

    row: int
    word: str
    place: int


class Proof(Enum):
    """How well a message shows that a record caused the error."""

    NONE = auto()
    WEAK = auto()  # it has a number of one or two digits, perhaps by chance: `gave up after 7 ms`
    STRONG = auto()


class RowGuesser:
    """Guesses bad rows of the batches of one split. Rows are counted from the start of the first batch."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches
        self._ends = [0, *itertools.accumulate(map(len, batches))]
        self._columns: dict[int, list[_Column]] = {}  # by the number of the batch
        self._last: _Guess | None = None
        # The rows that errors have quoted, by column and by the character classes of the quoted text.
        self._quoted_rows: dict[tuple[int, int], set[int]] = {}
        self._common: set[tuple[int, int]] = set()  # columns and classes that rows have which no error has quoted

    def rows(self, begin: int, end: int) -> list[pa.RecordBatch]:
        """Returns the rows from `begin` to `end` (exclusive), as slices of the batches."""
        return [self._batches[at].slice(first, count) for at, first, count in self._stretches(begin, end)]

    def _stretches(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yields the number of each batch that has some of the rows, the first of them there, and how many it has."""
        at = bisect.bisect_right(self._ends, begin) - 1
        while begin < end:
            last = min(self._ends[at + 1], end)
            yield at, begin - self._ends[at], last - begin
            begin, at = last, at + 1

    def _columns_of(self, batch: int) -> list[_Column]:
        """Returns the scalar columns of a batch. A search looks at them thousands of times."""
        if batch not in self._columns:
            self._columns[batch] = [
                (place, *column) for place, column in enumerate(_columns(self._batches[batch]))]
        return self._columns[batch]

    def guess(self, error: Exception, begin: int, end: int) -> list[int]:
        """Returns the first row from `begin` to `end` (exclusive) whose key or value has a text or an integer that the
        error's message quotes, or an empty list if there is none. Another row may have caused the error.

        Later rows of all batches follow if they will probably be refused too. If the previous error quoted the same
        value of the same column, these are the rows with that value. Otherwise, these are the rows whose text in that
        column has the same classes of characters, if so far only quoted rows had those: for example, letters where all
        others have digits.
        """
        message = message_of(error)[:_MAX_TEXT]
        words = _quoted(message)
        found = self._first(words, _named(message), begin, end) if words else None
        if found is None:
            return []
        before, self._last = self._last, found
        if before is not None and before[1:] == found[1:]:
            later = self._rows_from(found.place, found.row + 1, partial(_equal_rows, word=found.word))
            return [found.row, *later.tolist()]
        return self._alike(found) or [found.row]

    def proof(self, before: str, message: str, row: int) -> Proof:
        """Returns how well a message shows that its row caused the error: it has the row's offset or a value of its key
        or value, with or without quotation marks, and the message before, of another row, does not have it.
        """
        [one] = self.rows(row, row + 1)
        values = (one.column("offset")[0].as_py(), *(column[0].as_py() for _, column in _columns(one)))
        words = (str(value) for value in values if value is not None)
        found = [word for word in words if _has_word(message, word) and not _has_word(before, word)]
        if not found:
            return Proof.NONE
        return Proof.WEAK if all(map(_SHORT_NUMBER.fullmatch, found)) else Proof.STRONG

    def _alike(self, found: _Guess) -> list[int]:
        """Returns the row and the later ones whose text has the same classes of characters. Returns an empty list if
        this is the first such row that an error quotes, or if an earlier row that no error quoted has them too.
        """
        key = (found.place, _classes(found.word))
        quoted = self._quoted_rows.setdefault(key, set())
        quoted.add(found.row)
        if len(quoted) < 2 or key in self._common:
            return []
        alike = self._rows_from(found.place, 0, partial(_similar_rows, word=found.word))
        before = int(np.searchsorted(alike, found.row, "right"))
        if 0 < before <= len(quoted) and quoted.issuperset(alike[:before].tolist()):
            rows: list[int] = alike[before - 1 :].tolist()
            return rows
        self._common.add(key)
        return []

    def _first(self, words: Sequence[str], named: Mapping[str, str], begin: int, end: int) -> _Guess | None:
        usual = None if self._last is None else self._last.place

        def quoted(columns: list[_Column]) -> _Guess | None:
            # The message often names the column as well.
            columns.sort(key=lambda one: (one[1] not in words, one[0] != usual))
            each = (_row_of([column], {column[1]: word}) for word in words for column in columns)
            return next(filter(None, each), None)

        for search in (lambda columns: _row_of(columns, named), quoted) if named else (quoted,):
            for at, first, count in self._stretches(begin, end):
                columns = self._columns_of(at)
                found = search([(place, name, column.slice(first, count)) for place, name, column in columns])
                if found is not None:
                    return found._replace(row=self._ends[at] + first + found.row)
        return None

    def _rows_from(
        self, place: int, begin: int, matches: Callable[[pa.Array], _Rows | None]
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        rows = [np.empty(0, np.int64)]
        for at, first, count in self._stretches(begin, self._ends[-1]):
            columns = self._columns_of(at)
            matching = matches(columns[place][2].slice(first, count)) if place < len(columns) else None
            if matching is not None:
                rows.append(self._ends[at] + first + np.flatnonzero(matching))
        return np.concatenate(rows)


def _has_word(message: str, word: str) -> bool:
    """Returns whether the message has a number or a text that is not part of a longer one. A single character counts
    only if it is a digit.
    """
    if not (len(word) > 1 or word.isdigit()):
        return False
    at = message.find(word)  # no pattern for each word: to compile it would take longer than all else
    while at >= 0 and (_GOES_ON.match(message, at + len(word)) or _BEGUN.search(message[max(at - 2, 0) : at])):
        at = message.find(word, at + 1)
    return at >= 0


def _quoted(message: str) -> list[str]:
    quotes: list[str] = []
    for single, double, listed in _QUOTED.findall(message):
        quotes += [single or double] if single or double else listed.split(", ")
    valid = (word for word in quotes if not _SURROGATE.search(word))  # Arrow's texts have no surrogates
    return list(dict.fromkeys(valid))[:_MAX_QUOTES]


def _named(message: str) -> dict[str, str]:
    """Returns the values that the message quotes together with the names of their columns."""
    found = _KEY.search(message)
    if found is None or _SURROGATE.search(found[2]):
        return {}
    names, values = (part.split(", ") for part in found.groups())
    return dict(zip(names, values, strict=True)) if len(names) == len(values) else {}


_Column = tuple[int, str, pa.Array]
"""Place, name and values."""


def _row_of(columns: Sequence[_Column], named: Mapping[str, str]) -> _Guess | None:
    """Returns the first row that has all these values of the columns of that name, as far as these can be compared."""
    rows, last = None, None
    for place, name, column in columns:
        if name in named and (equal_rows := _equal_rows(column, named[name])) is not None:
            rows, last = equal_rows if rows is None else rows & equal_rows, (named[name], place)
    return None if rows is None or last is None or not rows.any() else _Guess(int(rows.argmax()), *last)


def _columns(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    for name in ("value", "key"):
        if name in batch.schema.names:
            yield from _scalars(name, batch.column(name))


def _equal_rows(column: pa.Array, word: str) -> _Rows | None:
    """Returns for each row whether it has this value, or None if no row has it."""
    if pa.types.is_string(column.type):
        same = pc.equal(column, pa.scalar(word, pa.string()))
    elif pa.types.is_integer(column.type) and _INTEGER.fullmatch(word):
        same = pc.equal(column, pa.scalar(int(word), pa.int64()))
    else:
        return None
    if not same.true_count:
        return None
    equal: _Rows = (same.fill_null(False) if same.null_count else same).to_numpy(zero_copy_only=False)
    return equal


def _similar_rows(column: pa.Array, word: str) -> _Rows | None:
    """Returns for each row whether its text has the same classes of characters. None if the column has no texts."""
    if not pa.types.is_string(column.type):
        return None
    data, offsets, valid = texts(column)
    similar = np.empty(len(column), np.bool_)
    _compare_classes(frozen(data), frozen(offsets), _CHAR_CLASSES, _classes(word), similar)
    return similar if valid is None else similar & valid


@kernel
def _compare_classes(data: Any, offsets: Any, classes: Any, wanted: int, out: Any) -> None:
    for row in range(len(out)):
        mask = 0
        for at in range(offsets[row], offsets[row + 1]):
            mask |= classes[data[at]]
        out[row] = mask == wanted


def _classes(word: str) -> int:
    return int(np.bitwise_or.reduce(_CHAR_CLASSES[np.frombuffer(word.encode(), np.uint8)]))


def _scalars(name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            yield from _scalars(array.type.field(i).name, array.field(i))
    else:
        yield name, array
