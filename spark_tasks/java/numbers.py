"""Formats columns of numbers as Java's toString.

The digits of doubles and floats are the shortest that identify the number, as in Java 19 and newer. Older versions
print one digit too many for a few numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import string_array, texts, valid
from spark_tasks.arrays.jit import kernel as jit

_MAX_CHARS = 26  # at least the length of -1.2345678901234567E-308
_MAX_PLACES = 6
_MAX_DIGITS = 19  # of a 64-bit signed integer
_SMALL, _LARGE = 1e-3, 1e7  # between them, Java prints no exponent


def float_texts(array: pa.Array) -> pa.Array:
    """Returns float32 or float64 values as strings; nulls stay null."""
    out, offsets = np.empty(len(array) * _MAX_CHARS, np.uint8), np.empty(len(array) + 1, np.int32)
    digits = np.empty(32, np.uint8)
    if pa.types.is_float32(array.type):
        shortest = texts(array.cast(pa.string()))
        used = _java(shortest.data, shortest.offsets, digits, out, offsets)
        return string_array(out[:used], offsets, shortest.valid)
    values = array.fill_null(0.0).to_numpy()
    places = np.empty(len(values), np.int8)
    others = pa.array([], pa.string())
    if _count_places(values, places):
        others = array.filter(pa.array(places < 0)).cast(pa.string())
    longer = texts(others)
    used = _java_of_doubles(values, places, longer.data, longer.offsets, digits, out, offsets)
    return string_array(out[:used], offsets, valid(array))


def integer_texts(array: pa.Array) -> pa.Array:
    """Returns integers as strings; nulls stay null. (Arrow's cast takes two to four times as long.)"""
    if pa.types.is_uint64(array.type):
        return array.cast(pa.string())
    values = array.cast(pa.int64())
    values = (values.fill_null(0) if values.null_count else values).to_numpy()
    out, offsets = np.empty(len(array) * _MAX_CHARS, np.uint8), np.empty(len(array) + 1, np.int32)
    used = _integers(values, out, offsets)
    return string_array(out[:used], offsets, valid(array))


@jit
def _integers(values: Any, out: Any, offsets: Any) -> int:
    at = 0
    offsets[0] = 0
    for row in range(len(values)):
        value = values[row]
        rest = np.uint64(value)
        if value < 0:
            out[at] = 45
            at += 1
            rest = np.uint64(0) - rest
        end, least = at + 1, np.uint64(10)
        while rest >= least:
            end += 1
            if end - at == _MAX_DIGITS:
                break
            least *= np.uint64(10)
        at = end
        while rest >= np.uint64(10):
            end -= 1
            tens = rest // np.uint64(10)
            out[end] = np.uint64(48) + rest - tens * np.uint64(10)
            rest = tens
        out[end - 1] = np.uint64(48) + rest
        offsets[row + 1] = at
    return at


@jit
def _java(data: Any, ends: Any, digits: Any, out: Any, offsets: Any) -> int:
    at = 0
    offsets[0] = 0
    for row in range(len(ends) - 1):
        at = _number(data, ends[row], ends[row + 1], True, digits, out, at)
        offsets[row + 1] = at
    return at


@jit
def _count_places(values: Any, places: Any) -> int:
    """Sets `places` to the number of decimal places of each number, or to -1 if it has more than six or if Java prints
    it with an exponent. Returns the number of values with -1.

    Different decimals of at most 15 digits are different doubles, so such a decimal is the shortest one. The quotient
    of two integers that are exact as doubles is the nearest double.
    """
    others = 0
    for row in range(len(values)):
        number, power = abs(values[row]), 1.0
        places[row] = -1
        if number == 0.0 or _SMALL <= number < _LARGE:
            for count in range(_MAX_PLACES + 1):
                if np.rint(number * power) / power == number:
                    places[row] = count
                    break
                power *= 10.0
        others += places[row] < 0
    return others


@jit
def _java_of_doubles(values: Any, places: Any, data: Any, ends: Any, digits: Any, out: Any, offsets: Any) -> int:
    at = other = 0
    offsets[0] = 0
    for row in range(len(values)):
        if places[row] < 0:
            at = _number(data, ends[other], ends[other + 1], False, digits, out, at)
            other += 1
        else:
            at = _short(values[row], places[row], out, at)
        offsets[row + 1] = at
    return at


@jit
def _short(value: float, places: int, out: Any, at: int) -> int:
    """Writes a number with `places` decimal places, at least one."""
    if np.signbit(value):
        out[at] = 45
        at += 1
    power = 1.0
    for _ in range(max(places, 1)):  # 12 is 12.0
        power *= 10.0
    rest, ten, zero = np.uint64(np.rint(abs(value) * power)), np.uint64(10), np.uint64(48)
    end, least = at + max(places, 1) + 2, power * 10.0
    while least <= rest:
        least *= 10.0
        end += 1
    point = end - 1 - max(places, 1)
    for i in range(end - 1, at - 1, -1):
        if i == point:
            out[i] = 46
        else:
            out[i] = zero + rest % ten
            rest //= ten
    return end


@jit
def _number(data: Any, start: int, end: int, single: bool, digits: Any, out: Any, at: int) -> int:
    """Converts a number from C++'s format (12.5, 1e+22, inf) to Java's (12.5, 1.0E22, Infinity)."""
    if start < end and data[start] == 45:
        out[at] = 45
        at += 1
        start += 1
    if start < end and data[start] >= 97:
        return _word(data[start] == 105, out, at)
    count, point, seen_point = 0, 0, False
    exponent = 0
    while start < end:
        c = data[start]
        start += 1
        if c == 46:
            seen_point = True
        elif c == 101:
            exponent = _exponent(data, start, end)
            break
        else:
            if count or c != 48:
                digits[count] = c
                count += 1
            if seen_point:
                point -= 1
    while count > 1 and digits[count - 1] == 48:
        count -= 1
        point += 1
    if count == 0:
        digits[0], count, point, exponent = 48, 1, 0, 0
    power = point + exponent
    if count == 1:
        count, power = _two_digits(digits, power, single)
    return _layout(digits, count, power, out, at)


@jit
def _two_digits(digits: Any, power: int, single: bool) -> tuple[int, int]:
    """Replaces a single digit with the two nearest to the number, as Java does. They differ from the digit and a zero
    only for the smallest numbers.
    """
    digit = digits[0] - 48
    nearest = 0
    if single and power == -45:
        nearest = 14 * digit if digit == 1 else 28 if digit == 3 else 42 if digit == 4 else 56 if digit == 6 else 0
        nearest = 84 if digit == 8 else nearest
    elif single and power == -44 and digit == 1:
        nearest, power = 98, -45
    elif not single and power == -324 and digit == 5:
        nearest = 49
    elif not single and power == -323 and digit == 1:
        nearest, power = 99, -324
    if not nearest:
        return 1, power
    digits[0], digits[1] = 48 + nearest // 10, 48 + nearest % 10
    return 2, power - 1


@jit
def _exponent(data: Any, start: int, end: int) -> int:
    negative = data[start] == 45
    if data[start] < 48:
        start += 1
    value = 0
    while start < end:
        value = value * 10 + data[start] - 48
        start += 1
    return -value if negative else value


@jit
def _layout(digits: Any, count: int, power: int, out: Any, at: int) -> int:
    """Writes digits x 10^power with a decimal point; outside of 10^-3 to 10^7 with an exponent."""
    leading = power + count - 1  # the exponent of the first digit
    if leading < -3 or leading >= 7:
        at = _put(digits, 0, 1, out, at)
        out[at] = 46
        at = _put(digits, 1, count, out, at + 1)
        if count == 1:
            out[at] = 48
            at += 1
        out[at] = 69
        return _put_integer(leading, out, at + 1)
    if leading < 0:
        at = _zeros(1, out, at)
        out[at] = 46
        at = _zeros(-leading - 1, out, at + 1)
        return _put(digits, 0, count, out, at)
    whole = min(count, leading + 1)
    at = _put(digits, 0, whole, out, at)
    at = _zeros(leading + 1 - whole, out, at)
    out[at] = 46
    if whole == count:
        return _zeros(1, out, at + 1)
    return _put(digits, whole, count, out, at + 1)


@jit
def _put(digits: Any, start: int, end: int, out: Any, at: int) -> int:
    for i in range(start, end):
        out[at] = digits[i]
        at += 1
    return at


@jit
def _zeros(count: int, out: Any, at: int) -> int:
    for _ in range(count):
        out[at] = 48
        at += 1
    return at


@jit
def _put_integer(value: int, out: Any, at: int) -> int:
    if value < 0:
        out[at] = 45
        at += 1
        value = -value
    if value >= 100:
        out[at] = 48 + value // 100
        at += 1
    if value >= 10:
        out[at] = 48 + value // 10 % 10
        at += 1
    out[at] = 48 + value % 10
    return at + 1


@jit
def _word(infinite: bool, out: Any, at: int) -> int:
    word = b"Infinity" if infinite else b"NaN"
    for c in word:
        out[at] = c
        at += 1
    return at
