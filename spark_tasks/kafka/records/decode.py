"""Decodes Kafka record batches (v2) into Arrow record batches of columns.RAW_SCHEMA."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import crc32c
import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import frozen
from spark_tasks.config.record_limit import DEFAULT_MAX_RECORD_BYTES
from spark_tasks.data.columns import HEADERS_TYPE, LOG_APPEND_SCHEMA, RAW_SCHEMA, no_headers
from spark_tasks.java.utf8 import decoded
from spark_tasks.kafka.records import decode_kernels as kernels
from spark_tasks.kafka.records.errors import CorruptRecordsError, OversizedRecordError
from spark_tasks.kafka.records.layout import (
    ABORT_MARKER,
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    PREFIX,
    SUFFIX,
    TRANSACTIONAL,
)
from spark_tasks.kafka.records.scan import (
    ATTRIBUTES,
    BASE_OFFSET,
    BATCH_AT,
    COUNT,
    CRC,
    END,
    LAST_DELTA,
    PRODUCER_ID,
    START,
    batch_table,
)
from spark_tasks.kafka.records.unpack import WINDOW_BYTES, windows

Array = np.ndarray[Any, Any]
Buffer = bytes | bytearray | memoryview

MAX_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded records (RAW_SCHEMA; `headers` is null for a record without any). `next_offset`: where to continue. It is
    the offset after the last record or, in the last piece, after the last complete batch, including markers and gaps.
    """

    records: pa.RecordBatch
    next_offset: int


def decode(
    data: Buffer,
    *,
    start: int | None = None,
    check_crc: bool = True,
) -> Decoded:
    """Decodes all data into one piece, see `decode_pieces`. Only for data that is known to be small."""
    return joined(decode_pieces(data, start=start, check_crc=check_crc))


def joined(pieces: Iterable[Decoded]) -> Decoded:
    """Returns all pieces of `decode_pieces` as one."""
    *others, last = pieces
    batches = [piece.records for piece in others]
    records = _EMPTY if not batches else batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    return Decoded(records, last.next_offset)


def decode_pieces(
    data: Buffer,
    *,
    start: int | None = None,
    end: int | None = None,
    aborted: Iterable[tuple[int, int]] = (),
    check_crc: bool = True,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Iterator[Decoded]:
    """Yields the records with start <= offset < end of concatenated record batches, the last of which may be truncated.

    Only the last piece has no records. If no batch is complete, its `next_offset` is `start` or 0. Decompresses lazily:
    at most WINDOW_BYTES, or one record, at a time. `aborted`: (producer id, first offset) of aborted transactions as
    in a fetch response; their records are skipped (read_committed). Control batches are always skipped.

    Raises CorruptRecordsError, OversizedRecordError (only for a record in the range) or UnsupportedFormatError after it
    has yielded the records before the damage.
    """
    array = frozen(np.frombuffer(data, np.uint8))
    table = batch_table(array)
    if len(table) == 0:
        yield Decoded(_EMPTY, 0 if start is None else start)
        return
    next_offset = int(table[-1, BASE_OFFSET] + table[-1, LAST_DELTA] + 1)
    low = 0 if start is None else start
    high = MAX_OFFSET if end is None else end
    damage = _wrong_crc(data, table) if check_crc else None
    if damage is not None:
        table = table[table[:, BATCH_AT] < damage.position]
    wanted = _selected(data, table, low, high, sorted(aborted, key=lambda item: item[1]))
    if (wanted[:, ATTRIBUTES] & COMPRESSION_MASK).any():
        found = windows(memoryview(data), wanted, low, high, max_record_bytes, WINDOW_BYTES)
    else:
        found = iter([(array, wanted)] if len(wanted) else [])
    for content, batches in found:
        records, error = _valid_records(content, batches, low, high, max_record_bytes)
        if len(records):
            yield Decoded(records, records.column(0)[len(records) - 1].as_py() + 1)
        if error is not None:
            raise error
        del records  # frees their memory before the next ones are decoded
    if damage is not None:
        raise damage
    yield Decoded(_EMPTY, next_offset)


@dataclass(frozen=True, slots=True)
class Piece:
    """Record batches of one partition with the records from `start` to `end` (exclusive), and maybe earlier ones."""

    data: bytes
    start: int
    end: int


def decode_together(
    pieces: Sequence[Piece], max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES
) -> tuple[pa.RecordBatch, list[int]] | None:
    """Decodes the records of several partitions at once, which for few records takes hardly longer than for one.
    Returns the records of all pieces in order, and their number in each.

    Returns None if a piece has to be decoded by itself (`decode_pieces`): if its batches are damaged, have other
    offsets, are compressed or part of a transaction. Raises CorruptRecordsError or OversizedRecordError.
    """
    rows: list[_Row] = []
    counts, at = [], 0
    for piece in pieces:
        found = _plain_rows(piece, at)
        if not found:
            return None
        counts.append(sum(row[COUNT] for row in found))
        rows += found
        at += len(piece.data)
    data, table = b"".join(piece.data for piece in pieces), np.array(rows, np.int64)
    records = _columns(frozen(np.frombuffer(data, np.uint8)), table, 0, MAX_OFFSET, max_record_bytes)
    return (records, counts) if len(records) == sum(counts) else None


_Row = tuple[int, int, int, int, int, int, int, int, int, int, int, int]  # of a table, see scan.py


def _plain_rows(piece: Piece, begin: int) -> list[_Row] | None:
    """Returns the table's rows for a piece that begins at this position. Uses no kernel, since calling one costs more
    for a few batches. Returns None in the same cases as `decode_together`.
    """
    data, view, size = piece.data, memoryview(piece.data), len(piece.data)
    rows: list[_Row] = []
    at, last = 0, -1
    while at < size:
        if size - at < HEADER_BYTES:
            return None
        base, length, _, magic, crc = PREFIX.unpack_from(data, at)
        attributes, delta, first, newest, producer, _, _, count = SUFFIX.unpack_from(data, at + ATTRIBUTES_AT)
        end = at + LOG_OVERHEAD + length
        complete = magic == MAGIC and HEADER_BYTES <= end - at <= size - at
        if not complete or delta < 0 or not 0 <= count <= delta + 1 or base <= last:
            return None
        if attributes & (COMPRESSION_MASK | CONTROL | TRANSACTIONAL):
            return None
        last = base + delta
        if base >= piece.start:
            if (not rows and base != piece.start) or crc32c.crc32c(view[at + ATTRIBUTES_AT : end]) != crc:
                return None
            same = attributes & LOG_APPEND_TIME
            rows.append((begin + at, begin + at + HEADER_BYTES, begin + end, count, base, delta,
                         newest if same else first, same, attributes, producer, crc, -1))
        at = end
    return rows if last + 1 == piece.end else None


def _wrong_crc(data: Buffer, table: Array) -> CorruptRecordsError | None:
    view = memoryview(data)
    checksum = crc32c.crc32c
    for at, stop, expected, offset in table[:, [BATCH_AT, END, CRC, BASE_OFFSET]].tolist():
        if checksum(view[at + ATTRIBUTES_AT : stop]) != expected:
            return CorruptRecordsError("its checksum is wrong", at, offset)
    return None


def _selected(data: Buffer, table: Array, low: int, high: int, aborted: list[tuple[int, int]]) -> Array:
    """Returns the rows of `table` whose batches have records to return."""
    attributes = table[:, ATTRIBUTES]
    keep = (attributes & CONTROL) == 0
    keep &= table[:, COUNT] > 0
    keep &= (table[:, BASE_OFFSET] + table[:, LAST_DELTA] >= low) & (table[:, BASE_OFFSET] < high)
    if aborted:
        keep &= ~_in_aborted(data, table, aborted)
    return table if keep.all() else np.ascontiguousarray(table[keep])


def _in_aborted(data: Buffer, table: Array, aborted: list[tuple[int, int]]) -> Array:
    """Returns for each batch whether it is part of an aborted transaction (bool array): from the transaction's first
    offset to the producer's next abort marker (KIP-98).
    """
    result = np.zeros(len(table), np.bool_)
    active: set[int] = set()
    upcoming = 0
    columns = table[:, [BASE_OFFSET, LAST_DELTA, PRODUCER_ID, ATTRIBUTES, START, END]].tolist()
    for row, (base, delta, producer, attributes, start, end) in enumerate(columns):
        while upcoming < len(aborted) and aborted[upcoming][1] <= base + delta:
            active.add(aborted[upcoming][0])
            upcoming += 1
        if producer not in active:
            continue
        if attributes & CONTROL:
            if _control_type(bytes(data[start:end])) == ABORT_MARKER:
                active.discard(producer)
        elif attributes & TRANSACTIONAL:
            result[row] = True
    return result


def _control_type(record: bytes) -> int:
    """Returns the type in a control record's key (KIP-98: version int16, type int16), or -1 if there is no such key.
    Control records are small: their length, offset delta and key length take one byte each; only the timestamp delta
    may take more.
    """
    at = 2  # length, attributes
    while at < len(record) and record[at] & 0x80:  # timestamp delta
        at += 1
    at += 3  # the delta's last byte, the offset delta, the key's length
    return int.from_bytes(record[at + 2 : at + 4], "big", signed=True) if at + 4 <= len(record) else -1


def _valid_records(
    data: Array, table: Array, low: int, high: int, max_record_bytes: int
) -> tuple[pa.RecordBatch, CorruptRecordsError | OversizedRecordError | None]:
    """Returns the records before the first damaged batch, and the error of that batch (None without damage)."""
    try:
        return _columns(data, table, low, high, max_record_bytes), None
    except OversizedRecordError as error:
        before = table[table[:, BASE_OFFSET] <= error.offset]
        return _columns(data, before, low, error.offset, max_record_bytes), error
    except CorruptRecordsError as error:
        before = table[table[:, BASE_OFFSET] < (error.offset or 0)]
        return _columns(data, before, low, high, max_record_bytes) if len(before) else _EMPTY, error


def _columns(data: Array, table: Array, low: int, high: int, max_record_bytes: int) -> pa.RecordBatch:
    report = np.zeros(kernels.REPORT_LENGTH, np.int64)
    impossible = kernels.measure(table, report)
    if impossible >= 0:
        raise _corrupt("it is too short for its number of records", table[impossible])
    rows, room = int(report[kernels.ROWS]), int(report[kernels.VALUE_BYTES])
    offsets, timestamps = np.empty(rows, np.int64), np.empty(rows, np.int64)
    keys, values = _Bytes(rows, room), _Bytes(rows, room)
    error = kernels.decode_records(
        data, table, low, high, max_record_bytes, offsets, timestamps,
        keys.ends, keys.data, keys.valid, values.ends, values.data, values.valid, report,
    )  # fmt: skip
    _refuse(error, report, table, max_record_bytes)
    count = int(report[kernels.ROWS])
    headers = no_headers(count)
    if report[kernels.HEADERS]:
        headers = _headers(data, table, low, high, count)
    return pa.RecordBatch.from_arrays(
        [
            pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(offsets)]),
            pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(timestamps)]),
            keys.array(pa.binary(), count, int(report[kernels.KEY_BYTES]), int(report[kernels.KEY_NULLS])),
            values.array(pa.binary(), count, int(report[kernels.VALUE_BYTES]), int(report[kernels.VALUE_NULLS])),
            headers,
        ],
        schema=LOG_APPEND_SCHEMA if table[0, ATTRIBUTES] & LOG_APPEND_TIME else RAW_SCHEMA,
    )


def _headers(data: Array, table: Array, low: int, high: int, count: int) -> pa.Array:
    room = int((table[:, END] - table[:, START]).sum())
    ends, present = np.empty(count + 1, np.int32), np.full((count + 7) // 8, 0xFF, np.uint8)
    names, values = _Bytes(room // 2, room), _Bytes(room // 2, room)
    report = np.zeros(kernels.REPORT_LENGTH, np.int64)
    error = kernels.decode_headers(
        data, table, low, high, ends, present,
        names.ends, names.data, values.ends, values.data, values.valid, report,
    )  # fmt: skip
    _refuse(error, report, table)
    total = int(report[kernels.ROWS])
    name_array = names.array(pa.string(), total, int(report[kernels.KEY_BYTES]), 0)
    value_array = values.array(pa.binary(), total, int(report[kernels.VALUE_BYTES]), int(report[kernels.VALUE_NULLS]))
    item = HEADERS_TYPE.value_type
    structs = pa.StructArray.from_arrays([_readable(name_array), value_array], fields=list(item))
    return pa.Array.from_buffers(
        HEADERS_TYPE, count, [pa.py_buffer(present), pa.py_buffer(ends)], children=[structs],
    )  # fmt: skip


def _readable(names: pa.Array) -> pa.Array:
    """Replaces invalid UTF-8, which some clients allow in names of headers, with U+FFFD, as Java does."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raw = names.view(pa.binary()).to_pylist()
        return pa.array([decoded(name) for name in raw], pa.string())
    return names


def _refuse(error: int, report: Array, table: Array, max_record_bytes: int = 0) -> None:
    if error == kernels.TOO_LARGE:
        raise OversizedRecordError(int(report[kernels.LARGE_SIZE]), max_record_bytes, int(report[kernels.LARGE_OFFSET]))
    if error:
        raise _corrupt(kernels.REASONS[error], table[report[kernels.BAD_BATCH]])


def _corrupt(reason: str, batch: Array) -> CorruptRecordsError:
    return CorruptRecordsError(reason, int(batch[BATCH_AT]), int(batch[BASE_OFFSET]))


class _Bytes:
    """Buffers for a variable-size column: the end of each value, the bytes, and which values are not null."""

    __slots__ = ("data", "ends", "valid")

    def __init__(self, rows: int, room: int) -> None:
        self.ends: Array = np.empty(rows + 1, np.int32)
        self.data: Array = np.empty(room, np.uint8)
        self.valid: Array = np.full((rows + 7) // 8, 0xFF, np.uint8)

    def array(self, kind: pa.DataType, rows: int, size: int, nulls: int) -> pa.Array:
        # The buffer has an upper bound of the size. If most of it is unused, a copy frees the rest.
        data = self.data[:size] if size * 2 > len(self.data) else self.data[:size].copy()
        valid = pa.py_buffer(self.valid) if nulls else None
        return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(self.ends), pa.py_buffer(data)], nulls)


_EMPTY = pa.RecordBatch.from_pylist([], schema=RAW_SCHEMA)
