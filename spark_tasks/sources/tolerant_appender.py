"""Appends a source's records, without those that cannot be appended if errors are tolerated (KIP-779)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import size_of
from spark_tasks.dead_letters.refusals import NO_RECORD, Original, Refusals
from spark_tasks.dead_letters.source_letters import produced_header, untimed
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.append import Appender, partitions_given
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.errors import InvalidTopicError, NoSuchPartitionError, RecordRefusedError
from spark_tasks.kafka.pending_batch import OnAppend, OnRefusal, Rows
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.kafka.records.too_large import sizes_of, too_large
from spark_tasks.kafka.topic_names import is_valid_topic
from spark_tasks.pipeline.errors.failures import SOURCE_TASK, FailedStage, Failure

OnLost = Callable[[Rows], None]


class TolerantAppender:
    """Appends the records of a source that can be appended.

    `limit`: the producer's max.request.size. `use(topic)` is called before records are appended to the topic. The
    others are added to `refusals`, without what makes one too large for the producer; those that only a broker refuses
    by `collect`. None for errors.tolerance=none: whoever finds such a record raises its error.
    """

    def __init__(
        self, appender: Appender, cluster: KafkaCluster, limit: int, use: Callable[[str], None],
        refusals: Refusals | None,
    ) -> None:
        self._appender = appender
        self._cluster = cluster
        self._limit = limit
        self._use = use
        self._refusals = refusals
        self._refused: deque[tuple[_Call, int, ConnectError]] = deque()  # by brokers; added on the IO thread

    def append(
        self, topic: str, partitions: pa.Array | Rows | None, raw: pa.RecordBatch, on_append: OnAppend | None = None,
        on_lost: OnLost | None = None,
    ) -> tuple[pa.RecordBatch, Rows]:  # fmt: skip
        """Returns the records that are appended, and their rows in `raw`. `partitions`, `raw`, `on_append`: see
        Appender.append. `on_lost` is called on the IO thread with rows that a broker refuses. Raises the errors of
        Appender.append and of `use`.
        """
        refusals = self._refusals
        rows = np.arange(len(raw))
        if not is_valid_topic(topic):
            if refusals is None:
                raise InvalidTopicError.of(topic)
            for row in range(len(raw)):
                refusals.add(_failure(row, InvalidTopicError.of(topic)), Original(topic, raw.slice(row, 1)))
            return raw.slice(0, 0), rows[:0]
        found: list[tuple[Failure, Original]] = []
        if refusals is not None and (large := too_large(raw, self._limit)):
            for row, size in large:
                error = RecordTooLargeError(row, size, self._limit, topic)
                found.append((_failure(row, error), Original(topic, stripped(raw.slice(row, 1), self._limit))))
            rows = np.delete(rows, [row for row, _ in large])
            raw, partitions = _taken(rows, raw, partitions)
        if len(raw):
            self._use(topic)
        given = partitions_given(partitions)
        if refusals is not None and given is not None and len(raw):
            count = len(self._cluster.partitions(topic, create=True, expected=int(given.max())))
            if lost := unroutable(topic, given, count):
                found += [(_failure(int(rows[row]), mistake), Original(
                    topic, raw.slice(row, 1), origin=produced_header(int(given[row])))) for row, mistake in lost]
                kept = np.delete(np.arange(len(raw)), [row for row, _ in lost])
                raw, partitions = _taken(kept, raw, partitions)
                rows, given = rows[kept], given[kept]
        for failure, original in sorted(found, key=lambda one: one[0].row):
            if refusals is not None:
                refusals.add(failure, original)
        if len(raw):
            landed = on_append and (lambda partition, some, offset: on_append(partition, rows[some], offset))
            refused = None if refusals is None else self._refusal_recorder(topic, given, raw, rows, on_lost)
            self._appender.append(topic, partitions, raw, landed, refused)
        return raw, rows

    def _refusal_recorder(
        self, topic: str, given: Rows | None, raw: pa.RecordBatch, rows: Rows, on_lost: OnLost | None
    ) -> OnRefusal:
        """Returns what notes the records of a call that brokers refuse, on the IO thread, which must not be delayed."""
        call = _Call(topic, given, raw, size_of(raw) / len(raw))

        def refused(row: int, error: ConnectError) -> None:
            self._refused.append((call, row, error))
            if on_lost is not None:
                on_lost(rows[[row]])

        return refused

    def collect(self) -> tuple[int, int]:
        """Adds the records that brokers have refused since the last call to `refusals`, until those are full. Returns
        their number and about their bytes, which `append` has returned as appended. Call it now and then, and after a
        flush, which the letters have to follow.
        """
        count, size, refusals = 0, 0.0, self._refusals
        while self._refused and refusals is not None and not refusals.full:
            call, row, error = self._refused.popleft()
            original = call.original(row, error) if refusals.needs_record else NO_RECORD
            refusals.add(_failure(row, error), original)
            count, size = count + 1, size + call.share
        return count, int(size)

    @property
    def refused(self) -> bool:
        """Whether `collect` would add records."""
        return bool(self._refused)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of `append`: what it has appended. `given`: see partitions_given; `share`: the mean bytes of a record."""

    topic: str
    given: Rows | None
    raw: pa.RecordBatch
    share: float

    def original(self, row: int, error: ConnectError) -> Original:
        """A copy of the record: the batch is much larger than its letter. `error`: why it is refused; a letter with a
        timestamp that a broker refuses would be refused too.
        """
        raw = self.raw.take(pa.array([row]))
        origin = produced_header(-1 if self.given is None else int(self.given[row]))
        if isinstance(error, RecordRefusedError) and error.of_timestamp:
            raw, timestamp = untimed(raw)
            origin += timestamp
        return Original(self.topic, raw, origin=origin)


def _failure(row: int, error: Exception) -> Failure:
    return Failure(FailedStage.KAFKA_PRODUCE, SOURCE_TASK, error, str(error), row)


def _taken(
    rows: Rows, raw: pa.RecordBatch, partitions: pa.Array | Rows | None
) -> tuple[pa.RecordBatch, pa.Array | Rows | None]:
    indexes = pa.array(rows)
    if partitions is not None:
        partitions = partitions[rows] if isinstance(partitions, np.ndarray) else partitions.take(indexes)
    return raw.take(indexes), partitions


def unroutable(topic: str, given: Rows, count: int) -> list[tuple[int, Exception]]:
    """Returns the rows with a partition that the topic, which has `count` of them, does not have. `given`: see
    partitions_given.
    """
    return [(row, NoSuchPartitionError.of(topic, int(given[row]), count))
            for row in np.flatnonzero((given < -1) | (given >= count)).tolist()]


def stripped(raw: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    """Returns a record that is too large without its value, and without its headers and its key if more than half of
    `limit` bytes remains: a dead letter also needs room for the headers that describe the error.
    """
    for part in ("value", "headers", "key"):
        field = raw.schema.field(part)
        raw = raw.set_column(raw.schema.get_field_index(part), field, pa.nulls(len(raw), field.type))
        if sizes_of(raw).max() <= limit // 2:
            break
    return raw
