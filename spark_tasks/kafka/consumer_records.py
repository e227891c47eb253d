"""The records of internal topics, as kafka-python's consumer reads them, with two additions.

- A poll also returns how far it has read, where control records, aborted transactions or compaction leave no record at
  the end. Whoever waits for the end of a topic would otherwise wait for the next record.
- Batches are decompressed by the codecs of spark_tasks/kafka/records, which know all of Kafka's formats and have a
  limit. kafka-python has no limit, and needs more packages for formats other than gzip.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatch
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
    """Record batches whose decompression is limited."""

    def __init__(self, partition: Any, records: Any) -> None:
        self._partition = partition
        self._records = records

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        if batch is None or batch.magic < 2 or not batch.compression_type:
            return batch
        return _CompressedBatch(self._partition, batch._buffer)  # noqa: SLF001


class _CompressedBatch(DefaultRecordBatch):  # type: ignore[misc]
    """A compressed batch. It has no records, and a warning is logged, if it cannot be decompressed."""

    _buffer: bytes | bytearray
    _pos: int
    _num_records: int
    _decompressed: bool

    def __init__(self, partition: Any, data: bytearray) -> None:
        super().__init__(data)
        self._partition = partition

    @override
    def _maybe_uncompress(self) -> None:
        # Compression is rare here, and the codecs take long to import.
        from spark_tasks.kafka.records.compression import DecompressError, decompress  # noqa: PLC0415
        from spark_tasks.kafka.records.errors import UnsupportedFormatError  # noqa: PLC0415

        if self._decompressed:
            return
        content = b""
        try:
            content = decompress(self.compression_type, memoryview(self._buffer)[self._pos :], MAX_BYTES)
        except (DecompressError, UnsupportedFormatError) as error:
            _logger.warning("Skipping the records of %s at offsets %d to %d: could not decompress them: %s",
                            self._partition, self.base_offset, self.last_offset, error)
            self._num_records = 0
        self._buffer, self._pos, self._decompressed = content, 0, True
