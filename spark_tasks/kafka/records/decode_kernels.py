"""Decodes the bytes of records into flat arrays. Every length is checked against its container before it is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_tasks.arrays.jit import inlined, kernel
from spark_tasks.arrays.memory import copy_bytes
from spark_tasks.kafka.records.layout import SMALLEST_RECORD
from spark_tasks.kafka.records.scan import APPEND_TIME, BASE_OFFSET, COUNT, END, LAST_DELTA, PREVIOUS, START, TIMESTAMP

# Indexes into the kernels' output array `report` (int64).
ROWS, KEY_BYTES, VALUE_BYTES, KEY_NULLS, VALUE_NULLS, HEADERS, BAD_BATCH, BAD_BYTE = 0, 1, 2, 3, 4, 5, 6, 7
LARGE_OFFSET, LARGE_SIZE = 8, 9
REPORT_LENGTH = 10

OK, BAD_RECORD_LENGTH, BAD_OFFSET_DELTA, BAD_KEY, BAD_VALUE, BAD_HEADERS, BAD_TAIL, TOO_LARGE = 0, 1, 2, 3, 4, 5, 6, 7
REASONS = {
    BAD_RECORD_LENGTH: "a record is longer or shorter than its batch allows",
    BAD_OFFSET_DELTA: "a record's timestamp or offset is invalid",
    BAD_KEY: "a key's length is invalid",
    BAD_VALUE: "a value's length is invalid",
    BAD_HEADERS: "a record's headers do not end where the record ends",
    BAD_TAIL: "there are bytes after the last record",
}


@inlined
def _varint(data: Any, at: Any, end: Any) -> Any:
    """Returns (value, index of the next byte). The index is -1 if the number has over ten bytes or exceeds `end`."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    byte = np.int64(data[at])
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    number = np.uint64(byte & 0x7F)
    shift = np.uint64(7)
    while True:
        if at >= end or shift > np.uint64(63):
            return np.int64(0), np.int64(-1)
        byte = np.int64(data[at])
        at += 1
        number |= np.uint64(byte & 0x7F) << shift
        shift += np.uint64(7)
        if byte < 128:
            break
    return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), at


@kernel
def measure(batches: Any, report: Any) -> int:
    """Writes the number of records and of their bytes to `report`. Returns the first batch that is too short for its
    records, or -1. (numpy does that as fast for many batches, but takes 0.1 ms for one if its code is in no cache.)
    """
    rows, size, impossible = 0, 0, -1
    for batch in range(batches.shape[0]):
        count, room = batches[batch, COUNT], batches[batch, END] - batches[batch, START]
        if impossible < 0 and count * SMALLEST_RECORD > room:
            impossible = batch
        rows += count
        size += room
    report[ROWS] = rows
    report[VALUE_BYTES] = size
    return impossible


@kernel
def decode_records(  # noqa: C901, PLR0911, PLR0912, PLR0915, PLR0917  # one loop, which numba compiles best
    data: Any,
    batches: Any,
    low: int,
    high: int,
    max_record_bytes: int,
    offsets: Any,
    timestamps: Any,
    key_ends: Any,
    keys: Any,
    key_valid: Any,
    value_ends: Any,
    values: Any,
    value_valid: Any,
    report: Any,
) -> int:
    """Decodes the records with low <= offset < high into the arrays. `max_record_bytes`: the size of the largest
    allowed record. Returns OK or an error; `report` then has the batch and the byte.
    """
    row, key_at, value_at = 0, 0, 0
    key_nulls, value_nulls, with_headers = 0, 0, 0
    key_ends[0] = 0
    value_ends[0] = 0
    for batch in range(batches.shape[0]):
        report[BAD_BATCH] = batch
        at = batches[batch, START]
        stop = batches[batch, END]
        base_offset = batches[batch, BASE_OFFSET]
        last_delta = batches[batch, LAST_DELTA]
        base_timestamp = batches[batch, TIMESTAMP]
        append_time = batches[batch, APPEND_TIME] != 0
        previous: Any = batches[batch, PREVIOUS]
        for _ in range(batches[batch, COUNT]):
            report[BAD_BYTE] = at
            length, at = _varint(data, at, stop)
            if at < 0 or length < 6 or length > stop - at:
                return BAD_RECORD_LENGTH
            end = at + length
            delta_time, at = _varint(data, at + 1, end)
            if at < 0:
                return BAD_OFFSET_DELTA
            delta, at = _varint(data, at, end)
            if at < 0 or delta <= previous or delta > last_delta:
                return BAD_OFFSET_DELTA
            previous = delta
            key_size, at = _varint(data, at, end)
            if at < 0 or key_size < -1 or key_size > end - at:
                return BAD_KEY
            key_from = at
            if key_size > 0:
                at += key_size
            value_size, at = _varint(data, at, end)
            if at < 0 or value_size < -1 or value_size > end - at:
                return BAD_VALUE
            value_from = at
            if value_size > 0:
                at += value_size
            headers, at = _varint(data, at, end)
            if at < 0 or headers < 0 or (headers == 0 and at != end):
                return BAD_HEADERS
            at = end
            offset = base_offset + delta
            if offset < low or offset >= high:
                continue
            if length > max_record_bytes:
                report[LARGE_OFFSET] = offset
                report[LARGE_SIZE] = length
                return TOO_LARGE
            with_headers += headers > 0
            offsets[row] = offset
            timestamps[row] = base_timestamp if append_time else base_timestamp + delta_time
            if key_size >= 0:
                copy_bytes(keys, key_at, data, key_from, key_size)
                key_at += key_size
            else:
                key_nulls += 1
                key_valid[row >> 3] &= np.uint8(~(1 << (row & 7)) & 0xFF)
            if value_size >= 0:
                copy_bytes(values, value_at, data, value_from, value_size)
                value_at += value_size
            else:
                value_nulls += 1
                value_valid[row >> 3] &= np.uint8(~(1 << (row & 7)) & 0xFF)
            row += 1
            key_ends[row] = key_at
            value_ends[row] = value_at
        if at != stop:
            report[BAD_BYTE] = at
            return BAD_TAIL
    report[ROWS] = row
    report[KEY_BYTES] = key_at
    report[VALUE_BYTES] = value_at
    report[KEY_NULLS] = key_nulls
    report[VALUE_NULLS] = value_nulls
    report[HEADERS] = with_headers
    return OK


# Indexes into the output array of count_records (int64). COMPLETE: the number of complete records; BEHIND: the byte
# after them; LAST: the offset delta of the last one. For the incomplete record: NEXT is its offset delta (-1 if
# unknown), NEXT_LENGTH its length without and NEXT_BYTES with the length field (0 if unknown).
COMPLETE, BEHIND, LAST, NEXT, NEXT_LENGTH, NEXT_BYTES = 0, 1, 2, 3, 4, 5
COUNTED = 6


@kernel
def count_records(data: Any, size: int, count: int, previous: int, report: Any) -> int:
    """Counts how many of the next `count` records of a batch are complete in the first `size` bytes. `previous`: the
    offset delta before them. Fills `report`; returns OK or an error.
    """
    at: Any = np.int64(0)
    report[COMPLETE], report[BEHIND], report[LAST] = 0, 0, previous
    report[NEXT], report[NEXT_LENGTH], report[NEXT_BYTES] = -1, 0, 0
    for _ in range(count):
        begin = at
        length, at = _varint(data, at, size)
        if at < 0:
            return OK if size - begin < 10 else BAD_RECORD_LENGTH
        if length < 6:
            return BAD_RECORD_LENGTH
        report[NEXT_LENGTH], report[NEXT_BYTES] = length, length + at - begin
        end = min(at + length, np.int64(size))
        _, at = _varint(data, at + 1, end)
        if at < 0:
            return OK if size - begin < 30 else BAD_OFFSET_DELTA
        delta, at = _varint(data, at, end)
        if at < 0:
            return OK if size - begin < 30 else BAD_OFFSET_DELTA
        if length > size - begin - (report[NEXT_BYTES] - length):
            report[NEXT] = delta
            return OK
        report[COMPLETE] += 1
        at = begin + report[NEXT_BYTES]
        report[BEHIND], report[LAST] = at, delta
        report[NEXT_LENGTH], report[NEXT_BYTES] = 0, 0
    return OK


@kernel
def decode_headers(  # noqa: PLR0917
    data: Any,
    batches: Any,
    low: int,
    high: int,
    ends: Any,
    present: Any,
    name_ends: Any,
    names: Any,
    value_ends: Any,
    values: Any,
    value_valid: Any,
    report: Any,
) -> int:
    """Decodes the headers of the records that decode_records has decoded, and so has checked up to the headers. Returns
    OK or an error.
    """
    row, header, name_at, value_at, nulls = 0, 0, 0, 0, 0
    ends[0] = 0
    name_ends[0] = 0
    value_ends[0] = 0
    for batch in range(batches.shape[0]):
        report[BAD_BATCH] = batch
        at = batches[batch, START]
        stop = batches[batch, END]
        for _ in range(batches[batch, COUNT]):
            report[BAD_BYTE] = at
            length, at = _varint(data, at, stop)
            end = at + length
            _, at = _varint(data, at + 1, end)
            delta, at = _varint(data, at, end)
            key_size, at = _varint(data, at, end)
            value_size, at = _varint(data, at + max(key_size, 0), end)
            count, at = _varint(data, at + max(value_size, 0), end)
            offset = batches[batch, BASE_OFFSET] + delta
            taken = low <= offset < high
            for _ in range(count):
                name_size, at = _varint(data, at, end)
                if at < 0 or name_size < 0 or name_size > end - at:
                    return BAD_HEADERS
                name_from = at
                size, at = _varint(data, at + name_size, end)
                if at < 0 or size < -1 or size > end - at:
                    return BAD_HEADERS
                if taken:
                    copy_bytes(names, name_at, data, name_from, name_size)
                    name_at += name_size
                    if size >= 0:
                        copy_bytes(values, value_at, data, at, size)
                        value_at += size
                    else:
                        nulls += 1
                        value_valid[header >> 3] &= np.uint8(~(1 << (header & 7)) & 0xFF)
                    header += 1
                    name_ends[header] = name_at
                    value_ends[header] = value_at
                at += max(size, 0)
            if at != end:
                return BAD_HEADERS
            if taken:
                if count == 0:
                    present[row >> 3] &= np.uint8(~(1 << (row & 7)) & 0xFF)
                row += 1
                ends[row] = header
    report[ROWS] = header
    report[KEY_BYTES] = name_at
    report[VALUE_BYTES] = value_at
    report[VALUE_NULLS] = nulls
    return OK
