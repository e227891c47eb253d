"""Converts decimals between Arrow and Avro or Connect, where they are the bytes of the unscaled value."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import bitmap, string_array, texts
from spark_tasks.data.arrow_types import MAX_DECIMAL_BITS
from spark_tasks.pipeline.converters.base import BadRowError


def from_bytes(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts a binary array to decimals. `kind`: their Arrow type. Raises BadRowError for empty values, and for
    values with more digits than the type has.
    """
    width = kind.bit_width // 8
    values = texts(array)
    starts, ends = values.offsets[:-1].astype(np.int64), values.offsets[1:].astype(np.int64)
    valid = np.ones(len(array), np.bool_) if values.valid is None else values.valid
    sizes = ends - starts
    wrong = valid & ((sizes == 0) | (sizes > width))
    if wrong.any():
        return _one_by_one(array, kind)
    byte_positions = ends[:, None] - 1 - np.arange(width)
    data = values.data if len(values.data) else np.zeros(1, np.uint8)
    inside = (byte_positions >= starts[:, None]) & valid[:, None]
    little = np.where(inside, data[np.where(inside, byte_positions, 0)], 0)
    first = data[np.where(valid, starts, 0)]
    negative = valid & (first >= 0x80)
    little[~inside & negative[:, None]] = 0xFF
    out = pa.Array.from_buffers(kind, len(array), [bitmap(None if valid.all() else valid),
                                                   pa.py_buffer(np.ascontiguousarray(little, np.uint8))])
    try:
        out.validate(full=True)
    except pa.ArrowInvalid:
        return _one_by_one(array, kind)
    return out


def _one_by_one(array: pa.Array, kind: pa.DataType) -> pa.Array:
    found = array.to_pylist()
    fits = (10**kind.precision).bit_length() // 8 if kind.scale >= 0 else 0  # so many bytes, whatever they are
    for row, value in enumerate(found):  # first those that may be bad, because the others take longer
        if value is not None and not 0 < len(value) <= fits:
            _checked(row, value, kind)
    return pa.array([None if value is None else _checked(row, value, kind) for row, value in enumerate(found)], kind)


def _checked(row: int, value: bytes, kind: pa.DataType) -> Decimal:
    if not value:
        raise BadRowError(row, "Invalid value for a Decimal: it is empty")
    try:
        decimal = _decimal(value, kind.scale)
        pa.scalar(decimal, kind)
    except ValueError as error:
        raise BadRowError(row, f"Invalid value for a Decimal: {error}") from None
    return decimal


def _decimal(value: bytes, scale: int) -> Decimal:
    number = int.from_bytes(value, "big", signed=True)
    if number.bit_length() > MAX_DECIMAL_BITS:
        raise ValueError(f"it has more than {MAX_DECIMAL_BITS} bits")
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def to_bytes(array: pa.Array, size: int | None = None) -> pa.Array:
    """Converts decimals to binary. `size`: the number of bytes, None for as few as possible. Raises BadRowError if
    `size` is too small.
    """
    if not len(array):
        return pa.array([], pa.binary())
    width = array.type.bit_width // 8
    raw = np.frombuffer(array.buffers()[1], np.uint8, width * len(array), width * array.offset)
    big = raw.reshape(-1, width)[:, ::-1]
    negative = big[:, 0] >= 0x80
    fill = np.where(negative, 0xFF, 0).astype(np.uint8)
    spare = (big[:, :-1] == fill[:, None]) & ((big[:, 1:] >= 0x80) == negative[:, None])
    first = np.cumprod(spare, axis=1).sum(axis=1)  # the first significant byte
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if size is not None:
        return _padded(big, fill, first, valid, size)
    return _cut(big, first, valid)


def _cut(big: np.ndarray[Any, Any], first: np.ndarray[Any, Any], there: np.ndarray[Any, Any]) -> pa.Array:
    width = big.shape[1]
    mask = (np.arange(width) >= first[:, None]) & there[:, None]
    offsets = np.zeros(len(big) + 1, np.int32)
    np.cumsum(mask.sum(axis=1), out=offsets[1:])
    return string_array(np.ascontiguousarray(big[mask]), offsets, there, pa.binary())


def _padded(
    big: np.ndarray[Any, Any], fill: np.ndarray[Any, Any], first: np.ndarray[Any, Any], there: np.ndarray[Any, Any],
    size: int,
) -> pa.Array:  # fmt: skip
    width = big.shape[1]
    large = there & (width - first > size)
    if large.any():
        raise BadRowError(int(np.argmax(large)), f"a Decimal is greater than the fixed size {size}")
    if size > width:
        big = np.concatenate([np.repeat(fill[:, None], size - width, axis=1), big], axis=1)
    return _cut(big, np.full(len(big), big.shape[1] - size), there)


