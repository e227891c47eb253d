"""Views Arrow columns as numpy arrays and numpy arrays as Arrow columns, without copying."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Ints = np.ndarray[Any, np.dtype[np.int32]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


_FEW_BYTES = 4096


class Texts(NamedTuple):
    """A binary or string column. Value i is data[offsets[i]:offsets[i + 1]]. `valid` is None if no value is null."""

    data: Bytes
    offsets: Ints
    valid: Bools | None


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns a read-only view. Arrow's buffers may be writable or read-only. numba treats these as different types,
    and would compile a kernel for each combination.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def texts(array: pa.Array) -> Texts:
    """Returns a view of a binary or string array (32-bit offsets). The view keeps the array's buffers alive."""
    _, offsets, data = array.buffers()
    if not len(array):
        return Texts(np.empty(0, np.uint8), np.zeros(1, np.int32), None)
    starts = np.frombuffer(offsets, np.int32, count=len(array) + 1, offset=4 * array.offset)
    bytes_ = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return Texts(bytes_, starts, valid(array))


def as_strings(array: pa.Array) -> pa.Array:
    """Returns a binary array as strings. Raises ArrowInvalid for bytes that are not UTF-8."""
    data = array.buffers()[2] if pa.types.is_binary(array.type) else None
    if data is not None and 0 < data.size < _FEW_BYTES and data.to_pybytes().isascii():
        return array.view(pa.string())  # for a few texts, a cast takes three times as long
    return array.cast(pa.string())


def valid(array: pa.Array) -> Bools | None:
    """Returns which values are not null, or None if there are no nulls."""
    if not array.null_count:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def all_valid(length: int) -> Bools:
    """Returns a mask without nulls, for kernels that require a mask."""
    return np.ones(length, np.bool_)


def string_array(data: Bytes, offsets: Ints, valid: Bools | None = None, type_: pa.DataType | None = None) -> pa.Array:
    """Returns a string array (or one of `type_`) over the buffers, which must not be changed afterwards."""
    buffers = [bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_ or pa.string(), len(offsets) - 1, buffers)


def bitmap(mask: Bools | None) -> pa.Buffer | None:
    """Returns an Arrow validity bitmap, or None if there are no nulls."""
    return None if mask is None or mask.all() else pa.py_buffer(np.packbits(mask, bitorder="little"))


def number_array(values: np.ndarray[Any, Any], type_: pa.DataType, valid: Bools | None = None) -> pa.Array:
    """Returns a fixed-width array over the values' memory."""
    return pa.Array.from_buffers(type_, len(values), [bitmap(valid), pa.py_buffer(values)])


def list_offsets(array: pa.Array) -> pa.Array:
    """Returns the offsets (from 0) of the lists in the result of `flatten`, which has no items of null lists."""
    ends = np.asarray(array.offsets)
    lengths = np.diff(ends)
    valid_rows = valid(array)
    if valid_rows is not None:
        lengths = np.where(valid_rows, lengths, 0)
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return number_array(offsets, pa.int32())


def bool_array(values: Bools, valid: Bools | None = None) -> pa.Array:
    """Returns a boolean array."""
    packed = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [bitmap(valid), packed])
