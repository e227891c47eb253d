"""Appends the frames that a Java source connector's task sends, and records the positions of their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from heeler.java_host.source_splits import SourceSplits
from spark_tasks.data.cut import CutRecords
from spark_tasks.errors import DataError
from spark_tasks.host_frames import AppendedPositions, Batch
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.transactions import TransactionMember
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.plugins.api import TransactionSignal
from spark_tasks.sources.delivery import Lane


class FrameWriter:
    """Appends the frames of one step; the appender is created for the first frame. `used` is called once for each
    topic. `taking`: heeler's part of the chain; None if it has none.
    """

    def __init__(self, cluster: KafkaCluster, options: Mapping[str, Any], lane: Callable[[], Lane],
                 used: Callable[[str], None], taking: SourceSplits | None) -> None:
        self._cluster = cluster
        self._options = options
        self._lane = lane
        self._used = used
        self._taking = taking
        self._appender: Appender | None = None
        self._topics: set[str] = set()
        self.offsets: dict[str, str] = {}
        self.number: int | None = None
        self.in_poll = False
        self.positions: list[AppendedPositions] = []
        self.signal: TransactionSignal | None = None
        self.records = 0
        self.size = 0
        self.figures: list[SplitFigures] = []

    @property
    def sequences(self) -> Mapping[TopicPartition, int]:
        """The appender's sequence numbers."""
        return self._open().sequences

    def _open(self) -> Appender:
        if self._appender is None:
            lane = self._lane()
            admit = None
            if lane.identity is not None and lane.identity.transactional_id is not None:
                admit = TransactionMember(self._cluster, lane.identity, lane.added, lane.likely).admit
            self._appender = Appender(self._cluster, lane.identity, sequences=lane.sequences, admit=admit,
                                      **self._options)
        return self._appender

    def write(self, batch: Batch) -> None:
        """Appends a frame."""
        appender = self._open()
        named = batch.cut is not None
        positions = AppendedPositions(batch.number, len(batch.raw), named=named) if batch.wanted else None
        if self._taking is not None and batch.cut is not None:
            self._write_taken(appender, self._taking, batch.cut, positions)
        else:
            self._write_converted(appender, batch, positions)
        if positions is not None:
            self.positions.append(positions)
        self.offsets |= dict(batch.offsets)
        self.number, self.in_poll, self.signal = batch.number, batch.more, batch.signal

    def _write_taken(
        self, appender: Appender, taking: SourceSplits, records: CutRecords, positions: AppendedPositions | None
    ) -> None:
        taken = taking.taken(records)
        for topic, partitions, raw in taken.records:
            self._use(topic)
            rows = raw.column("offset").to_numpy()
            landed = None
            if positions is not None and rows.min(initial=0) >= 0:
                positions.named(rows, topic)
                landed = partial(_landed, positions, rows)
            appender.append(topic, partitions, raw, landed)
        for topic, letters in taken.letters:
            appender.append(topic, None, letters)
        self._count(taken.figures)

    def _write_converted(self, appender: Appender, batch: Batch, positions: AppendedPositions | None) -> None:
        for which, topic in enumerate(batch.topics):
            self._use(topic)
            rows = np.flatnonzero(batch.topic == which)
            raw = batch.raw if len(rows) == len(batch.raw) else batch.raw.take(pa.array(rows))
            partitions = batch.partition[rows]
            if partitions.min(initial=0) < -1:
                raise DataError(f"a record for topic {topic} has the invalid partition {partitions.min()}")
            landed = partial(_landed, positions, rows) if positions is not None else None
            appender.append(topic, None if (partitions == -1).all() else partitions, raw, landed)
        count, size = len(batch.raw), batch.raw.nbytes
        self._count(SplitFigures(count, size, count, size))  # the host reports only what came out of the chain

    def _use(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            self._used(topic)

    def _count(self, figures: SplitFigures) -> None:
        self.figures.append(figures)
        self.records += figures.written
        self.size += figures.written_bytes

    def flush(self) -> None:
        """Waits until all records are acknowledged."""
        self._open().flush()

    def close(self) -> None:
        """Closes the appender."""
        if self._appender is not None:
            self._appender.close()


def _landed(
    positions: AppendedPositions, rows: np.ndarray[Any, Any], partition: int, some: np.ndarray[Any, Any], offset: int,
) -> None:  # fmt: skip
    """Records the positions of `some` of the rows, from `offset` on."""
    positions.landed(rows[some], partition, offset)
