"""The records of internal topics, as kafka-python's consumer reads them, with three additions.

- A poll also returns how far it has read, where control records, aborted transactions or compaction leave no record at
  the end. Whoever waits for the end of a topic would otherwise wait for the next record.
- Batches are decompressed by the codecs of spark_tasks/kafka/records, which know all of Kafka's formats and have a
  limit. kafka-python has no limit, and needs more packages for formats other than gzip.
- Whatever brokers accept can be read: names of headers that are not UTF-8, and unknown attributes. kafka-python takes
  such a record for a damaged one, and nothing behind it could be read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.default_records import ControlRecord, DefaultRecord, DefaultRecordBatch
from kafka.record.util import decode_varint
from typing_extensions import override

_logger = logging.getLogger(__name__)

MAX_BYTES: Final = 100_000_000
"""The largest decompressed batch. Batches are decompressed as a whole and must not exhaust the worker's memory."""


class EndMark(NamedTuple):
    """All offsets up to and including this one have been read."""

    offset: int


def mark_ends(consumer: KafkaConsumer) -> None:
    """Makes `consumer.poll()` return an EndMark after a partition's records if its position after the fetch is more
    than the last record's offset plus one.
    """
    consumer._fetcher.PartitionRecords = FetchedRecords  # noqa: SLF001  (no public hook)


class FetchedRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """The records of one partition in one fetch response; see `mark_ends`."""

    @override
    def _unpack_records(self, tp: Any, records: Any, *deserializers: Any) -> Iterator[Any]:
        offset = self.fetch_offset - 1
        for record in super()._unpack_records(tp, _Batches(tp, records), *deserializers):
            offset = record.offset
            yield record
        if self.next_fetch_offset - 1 > offset:
            yield EndMark(self.next_fetch_offset - 1)


class _Batches:
    """Record batches of which all can be read."""

    def __init__(self, partition: Any, records: Any) -> None:
        self._partition = partition
        self._records = records

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        return batch if batch is None or batch.magic < 2 else _Batch(self._partition, batch._buffer)  # noqa: SLF001


class _Batch(DefaultRecordBatch):  # type: ignore[misc]
    """A batch. It has no records, and a warning is logged, if it cannot be decompressed."""

    _buffer: bytes | bytearray
    _pos: int
    _num_records: int
    _decompressed: bool

    def __init__(self, partition: Any, data: bytearray) -> None:
        super().__init__(data)
        self._partition = partition

    @override
    def _read_msg(self, decode_varint: Any = decode_varint) -> Any:
        buffer = self._buffer
        length, start = decode_varint(buffer, self._pos)
        delta_ms, at = decode_varint(buffer, start + 1)  # the attributes before it are a byte without a meaning
        delta, at = decode_varint(buffer, at)
        key, at = _nullable(buffer, at)
        value, at = _nullable(buffer, at)
        count, at = decode_varint(buffer, at)
        headers = []
        for _ in range(count):
            name, at = _nullable(buffer, at)
            content, at = _nullable(buffer, at)
            if name is None:
                raise CorruptRecordError("a header has no name")
            headers.append((name.decode(errors="replace"), content))  # as in Java
        if count < 0 or at != start + length:
            raise CorruptRecordError(f"a record of {length} bytes has {at - start} bytes and {count} headers")
        self._pos = at
        kind = self.timestamp_type
        timestamp = self.max_timestamp if kind == self.LOG_APPEND_TIME else self.first_timestamp + delta_ms
        made = ControlRecord if self.is_control_batch else DefaultRecord
        return made(length, self.base_offset + delta, timestamp, kind, key, value, headers)

    @override
    def _maybe_uncompress(self) -> None:
        if self._decompressed or not self.compression_type:
            return
        # Compression is rare here, and the codecs take long to import.
        from spark_tasks.kafka.records.compression import DecompressError, decompress  # noqa: PLC0415
        from spark_tasks.kafka.records.errors import UnsupportedFormatError  # noqa: PLC0415

        content = b""
        try:
            content = decompress(self.compression_type, memoryview(self._buffer)[self._pos :], MAX_BYTES)
        except (DecompressError, UnsupportedFormatError) as error:
            _logger.warning("Skipping the records of %s at offsets %d to %d: could not decompress them: %s",
                            self._partition, self.base_offset, self.last_offset, error)
            self._num_records = 0
        self._buffer, self._pos, self._decompressed = content, 0, True


def _nullable(buffer: bytes | bytearray, at: int) -> tuple[bytes | None, int]:
    """The bytes at a position, which their length precedes, and the position behind them."""
    size, at = decode_varint(buffer, at)
    return (None, at) if size < 0 else (bytes(buffer[at : at + size]), at + size)
