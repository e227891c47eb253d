"""Casts between Java's classes: single values and, if the result is the same, whole columns."""

from __future__ import annotations

import base64
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import frozen, texts
from spark_tasks.arrays.jit import kernel
from spark_tasks.data.columns import moment_numbers
from spark_tasks.data.schema import DATE, MOMENT_NAMES, TIME, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.java.numbers import float_texts, integer_texts
from spark_tasks.pipeline.converters.java_values import JavaError, Moment, class_name, is_number
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, SuspectRowsError
from spark_tasks.pipeline.transforms.moments import moment_text

_DAY = 86_400_000
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_CLASSES: dict[Type, Any] = {Type.INT8: np.int8, Type.INT16: np.int16, Type.INT32: np.int32, Type.INT64: int}
_ARROW = {
    Type.INT8: pa.int8(), Type.INT16: pa.int16(), Type.INT32: pa.int32(), Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(), Type.FLOAT64: pa.float64(), Type.BOOLEAN: pa.bool_(), Type.STRING: pa.string(),
}  # fmt: skip
_INTEGER = re.compile(r"([+-]?)0*+(\d*)(?<=\d)")  # with the digits of any script, as in Java
# possessive: with a text of a million digits, other quantifiers try each way to divide them
_FLOAT = re.compile(r"[+-]?(NaN|Infinity|(\d++\.?+\d*+|\.\d++)([eE][+-]?\d++)?+[fFdD]?|0[xX][0-9a-fA-F]*+\.?+"
                    r"[0-9a-fA-F]*+[pP][+-]?\d++[fFdD]?)", re.ASCII)  # fmt: skip
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _E = b"+-.09e"


def logical_number(schema: Schema | None, value: Any) -> Any:
    """Converts a java.util.Date to its number of days or milliseconds, by the logical type of its schema.

    Raises JavaError if the schema's name is that of a logical type and the value is not a Date: as in Java, a cast of a
    whole Date, Time or Timestamp keeps the name.
    """
    if schema is None or schema.name not in MOMENT_NAMES:
        return value
    if not isinstance(value, Moment):
        name = class_name(value)
        raise JavaError("java.lang.ClassCastException", f"class {name} cannot be cast to class java.util.Date ({name} "
                        "and java.util.Date are in module java.base of loader 'bootstrap')")
    if schema.name == DATE:
        return np.int32(value.millis // _DAY)
    return np.int32(value.millis) if schema.name == TIME else value.millis


def cast(value: Any, target: Type) -> Any:
    """Casts a value, which is not null, to the type. Raises DataError."""
    try:
        if target in _BITS:
            return _CLASSES[target](_integer(value, _BITS[target]))
        match target:
            case Type.FLOAT32:
                return _float32(value)
            case Type.FLOAT64:
                return _float64(value)
            case Type.BOOLEAN:
                return _boolean(value)
            case _:
                return text_of(value)
    except ValueError:
        raise DataError(f"Value ({text_of(value)}) was out of range for requested data type") from None


def _unexpected(value: Any) -> DataError:
    return DataError(f"Unexpected type in Cast transformation: class {class_name(value)}")


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, str):
        found = _INTEGER.fullmatch(value)
        if found is None or max(value) > "\uffff":  # a char of Java is no longer
            raise ValueError(value)
        whole = int(found[1] + (found[2] or "0"))
        if not -(1 << bits - 1) <= whole < 1 << bits - 1:
            raise ValueError(value)
        return whole
    if isinstance(value, bool):
        return int(value)
    if not is_number(value):
        raise _unexpected(value)
    if isinstance(value, float | np.floating):
        wide = 64 if bits == 64 else 32
        if np.isnan(value):
            return 0
        whole = int(max(min(float(value), 2.0**63), -(2.0**63)))
        whole = max(min(whole, (1 << wide - 1) - 1), -(1 << wide - 1))
    else:
        whole = int(value)
    return (whole + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _parsed(value: str, kind: pa.DataType) -> float:
    """Parses a number as Double.parseDouble and Float.parseFloat do, which round once. `kind`: that of the result."""
    text = value.strip("".join(map(chr, range(33))))
    if not _FLOAT.fullmatch(text):
        raise ValueError(value)
    if "x" in text.lower():
        try:
            return float.fromhex(text.rstrip("fFdD"))
        except OverflowError:
            return float("-inf" if text.startswith("-") else "inf")
    if text.endswith(("NaN", "Infinity")):
        return float(text)
    return float(pa.scalar(text.rstrip("fFdD").removeprefix("+")).cast(kind).as_py())


def _float32(value: Any) -> Any:
    with np.errstate(over="ignore"):
        if isinstance(value, str):
            return np.float32(_parsed(value, pa.float32()))
        if isinstance(value, bool):
            return np.float32(value)
        if not is_number(value):
            raise _unexpected(value)
        if isinstance(value, Decimal):
            return np.float32(_parsed(str(value), pa.float32()))
        exact = isinstance(value, int | np.integer)
        return np.int64(value).astype(np.float32) if exact else np.float32(float(value))


def _float64(value: Any) -> float:
    if isinstance(value, str):
        return _parsed(value, pa.float64())
    if isinstance(value, bool) or is_number(value):
        return float(value)
    raise _unexpected(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, bool):
        return value
    if is_number(value):
        return _integer(value, 64) != 0
    raise _unexpected(value)


def text_of(value: Any) -> str:
    """Returns the text of a value as Cast does: its toString, with dates in ISO 8601 and bytes in Base64."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Moment):
        return moment_text(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float | np.floating):
        return str(float_texts(pa.array([value]))[0].as_py())
    return str(value).replace("E+", "E+") if isinstance(value, Decimal) else str(value)


def cast_column(array: pa.Array, schema: Schema | None, target: Type) -> pa.Array:
    """Casts a column. Raises NotInColumnsError if the values must be cast one by one, and pa.ArrowInvalid or
    SuspectRowsError if a value may be invalid.
    """
    kind = array.type
    if pa.types.is_null(kind):
        return array
    if schema is not None and schema.name in MOMENT_NAMES:
        if target is Type.STRING or not pa.types.is_temporal(kind):
            raise NotInColumnsError
        array = moment_numbers(array)
        kind = array.type
    if kind == _ARROW[target]:
        return array
    if pa.types.is_string(kind):
        return _from_text(array, target)
    if pa.types.is_boolean(kind):
        return _from_boolean(array, target)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _from_number(array, target)
    raise NotInColumnsError


def _from_text(array: pa.Array, target: Type) -> pa.Array:
    if target is Type.BOOLEAN:
        return pc.equal(pc.utf8_lower(array), "true")
    data, offsets, valid = texts(array)
    plain = np.empty(len(array), np.bool_)
    _find_plain(frozen(data), frozen(offsets), target not in _BITS, plain)
    suspect = ~plain if valid is None else ~plain & valid
    if suspect.any():
        raise SuspectRowsError(np.flatnonzero(suspect), len(array))
    return array.cast(_ARROW[target])


@kernel
def _find_plain(data: Any, offsets: Any, floating: bool, out: Any) -> None:
    r"""Sets out[i] to whether text i is a number that Arrow reads as Java does: -?[0-9]+ and, with `floating`,
    (\.[0-9]+)?([eE][+-]?[0-9]+)? after it. (Arrow's regular expression takes ten times as long.)
    """
    for row in range(len(out)):
        at, stop = offsets[row], offsets[row + 1]
        end = _digits(data, at + (at < stop and data[at] == _MINUS), stop)
        if floating and end > 0 and end < stop and data[end] == _POINT:
            end = _digits(data, end + 1, stop)
        if floating and end > 0 and end < stop and (data[end] | 32) == _E:
            at = end + 1
            end = _digits(data, at + (at < stop and (data[at] == _MINUS or data[at] == _PLUS)), stop)
        out[row] = end == stop and end > 0


@kernel
def _digits(data: Any, begin: int, stop: int) -> int:
    """Returns the end of the digits, -1 if there are none."""
    at = begin
    while at < stop and _ZERO <= data[at] <= _NINE:
        at += 1
    return at if at > begin else -1


def _from_boolean(array: pa.Array, target: Type) -> pa.Array:
    if target is Type.STRING:
        return array.cast(pa.string())
    return array.cast(pa.int8()).cast(_ARROW[target])


def _from_number(array: pa.Array, target: Type) -> pa.Array:
    floating = pa.types.is_floating(array.type)
    if target is Type.STRING:
        return float_texts(array) if floating else integer_texts(array)
    filled = array.fill_null(0) if array.null_count else array
    values = filled.to_numpy(zero_copy_only=False)
    if target is Type.BOOLEAN:
        cast = (np.trunc(values) != 0) & ~np.isnan(values) if floating else values != 0
    elif target in _BITS and floating:
        cast = _saturated(values, _BITS[target]).astype(_ARROW[target].to_pandas_dtype())
    else:
        with np.errstate(over="ignore"):
            cast = values.astype(_ARROW[target].to_pandas_dtype())
    if not array.null_count:
        return pa.array(cast, _ARROW[target])
    return pa.array(cast, _ARROW[target], mask=pc.is_null(array).to_numpy(zero_copy_only=False))


def _saturated(values: Any, bits: int) -> Any:
    """Converts doubles to integers as Java's d2l and d2i do."""
    low, high = (-(2**63), 2**63 - 1) if bits == 64 else (-(2**31), 2**31 - 1)
    values = np.nan_to_num(values.astype(np.float64), nan=0.0)
    inside = np.where((values >= float(low)) & (values < float(high)), values, 0.0).astype(np.int64)
    return np.where(values >= float(high), high, np.where(values < float(low), low, inside))
