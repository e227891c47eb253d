"""Parses columns of texts by a pattern of Java's SimpleDateFormat, one part of the pattern for all rows at a time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import texts
from spark_tasks.pipeline.transforms.rows import NotInColumnsError
from spark_tasks.pipeline.transforms.simple_date_format import DAYS, HALVES, MONTHS, Piece, is_number, pieces

_DAY: Final = 86_400_000
_NUMBERS: Final = set("yMLdHkKhmsS")
_ALIASES: Final = {"L": "M", "k": "H", "K": "h"}
_UNITS: Final = {"m": 60_000, "s": 1000, "S": 1}
_MAX_DIGITS: Final = 9  # digits; a longer number may exceed an int

Bytes = np.ndarray[Any, Any]
Numbers = np.ndarray[Any, Any]


def parse_column(array: pa.Array, pattern: str) -> pa.Array:
    """Returns milliseconds since the epoch. Raises NotInColumnsError for patterns with weeks, eras, names of time zones
    or two-digit years, and pa.ArrowInvalid for a text in an unusual form, which Java may or may not accept.
    """
    found = _supported_pieces(pattern)
    text = texts(array.drop_null() if array.null_count else array)
    if not len(text.offsets) - 1:
        return pa.nulls(len(array), pa.int64())
    found_millis = _Rows(text.data, text.offsets.astype(np.int64)).millis(found)
    if not array.null_count:
        return pa.array(found_millis)
    there = array.is_valid().to_numpy(zero_copy_only=False)
    millis = np.zeros(len(array), np.int64)
    millis[there] = found_millis
    return pa.array(millis, mask=~there)


def _supported_pieces(pattern: str) -> tuple[Piece, ...]:
    found = pieces(pattern)
    letters = [_ALIASES.get(letter, letter) for letter, count in found if count]
    if not letters or len(set(letters)) < len(letters) or {"H", "h"} <= set(letters):
        raise NotInColumnsError
    for letter, count in found:
        if "\0" in letter or (count and (letter not in _NUMBERS | set("EaZX") or (letter == "y" and count < 3))):
            raise NotInColumnsError
    return found


class _Rows:
    """The texts and the position up to which each has been read. While this position is the same for all (`_column`),
    `_matrix` has the characters by position, for all rows together. After that, each text has its own position in
    `_data`. Each text ends with a 0, which matches nothing.
    """

    def __init__(self, data: Bytes, offsets: Numbers) -> None:
        self._rows = len(offsets) - 1
        data, widths = data[offsets[0] : offsets[-1]], np.diff(offsets)
        self._begins = offsets[:-1] - offsets[0] + np.arange(self._rows)
        self._data = np.zeros(len(data) + self._rows, np.uint8)
        if (widths == widths[0]).all():
            texts_of = self._data.reshape(self._rows, -1)
            texts_of[:, :-1] = data.reshape(self._rows, -1)
            self._matrix = np.ascontiguousarray(texts_of.T)
            self._column: int | None = 0
        else:
            inside = np.ones(len(self._data), np.bool_)
            inside[self._begins + widths] = False
            self._data[inside] = data
            self._column = None
        self._at = self._begins

    def _move(self, further: Any) -> None:
        """Advances by a number of characters. `further`: for all rows, or one number for each row."""
        if self._column is not None:
            least, most = (further, further) if isinstance(further, int) else (int(further.min()), int(further.max()))
            if least == most:
                self._column += least
                return
            self._at, self._column = self._begins + self._column, None
        self._at = self._at + further

    def millis(self, found: tuple[Piece, ...]) -> Numbers:
        fields: dict[str, Any] = {}
        for index, (piece, count) in enumerate(found):
            if not count:
                self._literal(piece.encode())
                continue
            numeric = is_number((piece, count))
            exactly = numeric and index + 1 < len(found) and found[index + 1][1] > 0 and is_number(found[index + 1])
            fields[_ALIASES.get(piece, piece)] = self._field(piece, count, exactly=exactly)
        return _moments(fields, self._rows)

    def _letters(self, ahead: int = 0) -> Bytes:
        """Returns the character of each row, `ahead` characters after the current one; 0 beyond its end."""
        found: Bytes
        if self._column is None:
            found = self._data[np.minimum(self._at + ahead, len(self._data) - 1)] if ahead else self._data[self._at]
        else:
            found = self._matrix[min(self._column + ahead, len(self._matrix) - 1)]
        return found

    def _literal(self, text: bytes) -> None:
        for byte in text:
            if (self._letters() != byte).any():
                raise pa.ArrowInvalid("a text does not match the pattern")
            self._move(1)

    def _field(self, letter: str, count: int, *, exactly: bool) -> Any:
        if letter in "ZX":
            return self._zone()
        if letter == "a":
            return self._word(HALVES, 2)
        if letter == "E":
            return self._word(DAYS, 3)
        if letter in "ML" and count > 2:
            return self._word(MONTHS, 3) + 1
        number = self._number(count if exactly else _MAX_DIGITS, exactly=exactly)
        return np.where(number == {"k": 24, "h": 12}[letter], 0, number) if letter in "kh" else number

    def _number(self, most: int, *, exactly: bool) -> Numbers:
        if most > _MAX_DIGITS:
            raise NotInColumnsError
        number = np.zeros(self._rows, np.int32)
        going = np.ones(self._rows, np.bool_)
        for place in range(most + (not exactly)):
            digit = self._letters() - np.uint8(48)
            more = going & (digit < 10)
            if not more.all() and (exactly or not place):
                raise pa.ArrowInvalid("a text does not match the pattern")
            if not more.any():
                break
            if place == most:
                raise pa.ArrowInvalid("a number is very long")
            number = number * 10 + digit if more.all() else np.where(more, number * 10 + digit, number)
            self._move(more.astype(np.int8))
            going = more
        return number

    def _word(self, words: tuple[str, ...], short: int) -> Numbers:
        """Reads a word, in full or abbreviated, in upper or lower case. Returns its index in `words`."""
        found = np.full(self._rows, -1, np.int64)
        longer = np.zeros(self._rows, np.int64)
        heads = [self._letters(ahead) | 32 for ahead in range(short)]
        for index, word in enumerate(words):
            lower = word.lower().encode()
            mine = np.logical_and.reduce([heads[place] == lower[place] for place in range(short)])
            found[mine] = index
            rest = mine.copy()
            for place in range(short, len(lower)):
                if not rest.any():
                    break
                rest &= (self._letters(place) | 32) == lower[place]
            longer[mine] = short
            longer[rest] = len(lower)
        if (found < 0).any():
            raise pa.ArrowInvalid("a name of a month, day or half of the day is unknown")
        self._move(longer)
        return found

    def _zone(self) -> Numbers:
        """Reads a time zone: Z, +hh, +hhmm or +hh:mm. Returns its offset east of UTC in milliseconds."""
        first = self._letters()
        away, east = first != ord("Z"), first == ord("+")
        if not (~away | east | (first == ord("-"))).all() or np.isin(self._letters(1)[~away], [43, 45]).any():
            raise pa.ArrowInvalid("a time zone is invalid")
        self._move(1)
        hours = self._pair(away)
        colon = away & (self._letters() == ord(":"))
        self._move(colon.astype(np.int8))
        with_minutes = away & (self._letters() - np.uint8(48) < 10)
        if (colon & ~with_minutes).any():
            raise pa.ArrowInvalid("a time zone is incomplete")
        minutes = self._pair(with_minutes)
        found: Numbers = np.where(east, 1, -1) * (hours * 60 + minutes) * 60_000
        return found

    def _pair(self, there: np.ndarray[Any, Any]) -> Numbers:
        """Reads two digits in the rows that must have them. Returns 0 for all other rows."""
        number = np.zeros(self._rows, np.int64)
        for _ in range(2):
            digit = self._letters() - np.uint8(48)
            if (there & (digit > 9)).any():
                raise pa.ArrowInvalid("a time zone is invalid")
            number = np.where(there, number * 10 + digit, number)
            self._move(there.astype(np.int8))
        return number


def _moments(read: dict[str, Any], rows: int) -> Numbers:
    fields = {letter: numbers.astype(np.int64) for letter, numbers in read.items()}
    year, month = fields.get("y", 1970), fields.get("M", 1)
    if np.any(np.less(year, 1583)) or np.any(np.greater(year, 9999)) or np.any(np.less(month, 1)) or np.any(
        np.greater(month, 12)
    ):
        raise pa.ArrowInvalid("a date does not exist in the Gregorian calendar, or is before it")
    months = np.broadcast_to((np.asarray(year) - 1970) * 12 + np.asarray(month) - 1, rows)
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + fields.get("d", 1) - 1
    hours = fields["H"] if "H" in fields else fields.get("h", 0) + 12 * fields.get("a", 0)
    found: Numbers = days * _DAY + hours * 3_600_000
    for letter, size in _UNITS.items():
        found = found + fields.get(letter, 0) * size
    for letter in "ZX":
        found = found - fields.get(letter, 0)
    return found
