"""Decompresses the records of compressed batches one window at a time. Whatever the size of a batch, only one window is
in memory, or one record if that is larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from spark_tasks.arrays.buffers import frozen
from spark_tasks.kafka.records import decode_kernels as kernels
from spark_tasks.kafka.records.compression import BlockTooLargeError, DecompressError, Decompressor, decompress_into
from spark_tasks.kafka.records.errors import CorruptRecordsError, OversizedRecordError
from spark_tasks.kafka.records.layout import COMPRESSION_MASK
from spark_tasks.kafka.records.scan import ATTRIBUTES, BASE_OFFSET, BATCH_AT, COUNT, END, LAST_DELTA, PREVIOUS, START

Array = np.ndarray[Any, Any]
Window = tuple[Array, Array]
"""Bytes, valid until the next window, and the table (see scan) of the batches or parts of batches in them."""

WINDOW_BYTES: Final = 32 * 1024 * 1024


def windows(
    data: memoryview, table: Array, low: int, high: int, max_record_bytes: int, room: int
) -> Iterator[Window]:
    """Yields the batches of `table` (see scan), whose records are in `data`, window by window. Stops reading a batch at
    offset `high`. `max_record_bytes`: the largest allowed size of a record with an offset of at least `low`; `room`:
    the size of a window in bytes, at least 64. Raises CorruptRecordsError, OversizedRecordError and
    UnsupportedFormatError.
    """
    arena: Array = np.empty(room, np.uint8)
    view = memoryview(arena.data)
    first = at = 0
    places = table[:, [START, END, ATTRIBUTES]].tolist()
    table = table.copy()
    for row, (start, end, attributes) in enumerate(places):
        block, codec = data[start:end], attributes & COMPRESSION_MASK
        size = decompress_into(codec, block, view[at:])
        if size is None and at:
            yield frozen(arena), table[first:row]
            first, at = row, 0
            size = decompress_into(codec, block, view)
        if size is None:
            yield from _Batch(codec, block, table[row : row + 1], max_record_bytes).windows(arena, low, high)
            first = row + 1
            continue
        table[row, START], table[row, END] = at, at + size
        at += size
    if first < len(table):
        yield frozen(arena), table[first:]


class _Batch:
    """One batch that is larger than a window, or damaged."""

    def __init__(self, codec: int, block: memoryview, row: Array, max_record_bytes: int) -> None:
        self._row = row
        self._max_record_bytes = max_record_bytes
        self._source = Decompressor(codec, block, max(max_record_bytes, WINDOW_BYTES))
        self._report = np.zeros(kernels.COUNTED, np.int64)
        self._left = int(row[0, COUNT])
        self._previous = -1

    def windows(self, buffer: Array, low: int, high: int) -> Iterator[Window]:
        base, filled = int(self._row[0, BASE_OFFSET]), 0
        while self._left and base + self._previous + 1 < high:
            size = self._read(buffer[filled:])
            ended, filled = size < len(buffer) - filled, filled + size
            self._count(buffer, filled)
            report = self._report
            if complete := int(report[kernels.COMPLETE]):
                yield frozen(buffer), self._part(complete, int(report[kernels.BEHIND]))
                self._passed(complete, int(report[kernels.LAST]))
                rest = filled - int(report[kernels.BEHIND])
                buffer[:rest] = buffer[filled - rest : filled].copy()
                filled = rest
            elif ended:
                raise self._corrupt("it has fewer records than its header says, or its last record is truncated")
            elif low <= (offset := base + int(report[kernels.NEXT])):
                if report[kernels.NEXT_LENGTH] > self._max_record_bytes:
                    raise OversizedRecordError(int(report[kernels.NEXT_LENGTH]), self._max_record_bytes, offset)
                larger = np.empty(int(report[kernels.NEXT_BYTES]), np.uint8)
                larger[:filled] = buffer[:filled]
                buffer = larger
            else:
                self._skip(buffer, int(report[kernels.NEXT_BYTES]) - filled)
                filled = 0
        if not self._left and (filled or self._read(buffer[:1])):
            raise self._corrupt(kernels.REASONS[kernels.BAD_TAIL])

    def _read(self, out: Array) -> int:
        try:
            return self._source.read_into(memoryview(out.data))
        except BlockTooLargeError as error:
            first = int(self._row[0, BASE_OFFSET]) + self._previous + 1
            limit = self._max_record_bytes
            raise OversizedRecordError(error.size, limit, first, "the snappy block of records") from error
        except DecompressError as error:
            raise self._corrupt(f"its records cannot be decompressed: {error}") from error

    def _count(self, buffer: Array, filled: int) -> None:
        error = kernels.count_records(frozen(buffer), filled, self._left, self._previous, self._report)
        if error:
            raise self._corrupt(kernels.REASONS[error])

    def _part(self, count: int, end: int) -> Array:
        part = self._row.copy()
        part[0, START], part[0, END], part[0, COUNT], part[0, PREVIOUS] = 0, end, count, self._previous
        return part

    def _skip(self, buffer: Array, size: int) -> None:
        """Skips the rest (`size` bytes) of a large record before offset `low`."""
        delta = int(self._report[kernels.NEXT])
        if not self._previous < delta <= self._row[0, LAST_DELTA]:
            raise self._corrupt(kernels.REASONS[kernels.BAD_OFFSET_DELTA])
        while size:
            skipped = self._read(buffer[:size])
            if not skipped:
                raise self._corrupt("its last record is truncated")
            size -= skipped
        self._passed(1, delta)

    def _passed(self, count: int, delta: int) -> None:
        self._left -= count
        self._previous = delta

    def _corrupt(self, reason: str) -> CorruptRecordsError:
        return CorruptRecordsError(reason, int(self._row[0, BATCH_AT]), int(self._row[0, BASE_OFFSET]))
