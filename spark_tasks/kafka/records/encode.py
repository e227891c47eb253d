"""Encodes an Arrow record batch of columns.RAW_SCHEMA as Kafka record batches (v2)."""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import crc32c
import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import frozen
from spark_tasks.kafka.records import encode_kernels as kernels
from spark_tasks.kafka.records.compression import codec_number, compress
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.kafka.records.flat import NO_COLUMN, NO_HEADERS, Column, binary_column, header_columns, timestamps
from spark_tasks.kafka.records.layout import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    PREFIX,
    SEQUENCE_AT,
    SUFFIX,
    TRANSACTIONAL,
)

Array = np.ndarray[Any, Any]

DEFAULT_BATCH_BYTES: Final = 1_000_000
"""A little less than the default message.max.bytes of brokers (1,048,588)."""

_SEQUENCES: Final = 2**31
_SEQUENCE: Final = struct.Struct(">i")
_CHECKSUM: Final = struct.Struct(">I")
_LENGTHS: Final = 48  # upper bound for a record's length, deltas, key and value lengths and header count


class EncodedBatch(NamedTuple):
    """A record batch as in a produce request, and the number of its records."""

    data: bytes | memoryview
    count: int  # type: ignore[assignment]  # hides tuple.count


def next_sequence(sequence: int, count: int) -> int:
    """Returns the sequence number after `count` records. It wraps to 0 after 2^31 - 1; -1 (no sequence) stays -1."""
    return -1 if sequence < 0 else (sequence + count) % _SEQUENCES


def earlier_sequence(sequence: int, count: int) -> int:
    """Returns the sequence number `count` records before this one; the inverse of `next_sequence`."""
    return -1 if sequence < 0 else (sequence - count) % _SEQUENCES


def sequence_of(data: bytes | memoryview) -> int:
    """Returns the first sequence number in the header of an encoded batch."""
    (sequence,) = _SEQUENCE.unpack_from(data, SEQUENCE_AT)
    return int(sequence)


def with_sequence(data: bytes | memoryview, sequence: int) -> memoryview:
    """Returns a copy of an encoded batch with another first sequence number."""
    copy = bytearray(data)
    _SEQUENCE.pack_into(copy, SEQUENCE_AT, sequence)
    _CHECKSUM.pack_into(copy, CRC_AT, crc32c.crc32c(memoryview(copy)[ATTRIBUTES_AT:]))
    return memoryview(copy).toreadonly()


def encode(
    raw: pa.RecordBatch,
    *,
    rows: Array | None = None,
    no_timestamp: int = NO_TIMESTAMP,
    producer_id: int = -1,
    epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    compression: str | None = None,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    max_record_bytes: int | None = None,
) -> list[EncodedBatch]:
    """Encodes `rows` of `raw` (int64 indexes, in this order; by default all rows) as record batches of at most
    `max_batch_bytes` each.

    Offsets start at 0 in each batch, as brokers require; column `offset` is ignored. A negative or null timestamp
    becomes `no_timestamp` (ms). Columns `headers` and `timestamp` may be missing. `compression`: None, gzip, snappy,
    lz4 or zstd; a batch that compression does not shrink stays uncompressed. A record that exceeds `max_batch_bytes`
    becomes a separate batch; raises RecordTooLargeError if that exceeds `max_record_bytes` (by default the same
    limit).
    """
    rows = frozen(np.arange(len(raw), dtype=np.int64) if rows is None else rows.astype(np.int64, copy=False))
    if len(rows) == 0:
        return []
    codec = codec_number(compression)
    largest = max_batch_bytes if max_record_bytes is None else max(max_record_bytes, max_batch_bytes)
    out, table = _records(raw, rows, no_timestamp, max_batch_bytes, largest)
    result = []
    sequence = base_sequence
    attributes = TRANSACTIONAL if transactional else 0
    for start, end, first, last, base_time, max_time in table.tolist():
        count = last - first
        suffix = (count - 1, base_time, max_time, producer_id, epoch, sequence, count)
        result.append(EncodedBatch(_finished(out[start:end], attributes, codec, suffix), count))
        sequence = next_sequence(sequence, count)
    return result


def _records(raw: pa.RecordBatch, rows: Array, no_timestamp: int, limit: int, largest: int) -> tuple[memoryview, Array]:
    keys, values = _column(raw, "key"), _column(raw, "value")
    headers = header_columns(raw.column("headers")) if "headers" in raw.schema.names else None
    sizes = np.empty(len(rows) if headers else 0, np.int64)
    if headers:
        kernels.header_sizes(rows, headers, sizes)
    times = timestamps(raw.column("timestamp")) if "timestamp" in raw.schema.names else _no_times(len(raw))
    body = len(rows) * _LENGTHS + _bytes_of(keys, rows) + _bytes_of(values, rows) + int(sizes.sum())
    batches = min(len(rows), 2 * body // max(limit, 1) + 2)
    out: Array = np.empty(body + batches * HEADER_BYTES, np.uint8)
    table = np.empty((batches, kernels.COLUMNS), np.int64)
    found, bad = kernels.encode_records(
        rows, times, no_timestamp, keys, values, headers is not None, headers or NO_HEADERS, sizes,
        limit, largest, out, table,
    )  # fmt: skip
    if bad >= 0:
        raise RecordTooLargeError(int(rows[bad]), int(found), largest)
    return memoryview(out.data), table[:found]


def _column(raw: pa.RecordBatch, name: str) -> Column:
    array = raw.column(name)
    return binary_column(array) if len(array) else NO_COLUMN


def _bytes_of(column: Column, rows: Array) -> int:
    """Returns the bytes of the rows, or of the whole column as a fast upper bound if they are most of it (a row is
    never selected twice).
    """
    ends = column[0]
    if 2 * len(rows) > len(ends):
        return int(ends[-1]) - int(ends[0])
    return int(kernels.sum_of_lengths(ends, rows))


def _no_times(rows: int) -> Array:
    return frozen(np.full(rows, NO_TIMESTAMP, np.int64))


def _finished(batch: memoryview, attributes: int, codec: int, suffix: tuple[int, ...]) -> bytes | memoryview:
    """Compresses the records if that makes them smaller, and writes the header."""
    data: bytearray | memoryview = batch
    if codec:
        packed = compress(codec, batch[HEADER_BYTES:])
        if len(packed) + HEADER_BYTES < len(batch):
            data = bytearray(HEADER_BYTES)
            data += packed
            attributes |= codec
    SUFFIX.pack_into(data, ATTRIBUTES_AT, attributes, *suffix)
    view = memoryview(data)
    checksum = crc32c.crc32c(view[ATTRIBUTES_AT:])
    PREFIX.pack_into(data, 0, 0, len(data) - LOG_OVERHEAD, -1, MAGIC, checksum)
    return view.toreadonly()
