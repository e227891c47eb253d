"""Converts Arrow arrays to the flat numpy arrays that kernels read. Copies only arrays of an unexpected type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import frozen
from spark_tasks.data.columns import HEADERS_TYPE

Array = np.ndarray[Any, Any]
Column = tuple[Array, Array, Array, int]
"""(offsets of the values, one more than rows; bytes; validity bitmap, empty without nulls; bit of the first row)."""

Headers = tuple[Array, Array, int, Array, Array, Array, Array, Array, int]
"""The parts of a list column of headers, see encode_kernels.encode_records."""

_NOTHING: Array = np.frombuffer(b"", np.uint8)
_NO_ENDS: Array = np.frombuffer(bytes(8), np.int32)
NO_COLUMN: Column = (_NO_ENDS, _NOTHING, _NOTHING, 0)
NO_HEADERS: Headers = (_NO_ENDS, _NOTHING, 0, _NO_ENDS, _NOTHING, _NO_ENDS, _NOTHING, _NOTHING, 0)


def binary_column(array: pa.Array, kind: pa.DataType | None = None) -> Column:
    """Returns the buffers of a binary array (or of type `kind`). Casts other string and binary types."""
    kind = pa.binary() if kind is None else kind
    if array.type != kind:
        array = array.cast(kind)
    valid, ends, data = array.buffers()
    flat = _NOTHING if data is None or data.size == 0 else frozen(np.frombuffer(data, np.uint8))
    return _ends(ends, array), flat, _bitmap(valid, array), array.offset


def timestamps(array: pa.Array) -> Array:
    """Returns timestamps in milliseconds since 1970 (int64), -1 for null."""
    if array.type != pa.int64():
        array = array.cast(pa.timestamp("ms")) if pa.types.is_timestamp(array.type) else array
        array = array.cast(pa.int64())
    if array.null_count:
        array = array.fill_null(-1)
    if len(array) == 0:
        return frozen(np.empty(0, np.int64))
    flat: Array = np.frombuffer(array.buffers()[1], np.int64)
    return frozen(flat[array.offset : array.offset + len(array)])


def header_columns(array: pa.Array) -> Headers | None:
    """Returns the parts of a list array of headers, or None if no row has headers."""
    if array.null_count == len(array):
        return None
    if array.type != HEADERS_TYPE:
        array = array.cast(HEADERS_TYPE)
    structs = array.values
    valid, ends = array.buffers()[:2]
    flat_ends = _ends(ends, array)
    if flat_ends[0] == flat_ends[-1]:
        return None
    names = binary_column(structs.field(0), pa.string())
    values = binary_column(structs.field(1))
    return (flat_ends, _bitmap(valid, array), array.offset, names[0], names[1], *values)


def _ends(buffer: pa.Buffer | None, array: pa.Array) -> Array:
    if buffer is None or buffer.size == 0:  # Arrow allows missing offsets for an empty array
        return frozen(np.zeros(len(array) + 1, np.int32))
    flat: Array = np.frombuffer(buffer, np.int32)
    return frozen(flat[array.offset : array.offset + len(array) + 1])


def _bitmap(buffer: pa.Buffer | None, array: pa.Array) -> Array:
    return _NOTHING if buffer is None or array.null_count == 0 else frozen(np.frombuffer(buffer, np.uint8))
