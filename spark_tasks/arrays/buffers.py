"""Arrow string and binary columns seen as numpy arrays, and back, without copying."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Ints = np.ndarray[Any, np.dtype[np.int32]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


class Texts(NamedTuple):
    """A binary or string column: value i is data[offsets[i]:offsets[i + 1]]; `valid` is None where no value is null."""

    data: Bytes
    offsets: Ints
    valid: Bools | None


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A read-only view. Kernels are compiled for each combination of argument types, writable and read-only arrays are
    two of them, and Arrow's buffers are of both kinds.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def texts(array: pa.Array) -> Texts:
    """A view of a binary or string array (32-bit offsets); it keeps the array's buffers alive."""
    _, offsets, data = array.buffers()
    if not len(array):
        return Texts(np.empty(0, np.uint8), np.zeros(1, np.int32), None)
    starts = np.frombuffer(offsets, np.int32, count=len(array) + 1, offset=4 * array.offset)
    found = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return Texts(found, starts, valid(array))


def valid(array: pa.Array) -> Bools | None:
    """Which values are not null; None if all are."""
    if not array.null_count:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def all_valid(length: int) -> Bools:
    """For kernels that want a mask."""
    return np.ones(length, np.bool_)


def string_array(data: Bytes, offsets: Ints, valid: Bools | None = None, type_: pa.DataType | None = None) -> pa.Array:
    """A string (or `type_`: binary) array over the buffers; they must not be written to any more."""
    buffers = [bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_ or pa.string(), len(offsets) - 1, buffers)


def bitmap(mask: Bools | None) -> pa.Buffer | None:
    """An Arrow validity bitmap."""
    return None if mask is None or mask.all() else pa.py_buffer(np.packbits(mask, bitorder="little"))


def number_array(values: np.ndarray[Any, Any], type_: pa.DataType, valid: Bools | None = None) -> pa.Array:
    """A fixed-width array over the values' memory."""
    return pa.Array.from_buffers(type_, len(values), [bitmap(valid), pa.py_buffer(values)])


def list_offsets(array: pa.Array) -> pa.Array:
    """Offsets from 0 of a list or map array's items as `flatten` gives them: null lists have none."""
    ends = np.asarray(array.offsets)
    lengths = np.diff(ends)
    there = valid(array)
    if there is not None:
        lengths = np.where(there, lengths, 0)
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return number_array(offsets, pa.int32())


def bool_array(values: Bools, valid: Bools | None = None) -> pa.Array:
    """A boolean array."""
    packed = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [bitmap(valid), packed])
