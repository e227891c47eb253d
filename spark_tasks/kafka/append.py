"""Appends Arrow record batches to Kafka. The caller's thread encodes them while the IO thread sends."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_tasks.config.client_keys import client_config_def
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.errors import KafkaRefusedError, KafkaUnavailableError, NoSuchPartitionError
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.kafka.pending_batch import AppendListener, OnAppend, OnRefusal, PendingBatch
from spark_tasks.kafka.records.decode import decode
from spark_tasks.kafka.records.encode import DEFAULT_BATCH_BYTES, earlier_sequence, encode, next_sequence
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.kafka.records.partitioner import Partitioner, rows_by_partition
from spark_tasks.kafka.sender import Sender

Array = np.ndarray[Any, Any]

_KAFKAS: Final = client_config_def("producer").keys
DEFAULT_REQUEST_BYTES: Final[int] = _KAFKAS["max.request.size"].default
BUFFER_BYTES: Final = 32 * 1024 * 1024  # Kafka's buffer.memory
_WAIT_SECONDS: Final = 1.0
_MIN_BATCH_BYTES: Final = 4096
_TRANSACTION_DELIVERY_MS: Final = float(_KAFKAS["delivery.timeout.ms"].default)


class Appender:
    """Heeler's producer. It never initializes a producer id itself. Not thread-safe.

    `identity`: the producer id and epoch that the owner has initialized; None for a producer that is neither idempotent
    nor transactional. `sequences`: the next sequence number of each partition, by default 0; the attribute of the same
    name has those after the append. `admit` is called with partitions before the first records are sent to them, so
    that they can be added to a transaction. After an error an appender can no longer be used: its sequences are no
    longer valid, and the owner needs a new epoch (KIP-360).

    `buffer_bytes`: `append` waits while more than these are not acknowledged. `delivery_timeout_ms`: None waits without
    limit for a partition that has no leader, as Kafka Connect's producers do, because records that are appended again
    are duplicates; in a transaction, which can be aborted, for two minutes.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        identity: ProducerIdentity | None,
        *,
        sequences: Mapping[TopicPartition, int] | None = None,
        acks: int = -1,
        compression: str | None = None,
        max_request_bytes: int = DEFAULT_REQUEST_BYTES,
        max_batch_bytes: int = DEFAULT_BATCH_BYTES,
        in_flight: int = 5,
        buffer_bytes: int = BUFFER_BYTES,
        delivery_timeout_ms: float | None = None,
        admit: Callable[[Sequence[TopicPartition]], None] | None = None,
    ) -> None:
        if identity is not None and (acks != -1 or not 1 <= in_flight <= 5):
            raise KafkaRefusedError("an idempotent producer needs acks=all and at most 5 requests in flight")
        self._cluster = cluster
        self._identity = identity
        self._sequences: dict[TopicPartition, int] = dict(sequences or {})  # if no record is refused
        self._admit = admit
        self._compression = compression
        self._max_record_bytes = max_request_bytes
        self._batch_bytes = defaultdict[str, int](lambda: min(max_batch_bytes, max_request_bytes))
        self._partitioners: dict[str, Partitioner] = {}
        self._number = 0
        self._buffer_bytes = buffer_bytes
        self._buffered = 0
        self._changed = threading.Condition()
        self._error: ConnectError | None = None
        self._sender = Sender(
            cluster,
            identity,
            acks=acks,
            in_flight=in_flight,
            max_request_bytes=max_request_bytes,
            delivery_timeout_ms=_delivery_timeout(identity) if delivery_timeout_ms is None else delivery_timeout_ms,
            done=self._done,
            broken=self._broken,
            split=self._split,
        )

    @property
    def sequences(self) -> dict[TopicPartition, int]:
        """The next sequence number of each partition. Valid before the first append and after `flush`."""
        return {where: earlier_sequence(sequence, self._sender.left_out(where))
                for where, sequence in self._sequences.items()}

    def append(
        self, topic: str, partition: int | Array | pa.Array | None, raw: pa.RecordBatch,
        on_append: OnAppend | None = None, on_refusal: OnRefusal | None = None,
    ) -> None:  # fmt: skip
        """Sends the rows of `raw` in order. Returns when all of them are encoded, and the buffer has room for them.

        `raw`: RAW_SCHEMA; `offset` is ignored, `timestamp` -1 means now, `headers` may be missing. `partition`: the
        partition of all rows, or an array with that of each row (null or -1: the partitioner chooses), or None (the
        partitioner chooses for all). Raises RecordTooLargeError, UnknownTopicError, or the error of an earlier batch.

        `on_append` is called on the IO thread with a partition, the indexes of rows of `raw` that were appended to it
        consecutively, and the offset of the first of them. After a retry it may not be called, or with offset -1.
        `on_refusal` is called there with the row and the error of each record that a broker refuses because of what it
        is: too large for the topic, or without the key that a compacted topic requires, for example. All others are
        appended. Without it, such a record is an error of the appender.
        """
        now = time.time_ns() // 1_000_000
        placed = self._placed(topic, partition, raw)
        if self._admit is not None:
            self._admit([(topic, number) for number, _ in placed])
        for number, rows in placed:
            step = max(len(rows) * self._batch_bytes[topic] // max(raw.nbytes * len(rows) // max(len(raw), 1), 1), 1)
            for at in range(0, len(rows), step):
                self._encode(topic, number, raw, rows[at : at + step], now, on_append, on_refusal)

    def flush(self) -> None:
        """Waits until all records are acknowledged. Raises the first error; after an error no more requests are sent,
        but brokers may still append records that were sent before.
        """
        self._wait(0)

    def flushed(self, within_s: float, *, but_for: int = 0) -> bool:
        """Waits, but not longer than this, until at most `but_for` bytes are not acknowledged. Returns whether that is
        so. Raises the first error, as `flush` does.
        """
        return self._wait(but_for, time.monotonic() + within_s)

    def close(self) -> None:
        """Stops sending without a flush. What waits in another thread fails. The cluster's
        connections stay open.
        """
        self._sender.stop()
        with self._changed:
            self._error = self._error or KafkaUnavailableError("the appender was closed")
            self._changed.notify_all()

    def _placed(
        self, topic: str, partition: int | Array | pa.Array | None, raw: pa.RecordBatch,
    ) -> list[tuple[int, Array]]:  # fmt: skip
        """Returns (partition, indexes of its rows) for each partition that receives rows."""
        partitions = self._cluster.partitions(topic, create=True)
        count = len(partitions)
        if partition is None and count == 1:
            partition = 0
        if isinstance(partition, int):
            chosen = np.array([partition], np.int64)
            placed = [(partition, np.arange(len(raw), dtype=np.int64))] if len(raw) else []
        else:
            partitioner = self._partitioners.get(topic)
            if partitioner is None or partitioner.partitions != count:
                partitioner = self._partitioners[topic] = Partitioner(count)
            given = partitions_given(partition)
            chosen = partitioner.assign(raw, given, self._led(topic, partitions) if _draws(raw, given) else None)
            placed = rows_by_partition(chosen)
            if given is not None and len(given) and int(given.min()) < -1:  # -1: the partitioner chooses
                raise NoSuchPartitionError.of(topic, int(given.min()), count)
        if len(chosen) and int(chosen.max()) >= count:
            count = len(self._cluster.partitions(topic, create=True, expected=int(chosen.max())))
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < count:
            outside = chosen[(chosen < 0) | (chosen >= count)]
            raise NoSuchPartitionError.of(topic, int(outside[0]), count)
        return placed

    def _led(self, topic: str, partitions: tuple[int, ...]) -> Array:
        """Returns the partitions that have a leader."""
        known = self._cluster.known_leader
        return np.array([number for number in partitions if known(topic, number) is not None], np.int32)

    def _encode(
        self, topic: str, partition: int, raw: pa.RecordBatch, rows: Array, now: int,
        on_append: OnAppend | None, on_refusal: OnRefusal | None,
    ) -> None:  # fmt: skip
        topic_partition = (topic, partition)
        sequence = self._sequences.get(topic_partition, 0) if self._identity is not None else -1
        try:
            encoded = encode(
                raw,
                rows=rows,
                no_timestamp=now,
                **self._marks(),
                base_sequence=sequence,
                compression=self._compression,
                max_batch_bytes=self._batch_bytes[topic],
                max_record_bytes=self._max_record_bytes,
            )
        except RecordTooLargeError as error:
            raise RecordTooLargeError(error.row, error.size, error.limit, topic) from None
        batches = []
        at = 0
        for item in encoded:
            self._number += 1
            batches.append(PendingBatch(topic_partition, item.data, item.count, sequence, (self._number,)))
            if on_append is not None or on_refusal is not None:
                batches[-1].listener = AppendListener(rows[at : at + item.count], on_append, on_refusal)
            at += item.count
            sequence = next_sequence(sequence, item.count)
        if self._identity is not None:
            self._sequences[topic_partition] = sequence
        self._wait(self._buffer_bytes)
        with self._changed:
            self._buffered += sum(len(batch.data) for batch in batches)
        self._sender.add(batches)

    def _marks(self) -> dict[str, Any]:
        if self._identity is None:
            return {}
        return {
            "producer_id": self._identity.producer_id,
            "epoch": self._identity.epoch,
            "transactional": self._identity.transactional_id is not None,
        }

    def _wait(self, at_most: int, until: float = math.inf) -> bool:
        with self._changed:
            while self._error is None and self._buffered > at_most:
                left_s = until - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, _WAIT_SECONDS))
                if not self._cluster.io.alive:
                    self._error = KafkaUnavailableError("the connections to Kafka were closed")
            if self._error is not None:
                raise self._error
            return True

    # The sender calls these on the IO thread.

    def _done(self, batch: PendingBatch) -> None:
        with self._changed:
            self._buffered -= len(batch.data)
            self._changed.notify_all()

    def _broken(self, error: ConnectError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _split(self, batch: PendingBatch, groups: Sequence[Array], shrink: bool) -> list[PendingBatch]:
        """Re-encodes groups of a batch's records. `shrink`: the batch exceeds the topic's max.message.bytes, so later
        ones become smaller.
        """
        topic = batch.where[0]
        if shrink:
            self._batch_bytes[topic] = max(min(self._batch_bytes[topic], len(batch.data) // 2), _MIN_BATCH_BYTES)
        records = decode(batch.data, check_crc=False).records
        parts = []
        sequence = batch.sequence
        for place, rows in enumerate(groups):
            encoded = encode(
                records,
                rows=rows,
                **self._marks(),
                base_sequence=sequence,
                compression=self._compression,
                max_batch_bytes=2**31 - 1,
            )
            data = encoded[0].data if encoded else b""  # nothing is left
            listener = batch.listener and replace(batch.listener, rows=batch.listener.rows[rows])
            number = (*batch.number, place)
            parts.append(PendingBatch(batch.where, data, len(rows), sequence, number, batch.since, listener))
            sequence = next_sequence(sequence, len(rows))
        with self._changed:
            self._buffered += sum(len(part.data) for part in parts) - len(batch.data)
            self._changed.notify_all()
        return parts


def _delivery_timeout(identity: ProducerIdentity | None) -> float:
    transactional = identity is not None and identity.transactional_id is not None
    return _TRANSACTION_DELIVERY_MS if transactional else math.inf


def _draws(raw: pa.RecordBatch, given: Array | None) -> bool:
    """Returns whether the partitioner draws partitions: for records that have neither a key nor a partition."""
    return bool(raw.column("key").null_count) and (given is None or int(given.min(initial=0)) < 0)


def partitions_given(partition: Array | pa.Array | None) -> Array | None:
    """Returns the partitions as int32, with -1 where the partitioner chooses."""
    if isinstance(partition, (pa.Array, pa.ChunkedArray)):
        partition = partition.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    return None if partition is None else np.asarray(partition, np.int32)
