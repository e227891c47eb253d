"""Converts columns of timestamps: texts with a pattern, numbers since the epoch, and Connect's logical types."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import string_array
from spark_tasks.data.columns import moment_numbers
from spark_tasks.java.simple_date_format import Piece, pieces, text_of
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError
from spark_tasks.pipeline.transforms.moment_texts import parse_column

_DAY = 86_400_000
# the range of numbers for each letter
_RANGES = {
    "G": (1, 1), "y": (0, 9999), "M": (1, 12), "L": (1, 12), "d": (1, 31), "D": (1, 366), "E": (0, 6), "u": (1, 7),
    "F": (1, 5), "a": (0, 1), "H": (0, 23), "k": (1, 24), "K": (0, 11), "h": (1, 12), "m": (0, 59), "s": (0, 59),
    "S": (0, 999), "z": (0, 0), "Z": (0, 0), "X": (0, 0),
}  # fmt: skip
_MAX_LETTERS = 30  # of a piece
_GREGORIAN, _LAST = -12_212_553_600_000, 253_402_300_799_999  # 1583-01-01 to the end of 9999


def to_millis(array: pa.Array, kind: str, pattern: str, unit: tuple[int, int]) -> pa.Array:
    """Returns milliseconds since the epoch. Raises NotInColumnsError, and pa.ArrowInvalid for a text that does not
    match the pattern. `unit`: factor and divisor from numbers to milliseconds.
    """
    arrow, (up, down) = array.type, unit
    if pa.types.is_null(arrow):
        return array.cast(pa.int64())
    if kind == "string":
        if not pa.types.is_string(arrow):
            raise NotInColumnsError
        return parse_column(array, pattern)
    if kind == "unix":
        if not pa.types.is_int64(arrow):
            raise NotInColumnsError
        return pc.multiply_checked(array, up) if down == 1 else pc.divide(array, down)
    if not (pa.types.is_timestamp(arrow) or pa.types.is_time(arrow) or pa.types.is_date(arrow)):
        raise NotInColumnsError
    numbers = moment_numbers(array).cast(pa.int64())
    return pc.multiply(numbers, _DAY) if pa.types.is_date(arrow) else numbers


def from_millis(millis: pa.Array, target: str, pattern: str, unit: tuple[int, int]) -> pa.Array:
    """Converts milliseconds since the epoch to a column of the target type. `unit`: see `to_millis`."""
    up, down = unit
    if target == "string":
        return format_column(millis, pattern)
    if target == "unix":
        return pc.divide(millis, up) if down == 1 else pc.multiply_checked(millis, down)
    if target == "Timestamp":
        return millis.cast(pa.timestamp("ms", tz="UTC"))
    values = millis.fill_null(0).to_numpy(zero_copy_only=False)
    mask = millis.is_null().to_numpy(zero_copy_only=False) if millis.null_count else None
    if target == "Date":
        if len(values) and not -(2**31) <= values.min() // _DAY <= values.max() // _DAY < 2**31:
            raise NotInColumnsError
        return pa.array((values // _DAY).astype(np.int32), mask=mask).cast(pa.date32())
    return pa.array((values % _DAY).astype(np.int32), mask=mask).cast(pa.time32("ms"))


def format_column(millis: pa.Array, pattern: str) -> pa.Array:
    """Formats milliseconds since the epoch. Raises NotInColumnsError for patterns with weeks, and for years that do not
    have four digits.
    """
    values = millis.fill_null(0).to_numpy(zero_copy_only=False)
    if len(values) and (values.min() < _GREGORIAN or values.max() > _LAST):
        raise NotInColumnsError
    parsed = pieces(pattern)
    tables = [_table(piece) for piece in parsed]
    fields = _fields(values, {letter for letter, count in parsed if count})
    parts = [part.dtype for table, _ in tables for part in table]
    rows = np.empty(len(values), np.dtype([(str(n), kind) for n, kind in enumerate(parts)]))
    at, lengths = 0, np.zeros(len(values), np.int64)
    for (letter, _), (table, widths) in zip(parsed, tables, strict=True):
        numbers = fields[letter] - _RANGES[letter][0] if len(widths) > 1 else None
        for part in table:
            rows[str(at)] = part[0] if numbers is None else part[numbers]
            at += 1
        lengths += widths[0] if numbers is None or (widths == widths[0]).all() else widths[numbers]
    out = rows.view(np.uint8)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] >= 2**31:
        raise NotInColumnsError
    if len(out) != offsets[-1]:
        out = out[out != 0]  # drop the padding of numbers that are shorter than the longest of their table
    valid = millis.is_valid().to_numpy(zero_copy_only=False) if millis.null_count else None
    return string_array(out, offsets.astype(np.int32), valid)


@lru_cache(maxsize=200)
def _table(piece: Piece) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Returns the texts of all numbers of a piece, padded with 0, in parts of 4, 2 and 1 bytes that are each written at
    once, and the lengths of the texts. Raises NotInColumnsError.
    """
    letter, count = piece
    if count and (letter not in _RANGES or count > _MAX_LETTERS):
        raise NotInColumnsError
    first, last = _RANGES[letter] if count else (0, 0)
    written = [(text_of(letter, count, n) if count else letter).encode() for n in range(first, last + 1)]
    if any(0 in text for text in written):
        raise NotInColumnsError
    widths = np.array([len(text) for text in written])
    width, at, parts = int(widths.max()), 0, []
    while at < width:
        size = next(size for size in (4, 2, 1) if at + size <= width)
        part = b"".join(text.ljust(width, b"\0")[at : at + size] for text in written)
        parts.append(np.frombuffer(part, f"u{size}"))
        at += size
    return parts, widths


def _fields(values: Any, letters: set[str]) -> dict[str, Any]:
    """Returns the numbers for the letters of the pattern. Computes no remainders: dividing by a constant is faster."""
    days = values // _DAY
    numbers: dict[str, Any] = dict.fromkeys(letters & set("zZX"), 0) | dict.fromkeys(letters & {"G"}, 1)
    if letters & set("yMLdDFEu") and len(days):
        first, last = int(days.min()), int(days.max())
        if last - first < max(len(days), 1000):  # compute each distinct day once
            of_days = _of_days(np.arange(first, last + 1), letters)
            places = days - first
            numbers |= {letter: by_day[places] for letter, by_day in of_days.items()}
        else:
            numbers |= _of_days(days, letters)
    if letters & set("aHkKhmsS"):
        rest = (values - days * _DAY).astype(np.int32)
        seconds = rest // 1000
        minutes = seconds // 60
        hour = minutes // 60
        numbers |= {"H": hour, "m": minutes - hour * 60, "s": seconds - minutes * 60, "S": rest - seconds * 1000}
        if letters & set("akKh"):
            half = hour // 12
            of_half = hour - half * 12
            numbers |= {"a": half, "K": of_half, "k": np.where(hour, hour, 24), "h": np.where(of_half, of_half, 12)}
    return numbers if len(days) else dict.fromkeys(letters, days)


def _of_days(days: Any, letters: set[str]) -> dict[str, Any]:
    moments = days.astype("datetime64[D]")
    months = moments.astype("datetime64[M]")
    of_epoch = months.astype(np.int64)
    years = of_epoch // 12
    month = of_epoch - years * 12 + 1
    day = (moments - months).astype(np.int64) + 1
    of_week = (days + 4) % 7
    by_letter = {"y": years + 1970, "M": month, "L": month, "d": day, "F": (day - 1) // 7 + 1, "E": of_week,
             "u": np.where(of_week, of_week, 7),
             "D": (moments - months.astype("datetime64[Y]")).astype(np.int64) + 1}  # fmt: skip
    return {letter: numbers for letter, numbers in by_letter.items() if letter in letters}
