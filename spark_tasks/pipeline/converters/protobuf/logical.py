"""Converts the messages for Connect's logical types to and from columns: decimals, dates, times and timestamps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.data.arrow_types import MAX_DIGITS, MAX_DIGITS_128
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP
from spark_tasks.pipeline.converters.avro import decimals
from spark_tasks.pipeline.converters.base import BadRowError

Ints = np.ndarray[Any, Any]

_GREGORIAN = (1582, 10, 15)  # the first day of the Gregorian calendar; for earlier days Java uses the Julian calendar
_FIRST_DAY = -141427  # that day, in days since 1970
_YEAR_ONE = -719164  # 0001-01-01 of the Julian calendar
_SECONDS = (-62135596800, 253402300799)  # the range of Timestamp: the years 1 to 9999
_MILLION = 1_000_000


def decimals_from(wire: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts confluent.type.Decimal to decimals. Raises BadRowError for a value that exceeds the precision or the
    scale of the type.
    """
    values = wire.field("f1")
    scales = _numbers(wire, "f3")
    valid = wire.is_valid().to_numpy(zero_copy_only=False)
    out = pa.nulls(len(wire), kind)
    for scale in np.unique(scales[valid]).tolist():
        rows = np.flatnonzero(valid & (scales == scale))
        try:
            found = decimals.from_bytes(values.take(pa.array(rows)), _with_scale(kind, scale))
            found = _rescaled(found, kind)
        except BadRowError as bad:
            raise BadRowError(int(rows[bad.row]), bad) from None
        places = np.zeros(len(wire), np.int64)
        places[rows] = np.arange(len(rows))
        mine = np.isin(np.arange(len(wire)), rows)
        out = pc.if_else(pa.array(mine), found.take(pa.array(places)), out)
    return out


def _with_scale(kind: pa.DataType, scale: int) -> pa.DataType:
    """Returns the type of decimals with this scale that can be cast to `kind`. For larger differences, PyArrow would
    read past its table of powers of ten.
    """
    difference = abs(scale - kind.scale)
    if max(abs(scale), difference) > MAX_DIGITS:
        raise BadRowError(0, f"a Decimal has the scale {scale}, which Arrow does not support")
    is_narrow = pa.types.is_decimal128(kind) and max(abs(scale), difference) <= MAX_DIGITS_128
    return pa.decimal128(MAX_DIGITS_128, scale) if is_narrow else pa.decimal256(MAX_DIGITS, scale)


def _rescaled(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        for row in range(len(values)):
            try:
                values.slice(row, 1).cast(kind)
            except pa.ArrowInvalid as error:
                raise BadRowError(row, f"Invalid value for a Decimal with scale {kind.scale}: {error}") from None
        raise


def decimals_to(array: pa.Array) -> dict[str, pa.Array]:
    """Returns the columns of confluent.type.Decimal: bytes, precision and scale."""
    plain = _reinterpreted(array, (pa.decimal128 if pa.types.is_decimal128(array.type) else pa.decimal256)(
        array.type.precision, 0))
    digits = pc.utf8_length(pc.utf8_ltrim(plain.cast(pa.string()), characters="-"))
    return {
        "f1": decimals.to_bytes(array),
        "f2": digits.cast(pa.uint32()),
        "f3": pa.repeat(pa.scalar(array.type.scale, pa.int32()), len(array)),
    }


def _reinterpreted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(array), array.buffers(), offset=array.offset)


def days_from(wire: pa.Array) -> pa.Array:
    """Converts google.type.Date to days since 1970 (date32). Raises BadRowError for a day that does not exist."""
    year, month, day = (_numbers(wire, name) for name in ("f1", "f2", "f3"))
    valid = wire.is_valid().to_numpy(zero_copy_only=False)
    late = (year > _GREGORIAN[0]) | ((year == _GREGORIAN[0]) & (month * 32 + day >= 10 * 32 + 15))
    ordinal = _days(year, month, day, late)
    # a day that does not exist becomes another one when it is converted back
    again = _dates(ordinal)
    good = (month >= 1) & (month <= 12) & (day >= 1) & (year >= 1)
    good &= (again[0] == year) & (again[1] == month) & (again[2] == day) & (np.abs(ordinal) < 2**31)
    _check(valid & ~good, "Invalid value for a Date: the day does not exist")
    return pa.array(ordinal.astype(np.int32), mask=~valid).cast(pa.date32())


def days_to(array: pa.Array) -> dict[str, pa.Array]:
    """Returns the columns of google.type.Date. Raises BadRowError for years before 1."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    days = np.where(valid, pc.fill_null(array.cast(pa.int32()), 0).to_numpy(zero_copy_only=False), 0).astype(np.int64)
    _check(days < _YEAR_ONE - 1, "google.type.Date does not support dates before the year 1")
    found = _dates(days)
    return {name: pa.array(part.astype(np.int32)) for name, part in zip(("f1", "f2", "f3"), found, strict=True)}


def _days(year: Ints, month: Ints, day: Ints, gregorian: Any) -> Ints:
    """Returns days since 1970. Years begin in March here, so that a leap day is the last day of its year."""
    y = year - (month <= 2)
    m = (month + 9) % 12
    leaps = np.where(gregorian, y // 4 - y // 100 + y // 400, y // 4 - 2)
    return np.asarray(y * 365 + leaps + (m * 153 + 2) // 5 + day - 1 - 719468, np.int64)


def _dates(days: Ints) -> tuple[Ints, Ints, Ints]:
    """Returns year, month and day."""
    z = days + 719468
    late = days >= _FIRST_DAY
    cycle = z // 146097
    rest = z - cycle * 146097
    within = (rest - rest // 1460 + rest // 36524 - rest // 146096) // 365
    y_new = within + cycle * 400
    doy_new = rest - (365 * within + within // 4 - within // 100)
    julian = z + 2
    four = julian // 1461
    left = julian - four * 1461
    inside = (left - left // 1460) // 365
    y_old = inside + four * 4
    doy_old = left - 365 * inside
    y, doy = np.where(late, y_new, y_old), np.where(late, doy_new, doy_old)
    m = (5 * doy + 2) // 153
    month = np.where(m < 10, m + 3, m - 9)
    return y + (month <= 2), month, doy - (153 * m + 2) // 5 + 1


def times_from(wire: pa.Array) -> pa.Array:
    """Converts google.type.TimeOfDay to milliseconds (time32). Raises BadRowError for an invalid time."""
    hours, minutes, seconds, nanos = (_numbers(wire, name) for name in ("f1", "f2", "f3", "f4"))
    valid = wire.is_valid().to_numpy(zero_copy_only=False)
    good = (hours >= 0) & (hours < 24) & (minutes >= 0) & (minutes < 60) & (seconds >= 0) & (seconds < 60)
    good &= (nanos >= 0) & (nanos < 1000 * _MILLION)
    _check(valid & ~good, "Invalid value for a Time: the time of day does not exist")
    millis = ((hours * 60 + minutes) * 60 + seconds) * 1000 + nanos // _MILLION
    return pa.array(np.where(good, millis, 0).astype(np.int32), mask=~valid).cast(pa.time32("ms"))


def times_to(array: pa.Array) -> dict[str, pa.Array]:
    """Returns the columns of google.type.TimeOfDay. Raises BadRowError for times that are not within a day."""
    millis = pc.fill_null(array.cast(pa.int32()), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    _check((millis < 0) | (millis >= 86_400_000),
           "Time values must use number of millis greater than 0 and less than 86400000")
    parts = (millis // 3_600_000, millis // 60_000 % 60, millis // 1000 % 60, millis % 1000 * _MILLION)
    return {f"f{i}": pa.array(part.astype(np.int32)) for i, part in enumerate(parts, 1)}


def moments_from(wire: pa.Array) -> pa.Array:
    """Converts google.protobuf.Timestamp to milliseconds. Raises BadRowError outside the years 1 to 9999."""
    seconds, nanos = _numbers(wire, "f1"), _numbers(wire, "f2")
    valid = wire.is_valid().to_numpy(zero_copy_only=False)
    good = (seconds >= _SECONDS[0]) & (seconds <= _SECONDS[1]) & (nanos >= 0) & (nanos < 1000 * _MILLION)
    _check(valid & ~good, "Timestamp is not valid: it must be in the years 1 to 9999")
    millis = np.where(good, seconds, 0) * 1000 + np.where(good, nanos, 0) // _MILLION
    return pa.array(millis, mask=~valid).cast(pa.timestamp("ms", tz="UTC"))


def moments_to(array: pa.Array) -> dict[str, pa.Array]:
    """Returns the columns of google.protobuf.Timestamp. Raises BadRowError outside the years 1 to 9999."""
    millis = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    seconds = millis // 1000
    _check((seconds < _SECONDS[0]) | (seconds > _SECONDS[1]),
           "Timestamp is not valid: it must be in the years 1 to 9999")
    return {"f1": pa.array(seconds), "f2": pa.array((millis % 1000 * _MILLION).astype(np.int32))}


def _numbers(wire: pa.Array, name: str) -> Ints:
    found: Ints = pc.fill_null(wire.field(name), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _check(wrong: Ints, why: str) -> None:
    if wrong.any():
        raise BadRowError(int(np.argmax(wrong)), why)


FROM = {DATE: days_from, TIME: times_from, TIMESTAMP: moments_from}
TO = {DATE: days_to, TIME: times_to, TIMESTAMP: moments_to, DECIMAL: decimals_to}
