"""Encodes Arrow's flat arrays as records in batches of bounded size."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_tasks.arrays.jit import inlined, kernel
from spark_tasks.arrays.memory import copy_bytes

# Columns of the table of batches that encode_records fills. START and END are bytes, FIRST and LAST indexes into
# `rows`; END and LAST are exclusive.
START, END, FIRST, LAST, BASE_TIMESTAMP, MAX_TIMESTAMP = 0, 1, 2, 3, 4, 5
COLUMNS = 6

_HEADER_BYTES = 61  # of a batch


@inlined
def _size(number: Any) -> Any:
    """Returns the number of bytes of `number` as a zigzag varint."""
    zigzag = np.uint64((number << 1) ^ (number >> 63))
    size = 1
    while zigzag >= np.uint64(128):
        zigzag >>= np.uint64(7)
        size += 1
    return size


@inlined
def _write(out: Any, at: Any, number: Any) -> Any:
    """Writes `number` as a zigzag varint, and returns the index of the next byte."""
    zigzag = np.uint64((number << 1) ^ (number >> 63))
    while zigzag >= np.uint64(128):
        out[at] = np.uint8((zigzag & np.uint64(0x7F)) | np.uint64(0x80))
        at += 1
        zigzag >>= np.uint64(7)
    out[at] = np.uint8(zigzag)
    return at + 1


@inlined
def _null(valid: Any, row: Any) -> Any:
    """Returns whether the row is null. An empty bitmap means no nulls."""
    return valid.shape[0] != 0 and (valid[row >> 3] >> (row & 7)) & 1 == 0


@inlined
def _write_value(out: Any, at: Any, ends: Any, data: Any, row: Any, null: Any) -> Any:
    if null:
        return _write(out, at, -1)
    begin = np.int64(ends[row])
    size = np.int64(ends[row + 1]) - begin
    at = _write(out, at, size)
    copy_bytes(out, at, data, begin, size)
    return at + size


@inlined
def _write_headers(out: Any, at: Any, headers: Any, row: Any) -> Any:
    ends, valid, base, name_ends, names, value_ends, values, value_valid, value_base = headers
    first, last = np.int64(ends[row]), np.int64(ends[row + 1])
    if _null(valid, row + base):
        last = first
    at = _write(out, at, last - first)
    for header in range(first, last):
        at = _write_value(out, at, name_ends, names, header, False)
        at = _write_value(out, at, value_ends, values, header, _null(value_valid, header + value_base))
    return at


@kernel
def header_sizes(rows: Any, headers: Any, out: Any) -> None:
    """Computes the bytes of each row's headers, including their count."""
    ends, valid, base, name_ends, _, value_ends, _, value_valid, value_base = headers
    for place in range(rows.shape[0]):
        row = rows[place]
        first, last = np.int64(ends[row]), np.int64(ends[row + 1])
        if _null(valid, row + base):
            last = first
        size: Any = _size(last - first)
        for header in range(first, last):
            name = np.int64(name_ends[header + 1]) - np.int64(name_ends[header])
            size += _size(name) + name
            if _null(value_valid, header + value_base):
                size += 1
            else:
                value = np.int64(value_ends[header + 1]) - np.int64(value_ends[header])
                size += _size(value) + value
        out[place] = size


@kernel
def sum_of_lengths(ends: Any, rows: Any) -> Any:
    """Returns the number of bytes of these rows of a column."""
    total = np.int64(0)
    for row in rows:
        total += ends[row + 1] - ends[row]
    return total


@kernel
def encode_records(  # noqa: PLR0915, PLR0917  # one loop, which numba compiles best
    rows: Any,
    timestamps: Any,
    no_timestamp: int,
    keys: Any,
    values: Any,
    with_headers: bool,
    headers: Any,
    sizes: Any,
    limit: int,
    largest: int,
    out: Any,
    table: Any,
) -> Any:
    """Encodes the given rows in order, with space for a batch's header before its records. Returns (number of batches,
    -1), or (size as a batch, index) of a record that exceeds `largest`.

    `keys` and `values`: (ends, bytes, validity, first bit). `headers`: (list ends, list validity, first bit, name ends,
    names, value ends, values, value validity, first bit); `sizes`: the bytes of each row's headers.
    """
    key_ends, key_data, key_valid, key_base = keys
    value_ends, value_data, value_valid, value_base = values
    batch, start, first = 0, 0, 0
    at: Any = _HEADER_BYTES
    base_time: Any = np.int64(0)
    max_time: Any = np.int64(0)
    for place in range(rows.shape[0]):
        row = rows[place]
        time: Any = timestamps[row]
        if time < 0:
            time = no_timestamp
        null_key = _null(key_valid, row + key_base)
        null_value = _null(value_valid, row + value_base)
        key_size = np.int64(0) if null_key else np.int64(key_ends[row + 1]) - np.int64(key_ends[row])
        value_size = np.int64(0) if null_value else np.int64(value_ends[row + 1]) - np.int64(value_ends[row])
        fixed: Any = 1 + key_size + value_size + _size(np.int64(-1) if null_key else key_size)
        fixed += _size(np.int64(-1) if null_value else value_size)
        fixed += sizes[place] if with_headers else 1
        if place == first:
            base_time = time
            max_time = time
        size = fixed + _size(time - base_time) + _size(np.int64(place - first))
        if place > first and at - start + _size(size) + size > limit:
            table[batch, START] = start
            table[batch, END] = at
            table[batch, FIRST] = first
            table[batch, LAST] = place
            table[batch, BASE_TIMESTAMP] = base_time
            table[batch, MAX_TIMESTAMP] = max_time
            batch += 1
            start = at
            first = place
            at += _HEADER_BYTES
            base_time, max_time = time, time
            size = fixed + 2
        if place == first and _HEADER_BYTES + _size(size) + size > largest:
            return _HEADER_BYTES + _size(size) + size, place
        max_time = max(max_time, time)
        at = _write(out, at, size)
        out[at] = 0
        at = _write(out, at + 1, time - base_time)
        at = _write(out, at, np.int64(place - first))
        at = _write_value(out, at, key_ends, key_data, row, null_key)
        at = _write_value(out, at, value_ends, value_data, row, null_value)
        if with_headers:
            at = _write_headers(out, at, headers, row)
        else:
            out[at] = 0
            at += 1
    table[batch, START] = start
    table[batch, END] = at
    table[batch, FIRST] = first
    table[batch, LAST] = rows.shape[0]
    table[batch, BASE_TIMESTAMP] = base_time
    table[batch, MAX_TIMESTAMP] = max_time
    return batch + 1, -1
