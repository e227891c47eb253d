"""Exactly-once delivery: records and offsets in one transaction (KIP-618). docs/exactly-once.md explains why it is
safe.

The task owns the transactional id. Executors append with its producer id, epoch and sequence numbers, one split at a
time; apart from that they may only add partitions to the transaction. After any failure the owner aborts the
transaction and takes the next epoch, and the batch is repeated from the committed offsets. Brokers reject records in
flight, which have the old epoch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from typing_extensions import override

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.errors import ProducerFencedError
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.kafka.transactions import TransactionOwner
from spark_tasks.plugins.api import TransactionSignal
from spark_tasks.sources.boundaries import Boundary
from spark_tasks.sources.delivery import Delivery, Lane, LaneUse
from spark_tasks.sources.settings import SourceSettings, TransactionSettings
from spark_tasks.sources.stream_offsets import Changed, SourceOffsets, partition_key
from spark_tasks.task import OffsetStore, StartGuard, TaskContext

_logger = logging.getLogger(__name__)

class Transactional(Delivery):
    """Exactly-once delivery with one lane and without overlap: a transaction has one writer, and must end before the
    next one begins.
    """

    max_lanes = 1
    overlaps = False
    suspended = False
    owes = False

    def __init__(
        self, cluster: KafkaCluster, offsets: OffsetStore, guard: StartGuard, settings: TransactionSettings
    ) -> None:
        self._boundary = settings.boundary
        self._cluster = cluster
        self._offsets = offsets
        self._guard = guard
        self._settings = settings
        self._owner = TransactionOwner(
            cluster, settings.transactional_id,
            transaction_timeout_ms=settings.transaction_timeout_ms, timeout_ms=settings.max_block_ms,
        )  # fmt: skip
        self._changed = Changed()
        self._pending: dict[str, Any] = {}  # the uncommitted offset of each source partition
        self._used: frozenset[TopicPartition] = frozenset()  # the partitions to which the last batch was appended
        self._begun: float | None = None
        self._broken = False

    @override
    def check(self) -> None:
        """Does nothing, as brokers reject a former owner of the transactional id."""

    @override
    def start(self) -> None:
        """Takes over the transactional id, in the order of KIP-618: the leader fences earlier tasks; this task
        initializes its transactional id, which fences earlier owners; then it checks that there is no newer generation
        of task configurations.
        """
        self._guard.fence()
        self._owner.init()
        self._guard.verify()

    @override
    def recover(self) -> None:
        """Aborts a transaction that was given up. After an error, the next call tries again."""
        if self._broken:
            self._owner.abort(unsure=True)
            self._forget()
            self._broken = False

    @override
    def lanes(self, count: int) -> Sequence[Lane]:
        """Returns the one lane. Most batches are appended to the same partitions as the last one, so these are added to
        the transaction in one request. The executor sends it, so that the transaction's timeout does not run while the
        batch is queued. Raises ConnectError before `recover` if the last transaction was given up: it would discard the
        records.
        """
        if self._broken:
            raise ConnectError(
                f"the transaction of {self._settings.transactional_id} was given up and is not aborted yet")
        if count and self._begun is None:
            self._begun = time.monotonic()
        lane = Lane(self._owner.identity, dict(self._owner.sequences), self._owner.partitions, self._used)
        return [lane] * count

    @override
    def written(self, uses: Sequence[LaneUse]) -> None:
        for use in uses:
            before = self._owner.sequences
            self._used = frozenset(tp for tp, number in use.sequences.items() if before.get(tp) != number)
            self._owner.joined(use.added)
            self._owner.sequences = dict(use.sequences)
        if not self._owner.open and not self._pending:
            self._begun = None  # a batch of no records has opened nothing

    @override
    def begin_commit(self, offsets: SourceOffsets) -> None:
        """Does nothing: offsets are written at the end of the transaction."""

    @override
    def commit(self, offsets: SourceOffsets, signal: TransactionSignal = "commit") -> bool:
        for partition, offset in offsets:
            self._pending[partition_key(partition)] = (partition, offset)
        if self._begun is None and self._pending:  # a batch without records; its offsets are committed when due
            self._begun = time.monotonic()
        if not self._boundary.ends(self._open_ms, signal):
            return False
        if signal == "abort":
            self._owner.abort(unsure=True)  # discards the records, but not the offsets after them (KIP-618)
        self._end()
        return True

    @override
    def settle(self, *, finish: bool) -> bool:
        due = self.due_ms
        if due is None and not (finish and self._begun is not None and self._boundary.ends_with_the_task):
            return False
        if not finish and due:
            return False
        self._end()
        return True

    @property
    @override
    def due_ms(self) -> float | None:
        return None if self._begun is None else self._boundary.due_ms(self._open_ms)

    @property
    @override
    def open(self) -> bool:
        return self._begun is not None

    @property
    @override
    def boundary(self) -> Boundary:
        return self._boundary

    @property
    def _open_ms(self) -> float:
        return 0.0 if self._begun is None else (time.monotonic() - self._begun) * 1000

    def _end(self) -> None:
        begun = time.perf_counter()
        changed = self._changed.of(list(self._pending.values()))
        if changed:
            self._offsets.before_commit(changed)
            self._write(changed)
        self._owner.commit()
        self._changed.note(changed)
        self._pending.clear()
        self._begun = None
        if changed:
            self._offsets.after_commit(changed)
        _logger.debug("Committed %d offsets in %.1f ms", len(changed), (time.perf_counter() - begun) * 1000)

    def _write(self, offsets: SourceOffsets) -> None:
        owner = self._owner
        records = self._offsets.records(offsets)
        appender = Appender(
            self._cluster, owner.identity, sequences=owner.sequences, admit=owner.add_partitions,
            **self._settings.appender,
        )  # fmt: skip
        try:
            appender.append(self._offsets.topic, None, _raw(records))
            appender.flush()
        finally:
            appender.close()
        owner.sequences = dict(appender.sequences)

    @override
    def abort(self) -> None:
        """Gives up the open transaction. `recover` aborts it in Kafka."""
        self._broken = True
        self._forget()

    def _forget(self) -> None:
        """The offsets go with their records."""
        self._pending.clear()
        self._used = frozenset()
        self._begun = None
        self._changed = Changed()

    @override
    def failure(self, error: Exception) -> Exception:
        if not isinstance(error, ProducerFencedError):
            return error
        return ProducerFencedError(
            f"The producer with transactional id {self._settings.transactional_id} was fenced: another instance of "
            "this task or a newer generation of tasks has started, or a transaction was open for longer than "
            f"transaction.timeout.ms ({self._settings.transaction_timeout_ms}). No record of the open transaction is "
            f"visible; restart the task to continue after the committed offsets. ({error})", error.code,
        )  # fmt: skip

    @override
    def cancel(self) -> None:
        self._guard.cancel()

    @override
    def close(self) -> None:
        """Aborts an open transaction, so that consumers do not have to wait for its timeout."""
        if self._broken or self._begun is not None or self._owner.open:
            self._owner.give_up()
        self._begun = None
        self._broken = False


def delivery_of(context: TaskContext, settings: SourceSettings) -> Transactional | None:
    """Returns the exactly-once delivery of a source task that has a guard, or None, which means at-least-once."""
    if context.guard is None or settings.transactions is None:
        return None
    if context.offsets is None:
        raise ConnectError(f"source task {context.id} has no offset store")
    cluster = shared_cluster(settings.producer.client)
    return Transactional(cluster, context.offsets, context.guard, settings.transactions)


def _raw(records: Sequence[tuple[bytes, bytes | None]]) -> pa.RecordBatch:
    count = len(records)
    columns = {
        "offset": pa.array([0] * count, pa.int64()),
        "timestamp": pa.array([-1] * count, pa.int64()),
        "key": pa.array([key for key, _ in records], pa.binary()),
        "value": pa.array([value for _, value in records], pa.binary()),
        "headers": pa.nulls(count, RAW_SCHEMA.field("headers").type),
    }
    return pa.RecordBatch.from_pydict(columns, schema=RAW_SCHEMA)
