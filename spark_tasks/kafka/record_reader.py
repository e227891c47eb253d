"""Decodes records of internal topics faster than kafka-python, which creates a dozen objects per record.

A worker's start waits until it has read the config topic, perhaps 20,000 records. kafka-python's consumer fetches them;
this decoder replaces a private class of its fetcher. The decoder in spark_tasks/kafka/records is for connectors' data:
it builds Arrow columns, and importing it takes longer than reading the internal topics.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import IsolationLevel
from kafka.record.util import decode_varint

_logger = logging.getLogger(__name__)

MAX_BYTES: Final = 100_000_000
"""The largest decompressed batch. Batches are decompressed as a whole and must not exhaust the worker's memory."""

END = b"\x00end of what was fetched"  # the value of an end mark; compared by identity


RecordFields = tuple[int, int, int, bytes | None, bytes | None]
"""A record: partition, offset, timestamp (ms since the epoch), key, value."""


def read_as(record: type[RecordFields], consumer: KafkaConsumer) -> None:
    """Makes `consumer.poll()` return objects of `record`, a named tuple with the fields of RecordFields.

    If the consumer's position after a fetch is more than the last record's offset plus one (because of control records,
    aborted transactions or compaction), the list ends with an end mark, see `is_mark`.
    """
    consumer._fetcher.PartitionRecords = partial(FetchedRecords, record)  # noqa: SLF001  (no public hook)


def is_mark(record: RecordFields) -> bool:
    """Returns whether this is not a record but an end mark: all offsets up to and including its own have been read."""
    return record[-1] is END


class FetchedRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """The records of one partition in one fetch response, as objects of `record`; see `read_as`."""

    def __init__(self, record: type[RecordFields], *arguments: Any, **keywords: Any) -> None:
        self._record = record
        super().__init__(*arguments, **keywords)

    def _unpack_records(self, tp: Any, records: Any, *_: Any) -> Iterator[RecordFields]:
        make = partial(tuple.__new__, self._record)
        offset = self.fetch_offset - 1
        batch = records.next_batch()
        while batch is not None:
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"Record batch of {tp} at offset {batch.base_offset} failed its CRC check")
            if batch.magic < 2:
                for old in batch:
                    self.next_fetch_offset = (offset := old.offset) + 1
                    yield make((tp.partition, offset, old.timestamp, old.key, old.value))
            else:
                self.leader_epoch = batch.leader_epoch
                content = None if self._invisible(batch) else _content(batch, tp)
                if content is not None:
                    for record in _decode(batch, *content, tp.partition, self._record):
                        self.next_fetch_offset = (offset := record[1]) + 1
                        yield record
                self.next_fetch_offset = batch.next_offset
            batch = records.next_batch()
        if self.next_fetch_offset - 1 > offset:
            yield make((tp.partition, self.next_fetch_offset - 1, -1, None, END))
        self.drain()

    def _invisible(self, batch: Any) -> bool:
        """Returns whether a batch is a transaction marker or, with read_committed, part of an aborted transaction."""
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)


def _content(batch: Any, tp: Any) -> tuple[bytes, int] | None:
    """Returns the decompressed bytes of the batch's records, and the index of the first one. Returns None and logs a
    warning if they cannot be decompressed. (kafka-python decompresses without a size limit, and supports only gzip.)
    """
    data, at = batch._buffer, batch._pos  # noqa: SLF001
    if not batch.compression_type:
        return bytes(data), at
    # Compression is rare here, and the codecs take long to import.
    from spark_tasks.kafka.records.compression import DecompressError, decompress  # noqa: PLC0415
    from spark_tasks.kafka.records.errors import UnsupportedFormatError  # noqa: PLC0415

    try:
        return decompress(batch.compression_type, memoryview(data)[at:], MAX_BYTES), 0
    except (DecompressError, UnsupportedFormatError) as error:
        _logger.warning("Skipping the records of %s at offsets %d to %d: could not decompress them: %s",
                        tp, batch.base_offset, batch.last_offset, error)
        return None


def _decode(
    batch: Any, data: bytes, at: int, partition: int, record: type[RecordFields]
) -> Iterator[RecordFields]:
    base_offset, base_time = batch.base_offset, batch.first_timestamp
    log_append_time = batch.max_timestamp if batch.timestamp_type else None
    make = tuple.__new__
    try:
        for _ in range(batch.records_count):
            length, at = decode_varint(data, at)
            end = at + length
            time_delta, at = decode_varint(data, at + 1)  # one byte of attributes, unused
            offset_delta, at = decode_varint(data, at)
            size, at = decode_varint(data, at)
            key = None
            if size >= 0:
                key = data[at : at + size]
                at += size
            size, at = decode_varint(data, at)
            value = data[at : at + size] if size >= 0 else None
            if max(at, at + size) > end or end > len(data):
                raise CorruptRecordError(f"A record at offset {base_offset + offset_delta} is longer than its size")
            at = end  # headers are skipped
            timestamp = base_time + time_delta if log_append_time is None else log_append_time
            yield make(record, (partition, base_offset + offset_delta, timestamp, key, value))
        if at != len(data):
            raise CorruptRecordError(f"The record batch at offset {base_offset} has {len(data) - at} bytes too many")
    except (ValueError, IndexError) as error:
        raise CorruptRecordError(f"Record batch at offset {base_offset} has no valid structure: {error!r}") from error
