"""Parses columns of texts in a pattern of Java's SimpleDateFormat: a kernel walks through each text step by step."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import all_valid, frozen, number_array, texts
from spark_tasks.arrays.jit import kernel
from spark_tasks.java.simple_date_format import DAYS, HALVES, MONTHS, Piece, is_number, pieces
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError

_SAME: Final = {"L": "M", "k": "H", "K": "h"}
_LONGEST: Final = 9  # digits; a longer number may exceed an int
_WORDS: Final = (*MONTHS, *DAYS, *HALVES)
_NAMES: Final = np.zeros((len(_WORDS), 10), np.uint8)
for _row, _word in enumerate(_WORDS):
    _NAMES[_row, : len(_word)] = np.frombuffer(_word.lower().encode(), np.uint8)

_LITERAL, _NUMBER, _EXACTLY, _NAME, _ZONE = range(5)  # what is done at a step
_YEAR, _MONTH, _DATE, _HOUR, _HALF_HOUR, _HALF, _MINUTE, _SECOND, _MILLI, _OFFSET, _UNUSED = range(11)
_FIELDS: Final = {"y": _YEAR, "M": _MONTH, "d": _DATE, "H": _HOUR, "h": _HALF_HOUR, "m": _MINUTE, "s": _SECOND,
                  "S": _MILLI, "a": _HALF, "E": _UNUSED, "Z": _OFFSET, "X": _OFFSET}  # fmt: skip
_FIRST_YEAR, _LAST_YEAR = 1583, 9999  # of the Gregorian calendar, and of four digits
_EPOCH = 719_468  # days from March of the year 0 to 1970


def parse_column(array: pa.Array, pattern: str) -> pa.Array:
    """Returns milliseconds since the epoch. Raises NotInColumnsError for patterns with weeks, eras, names of time zones
    or two-digit years, and pa.ArrowInvalid for a text in an unusual form, which Java may or may not accept.
    """
    steps = _steps(pattern)
    text = texts(array)
    millis = np.zeros(len(array), np.int64)
    valid = all_valid(len(array)) if text.valid is None else text.valid
    fields = np.empty(_UNUSED + 1, np.int64)
    if _parse(frozen(text.data), frozen(text.offsets), valid, steps, _NAMES, fields, millis) >= 0:
        raise pa.ArrowInvalid("a text does not match the pattern, or has an unsupported form")
    return number_array(millis, pa.int64(), text.valid)


@lru_cache(maxsize=200)
def _steps(pattern: str) -> np.ndarray[Any, Any]:
    """Returns a row for each step of the pattern: its kind, followed by

    - for a literal: its byte;
    - for a number: its field, its digits, and what counts as 0;
    - for a name: its field, the first one of _WORDS, how many there are, and the letters of a short one;
    - for a zone: its field, how it is written (1: +hh, 2: +hhmm, 3: +hh:mm), and whether it may be Z.
    """
    parsed = pieces(pattern)
    _check_known(parsed)
    steps: list[tuple[int, ...]] = []
    for (piece, count), following in zip(parsed, [*parsed[1:], ("", 0)], strict=True):
        if not count:
            steps += [(_LITERAL, byte, 0, 0, 0) for byte in piece.encode()]
            continue
        letter = _SAME.get(piece, piece)
        field = _FIELDS[letter]
        if letter in "ZX":
            steps.append((_ZONE, field, count if letter == "X" else 2, letter == "X", 0))
        elif letter == "a":
            steps.append((_NAME, field, len(MONTHS) + len(DAYS), len(HALVES), 2))
        elif letter == "E":
            steps.append((_NAME, field, len(MONTHS), len(DAYS), 3))
        elif letter == "M" and count > 2:
            steps.append((_NAME, field, 0, len(MONTHS), 3))
        else:
            exactly = following[1] > 0 and is_number(following)
            if exactly and count > _LONGEST:
                raise NotInColumnsError
            zero = {"k": 24, "h": 12}.get(piece, -1)
            steps.append((_EXACTLY if exactly else _NUMBER, field, count if exactly else _LONGEST, zero, 0))
    return np.array(steps, np.int64)


def _check_known(found: tuple[Piece, ...]) -> None:
    letters = [_SAME.get(letter, letter) for letter, count in found if count]
    if not letters or len(set(letters)) < len(letters) or {"H", "h"} <= set(letters) or {"H", "a"} <= set(letters):
        raise NotInColumnsError
    if "E" in letters and "d" not in letters:
        raise NotInColumnsError
    for letter, count in found:
        if count and (_SAME.get(letter, letter) not in _FIELDS or (letter == "y" and count < 3)):
            raise NotInColumnsError


@kernel
def _parse(data: Any, offsets: Any, there: Any, steps: Any, names: Any, fields: Any, millis: Any) -> int:
    """Sets the milliseconds of each text. Returns the first row whose text does not match the pattern, or -1."""
    for row in range(len(millis)):
        if not there[row]:
            continue
        fields[:] = 0
        fields[_YEAR], fields[_MONTH], fields[_DATE] = 1970, 1, 1
        at: Any = np.int64(offsets[row])
        end = np.int64(offsets[row + 1])
        for step in range(len(steps)):
            kind, field, first = steps[step, 0], steps[step, 1], steps[step, 2]
            if kind == _LITERAL:
                at = at + 1 if at < end and data[at] == field else -1
            elif kind == _NAME:
                index, at = _name(data, at, end, names, first, steps[step, 3], steps[step, 4])
                fields[field] = index + (field == _MONTH)  # January is 1
            elif kind == _ZONE:
                fields[field], at = _zone(data, at, end, first, steps[step, 3])
            else:
                number, at = _digits(data, at, end, first, kind == _EXACTLY)
                fields[field] = 0 if number == steps[step, 3] else number
            if at < 0:
                return row
        if not (_FIRST_YEAR <= fields[_YEAR] <= _LAST_YEAR and 1 <= fields[_MONTH] <= 12):
            return row
        hours = fields[_HOUR] + fields[_HALF_HOUR] + 12 * fields[_HALF]
        minutes = (_days(fields[_YEAR], fields[_MONTH]) + fields[_DATE] - 1) * 1440 + hours * 60 + fields[_MINUTE]
        millis[row] = (minutes * 60 + fields[_SECOND]) * 1000 + fields[_MILLI] - fields[_OFFSET]
    return -1


@kernel
def _digits(data: Any, at: Any, end: Any, max_digits: Any, exactly: Any) -> tuple[Any, Any]:
    """A number and where it ends; -1 if there is none, or one with over `max_digits` digits (or, exactly, fewer)."""
    number: Any = 0
    begin = at
    while at < end and at - begin < max_digits and 48 <= data[at] <= 57:
        number = number * 10 + np.int64(data[at]) - 48
        at += 1
    if exactly:
        return number, at if at - begin == max_digits else -1
    longer = at < end and 48 <= data[at] <= 57
    return number, at if at > begin and not longer else -1


@kernel
def _name(data: Any, at: Any, end: Any, names: Any, first: Any, count: Any, short: Any) -> tuple[Any, Any]:
    """The index of the matching name, in uppercase or lowercase, and where it ends; -1 without a match."""
    for index in range(count):
        size = 0
        while at + size < end and names[first + index, size] and data[at + size] | 32 == names[first + index, size]:
            size += 1
        if size >= short:
            return index, at + size if names[first + index, size] == 0 else at + short
    return 0, -1


@kernel
def _zone(data: Any, at: Any, end: Any, form: Any, utc: Any) -> tuple[Any, Any]:
    """The offset east of UTC in milliseconds, and where it ends; -1 if there is none. `form`, `utc`: see `_steps`."""
    if at >= end:
        return 0, -1
    sign = data[at]
    if sign == 90 and utc:  # Z
        return 0, at + 1
    if sign not in (43, 45):
        return 0, -1
    hours, at = _digits(data, at + 1, min(end, at + 3), 2, True)
    minutes = 0
    if form == 3 and at >= 0:
        at = at + 1 if at < end and data[at] == 58 else -1
    if form > 1 and at >= 0:
        minutes, at = _digits(data, at, min(end, at + 2), 2, True)
    if hours > 23 or minutes > 59:
        return 0, -1
    offset = (hours * 60 + minutes) * 60_000
    return offset if sign == 43 else -offset, at


@kernel
def _days(year: Any, month: Any) -> Any:
    """From 1970 to the first day of a month of the Gregorian calendar, which has 365.2425 days a year."""
    year -= month < 3  # February, and with it the leap day, ends a year
    of_year = (153 * (month + (9 if month < 3 else -3)) + 2) // 5
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - _EPOCH
