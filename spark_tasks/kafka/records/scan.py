"""Finds the batches in a fetch response. Reads only their headers, so it is cheap enough for the IO thread."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from spark_tasks.arrays.buffers import frozen
from spark_tasks.arrays.jit import inlined, kernel
from spark_tasks.kafka.records.errors import CorruptRecordsError, UnsupportedFormatError
from spark_tasks.kafka.records.layout import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    BATCH_LENGTH_AT,
    COUNT_AT,
    CRC_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL,
)

# Columns of the table of batches. The records (compressed, if the batch is) are at the bytes from START to END.
# TIMESTAMP is the base of the records' deltas or, if APPEND_TIME is set, the timestamp of all of them.
BATCH_AT, START, END, COUNT, BASE_OFFSET, LAST_DELTA = 0, 1, 2, 3, 4, 5
# PREVIOUS is the offset delta before the first record: -1 unless the row is a later part of a batch.
TIMESTAMP, APPEND_TIME, ATTRIBUTES, PRODUCER_ID, CRC, PREVIOUS = 6, 7, 8, 9, 10, 11
COLUMNS: Final = 12

_BAD_LENGTH, _BAD_MAGIC, _BAD_COUNT, _BAD_OFFSET = 1, 2, 3, 4
_LARGEST = 2**63 - 1
_REASONS = {
    _BAD_LENGTH: "its length is less than a batch header's",
    _BAD_COUNT: "its record count is invalid",
    _BAD_OFFSET: "its offset is invalid",
}


@inlined
def _big_endian(data: Any, at: Any, size: int) -> Any:
    value = np.uint64(0)
    for i in range(size):
        value = (value << np.uint64(8)) | np.uint64(data[at + i])
    return np.int64(value)


@kernel
def count_batches(data: Any) -> Any:
    """Returns the number of complete batches, according to the length fields."""
    at: Any = 0
    batches, size = 0, data.shape[0]
    while size - at >= LOG_OVERHEAD:
        length = np.int64(np.int32(_big_endian(data, at + BATCH_LENGTH_AT, 4)))
        if length < HEADER_BYTES - LOG_OVERHEAD:
            return batches + 1  # scan_batches reports the error
        if length + LOG_OVERHEAD > size - at:
            return batches
        at += length + LOG_OVERHEAD
        batches += 1
    return batches


@kernel
def scan_batches(data: Any, table: Any) -> Any:
    """Fills the table with one row per batch. Returns (0, number of rows), or (error, row)."""
    at: Any = 0
    previous = np.int64(-1)
    for row in range(table.shape[0]):
        length = np.int64(np.int32(_big_endian(data, at + BATCH_LENGTH_AT, 4)))
        table[row, BATCH_AT] = at
        if length >= 5 and data.shape[0] - at > MAGIC_AT and data[at + MAGIC_AT] != MAGIC:
            return _BAD_MAGIC, row
        if length < HEADER_BYTES - LOG_OVERHEAD:
            return _BAD_LENGTH, row
        count = np.int64(np.int32(_big_endian(data, at + COUNT_AT, 4)))
        base = _big_endian(data, at, 8)
        delta = np.int64(np.int32(_big_endian(data, at + LAST_OFFSET_DELTA_AT, 4)))
        if count < 0 or count - 1 > delta:
            return _BAD_COUNT, row
        if base <= previous or delta < 0 or base >= _LARGEST - delta:
            return _BAD_OFFSET, row
        previous = base + delta
        table[row, START] = at + HEADER_BYTES
        table[row, END] = at + LOG_OVERHEAD + length
        table[row, COUNT] = count
        table[row, BASE_OFFSET] = base
        table[row, LAST_DELTA] = delta
        attributes = _big_endian(data, at + ATTRIBUTES_AT, 2)
        append_time = attributes & LOG_APPEND_TIME
        table[row, ATTRIBUTES] = attributes
        table[row, APPEND_TIME] = append_time
        table[row, TIMESTAMP] = _big_endian(data, at + (MAX_TIMESTAMP_AT if append_time else BASE_TIMESTAMP_AT), 8)
        table[row, PRODUCER_ID] = _big_endian(data, at + PRODUCER_ID_AT, 8)
        table[row, CRC] = _big_endian(data, at + CRC_AT, 4)
        table[row, PREVIOUS] = -1
        at += length + LOG_OVERHEAD
    return 0, table.shape[0]


def batch_table(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the table of complete batches: int64, one row per batch, with the columns above. The last batch of `data`
    may be truncated. Does not verify checksums.

    Raises CorruptRecordsError or UnsupportedFormatError if the first batch is damaged. Otherwise the table ends before
    a damaged batch, with which the next fetch starts.
    """
    data = frozen(data)
    if data.shape[0] > MAGIC_AT and data[MAGIC_AT] != MAGIC:
        raise _refusal(data, _BAD_MAGIC)
    table = np.empty((count_batches(data), COLUMNS), np.int64)
    error, row = scan_batches(data, table)
    if error and row == 0:
        raise _refusal(data, error)
    return table[:row] if error else table


def first_batch_bytes(data: bytes) -> int | None:
    """Returns the size of the first batch in bytes, according to its header; None if the header is truncated."""
    if len(data) < LOG_OVERHEAD:
        return None
    return LOG_OVERHEAD + int.from_bytes(data[BATCH_LENGTH_AT:LOG_OVERHEAD], "big", signed=True)


def next_offset(data: np.ndarray[Any, Any]) -> int | None:
    """Returns the offset after the last complete batch, or None if there is none."""
    table = batch_table(data)
    return None if len(table) == 0 else int(table[-1, BASE_OFFSET] + table[-1, LAST_DELTA] + 1)


def has_transactions(data: np.ndarray[Any, Any]) -> bool:
    """Returns whether any complete batch is part of a transaction."""
    return bool((batch_table(data)[:, ATTRIBUTES] & TRANSACTIONAL).any())


def _refusal(data: np.ndarray[Any, Any], error: int) -> Exception:
    if error != _BAD_MAGIC:
        return CorruptRecordsError(_REASONS[error], 0)
    magic = int(data[MAGIC_AT])
    if magic in (0, 1):
        return UnsupportedFormatError(
            f"the records have message format v{magic}, from before Kafka 0.11; only format v2 is supported. "
            "Rewrite the topic with a client of Kafka 0.11 or newer",
        )
    return CorruptRecordsError(f"unknown format {magic}", 0)
