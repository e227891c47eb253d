"""Appends a source's records, without those that cannot be appended if errors are tolerated (KIP-779)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.dead_letters.refusals import Original, Refusals
from spark_tasks.dead_letters.source_records import produced_header
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.append import Appender, partitions_given
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.errors import InvalidTopicError, NoSuchPartitionError
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.kafka.records.too_large import sizes_of, too_large
from spark_tasks.kafka.topic_names import is_valid_topic
from spark_tasks.pipeline.failures import SOURCE_TASK, FailedStage, Failure

Rows = np.ndarray[Any, Any]
OnAppend = Callable[[int, Rows, int], None]


class SoundAppender:
    """Appends the records of a source that can be appended.

    `limit`: the producer's max.request.size. `use(topic)` is called before records are appended to the topic. The
    others are added to `refusals`, without what makes one too large. None for errors.tolerance=none: whoever finds
    such a record raises its error. `settles`: also those that only a broker refuses, by `settle`; otherwise such a
    record is an error of the appender.
    """

    def __init__(
        self, appender: Appender, cluster: KafkaCluster, limit: int, use: Callable[[str], None],
        refusals: Refusals | None, *, settles: bool = False,
    ) -> None:
        self._appender = appender
        self._cluster = cluster
        self._limit = limit
        self._use = use
        self._refusals = refusals
        self._settles = settles and refusals is not None
        self._refused: deque[tuple[Failure, Original]] = deque()  # by brokers

    def settle(self) -> list[pa.RecordBatch]:
        """Adds the records that brokers have refused since the last call to the refusals, and returns them; all that
        were appended, if the appender has flushed.
        """
        settled = []
        while self._refusals is not None and self._refused:
            failure, original = self._refused.popleft()
            self._refusals.add(failure, original)
            settled.append(original.raw)
        return settled

    def append(
        self, topic: str, partitions: pa.Array | Rows | None, raw: pa.RecordBatch, on_append: OnAppend | None = None
    ) -> tuple[pa.RecordBatch, Rows]:
        """Returns the records that are appended, and their rows in `raw`. `partitions`, `raw`, `on_append`: see
        Appender.append. Raises the errors of that and of `use`.
        """
        refusals = self._refusals
        rows = np.arange(len(raw))
        if not is_valid_topic(topic):
            if refusals is None:
                raise InvalidTopicError.of(topic)
            for row in range(len(raw)):
                refusals.add(_failure(row, InvalidTopicError.of(topic)), Original(topic, raw.slice(row, 1)))
            return raw.slice(0, 0), rows[:0]
        if refusals is not None and (large := too_large(raw, self._limit)):
            for row, size in large:
                error = RecordTooLargeError(row, size, self._limit, topic)
                refusals.add(_failure(row, error), Original(topic, cut_down(raw.slice(row, 1), self._limit)))
            rows = np.delete(rows, [row for row, _ in large])
            raw, partitions = _taken(rows, raw, partitions)
        if len(raw):
            self._use(topic)
        given = partitions_given(partitions)
        if refusals is not None and given is not None and len(raw):
            count = len(self._cluster.partitions(topic, create=True, expected=int(given.max())))
            if lost := unroutable(topic, given, count):
                for row, mistake in lost:
                    refusals.add(_failure(row, mistake), Original(
                        topic, raw.slice(row, 1), origin=produced_header(int(given[row]))))
                kept = np.delete(np.arange(len(raw)), [row for row, _ in lost])
                raw, partitions = _taken(kept, raw, partitions)
                rows = rows[kept]
        if len(raw):
            landed = on_append and (lambda partition, some, offset: on_append(partition, rows[some], offset))
            on_refusal = partial(self._refuse_later, topic, partitions_given(partitions), raw)
            self._appender.append(topic, partitions, raw, landed, on_refusal if self._settles else None)
        return raw, rows

    def _refuse_later(
        self, topic: str, given: Rows | None, raw: pa.RecordBatch, row: int, error: ConnectError
    ) -> None:
        """An OnRefusal, called on the IO thread."""
        origin = produced_header(-1 if given is None else int(given[row]))
        self._refused.append((_failure(row, error), Original(topic, raw.slice(row, 1), origin=origin)))


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


def cut_down(raw: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    """Returns a record that is too large without its value, and without its headers and its key if more than half of
    `limit` bytes remains: a dead letter also needs room for the headers that describe the error.
    """
    for part in ("value", "headers", "key"):
        field = raw.schema.field(part)
        raw = raw.set_column(raw.schema.get_field_index(part), field, pa.nulls(len(raw), field.type))
        if sizes_of(raw).max() <= limit // 2:
            break
    return raw
