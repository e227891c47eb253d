"""Columns of moments: texts in patterns of digits, numbers since the epoch, and Connect's logical types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import string_array, texts
from spark_tasks.pipeline.transforms.rows import NotInColumnsError
from spark_tasks.pipeline.transforms.simple_date_format import Piece, pieces

_DAY = 86_400_000
_WIDTHS = {"y": (4,), "M": (2,), "d": (2,), "H": (2,), "m": (2,), "s": (2,), "S": (3,)}
# by width and place: the digit of each number
_DIGITS = {
    width: [(np.arange(10**width) // 10 ** (width - 1 - place) % 10 + 48).astype(np.uint8) for place in range(width)]
    for width in (2, 3, 4)
}
_GREGORIAN, _LAST = -12_212_553_600_000, 253_402_300_799_999  # 1583-01-01 to the end of 9999
_UNITS = {"H": 3_600_000, "m": 60_000, "s": 1000, "S": 1}


def to_millis(array: pa.Array, kind: str, pattern: str, unit: tuple[int, int]) -> pa.Array:
    """Milliseconds since the epoch. NotInColumnsError, or pa.ArrowInvalid where one text is not of the pattern."""
    arrow, (up, down) = array.type, unit
    if pa.types.is_null(arrow):
        return array.cast(pa.int64())
    if kind == "string":
        if not pa.types.is_string(arrow):
            raise NotInColumnsError
        return _parsed(array, _digits(pattern))
    if kind == "unix":
        if not pa.types.is_int64(arrow):
            raise NotInColumnsError
        return pc.multiply_checked(array, up) if down == 1 else pc.divide(array, down)
    if pa.types.is_timestamp(arrow):
        return array.cast(pa.timestamp("ms", arrow.tz), safe=False).cast(pa.int64())
    if pa.types.is_time(arrow):
        return array.cast(pa.time32("ms"), safe=False).cast(pa.int32()).cast(pa.int64())
    if pa.types.is_date(arrow):
        return pc.multiply(array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), _DAY)
    raise NotInColumnsError


def from_millis(millis: pa.Array, target: str, pattern: str, unit: tuple[int, int]) -> pa.Array:
    """The opposite: a column of the target type."""
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
        return pa.array((values // _DAY).astype(np.int32), mask=mask).cast(pa.date32())
    return pa.array((values % _DAY).astype(np.int32), mask=mask).cast(pa.time32("ms"))


def _digits(pattern: str) -> tuple[Piece, ...]:
    """The pattern, if it has nothing but digits of fixed width and ASCII texts."""
    found = pieces(pattern)
    for piece, count in found:
        if (count and count not in _WIDTHS.get(piece, ())) or not piece.isascii():
            raise NotInColumnsError
    letters = [piece for piece, count in found if count]
    if not letters or len(set(letters)) < len(letters):
        raise NotInColumnsError
    return found


def format_column(millis: pa.Array, pattern: str) -> pa.Array:
    """Texts of moments. NotInColumnsError."""
    found = _digits(pattern)
    values = millis.fill_null(0).to_numpy(zero_copy_only=False)
    if len(values) and (values.min() < _GREGORIAN or values.max() > _LAST):
        raise NotInColumnsError
    fields = _fields(values)
    width = sum(count or len(piece) for piece, count in found)
    letters = np.empty((width, len(values)), np.uint8)  # by place: what one number needs lies together
    at = 0
    for piece, count in found:
        for place in range(count or len(piece)):
            letters[at] = _DIGITS[count][place][fields[piece]] if count else ord(piece[place])
            at += 1
    out = np.ascontiguousarray(letters.T)
    offsets = np.arange(len(values) + 1, dtype=np.int64) * width
    if offsets[-1] >= 2**31:
        raise NotInColumnsError
    valid = millis.is_valid().to_numpy(zero_copy_only=False) if millis.null_count else None
    return string_array(out.reshape(-1), offsets.astype(np.int32), valid)


def _fields(values: Any) -> dict[str, Any]:
    days = values // _DAY
    rest = (values - days * _DAY).astype(np.int32)
    moments = days.astype("datetime64[D]")
    months = moments.astype("datetime64[M]")
    of_epoch = months.astype(np.int64)
    return {
        "y": (of_epoch // 12 + 1970).astype(np.int32), "M": (of_epoch % 12 + 1).astype(np.int32),
        "d": ((moments - months).astype(np.int64) + 1).astype(np.int32), "H": rest // 3_600_000,
        "m": rest // 60_000 % 60, "s": rest // 1000 % 60, "S": rest % 1000,
    }  # fmt: skip


def _parsed(array: pa.Array, found: tuple[Piece, ...]) -> pa.Array:
    text = texts(array)
    width = sum(count or len(piece) for piece, count in found)
    there = np.ones(len(array), np.bool_) if text.valid is None else text.valid
    begins = text.offsets[:-1].astype(np.int64)
    if (np.diff(text.offsets)[there] != width).any():
        raise pa.ArrowInvalid("a text is longer or shorter than the pattern")
    begins = begins[there]
    if not len(begins):
        return pa.nulls(len(array), pa.int64())
    if len(begins) == len(array):
        rows = text.data[begins[0] : begins[0] + width * len(array)].reshape(-1, width)
    else:
        rows = text.data[begins[:, None] + np.arange(width)]
    millis = np.zeros(len(array), np.int64)
    millis[there] = _moments(rows, found)
    return pa.array(millis, mask=None if text.valid is None else ~there)


def _moments(rows: Any, found: tuple[Piece, ...]) -> Any:
    fields: dict[str, Any] = {}
    letters = np.ascontiguousarray(rows.T)  # by place
    at = 0
    for piece, count in found:
        number = np.zeros(len(rows), np.int32)
        for place in range(count or len(piece)):
            digit = letters[at] - np.uint8(48 if count else ord(piece[place]))
            if digit.max() > (9 if count else 0):
                raise pa.ArrowInvalid("a text is not of the pattern")
            if count:
                number = number * np.int32(10) + digit
            at += 1
        if count:
            fields[piece] = number.astype(np.int64)
    year, month = fields.get("y", 1970), fields.get("M", 1)
    if np.any(np.less(year, 1583)) or np.any(np.less(month, 1)) or np.any(np.greater(month, 12)):
        raise pa.ArrowInvalid("a date that is not in the calendar, or before it")
    months = np.broadcast_to((np.asarray(year) - 1970) * 12 + np.asarray(month) - 1, len(rows))
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + fields.get("d", 1) - 1
    millis = days * _DAY
    for letter, size in _UNITS.items():
        millis = millis + fields.get(letter, 0) * size
    return millis
