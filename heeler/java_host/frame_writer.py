"""Appends the frames that a Java source connector's task sends, and records the positions of their records."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from heeler.java_host.source_splits import SourceSplits
from heeler.java_host.time_budget import TimeBudget
from heeler.java_host.topic_requests import TopicRequests
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.queue_writes import LetterCounts
from spark_tasks.dead_letters.refusals import Refusals, Refused
from spark_tasks.errors import ConnectError
from spark_tasks.futures import complete, running
from spark_tasks.host_frames import AppendedPositions, Batch
from spark_tasks.kafka.append import BUFFER_BYTES, DEFAULT_REQUEST_BYTES, Appender
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.errors import KafkaUnavailableError, UnknownTopicError
from spark_tasks.kafka.pending_batch import OnRefusal, Rows
from spark_tasks.kafka.topic_names import is_valid_topic
from spark_tasks.kafka.transactions import TransactionMember
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.plugins.api import TransactionSignal
from spark_tasks.process.rate_limited_log import RateLimitedLog
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.java_source_split import JavaSourceResult
from spark_tasks.sources.tolerant_appender import TolerantAppender

_logger = logging.getLogger(__name__)
_waiting: Final = RateLimitedLog(max_lines=1)


class FrameWriter:
    """Appends the frames that are committed together; the appender is created for the first one. `used` is called once
    for each topic. `taking`: heeler's part of the chain; None if it has none. `errors`: whether a record that cannot be
    appended fails the task, whether it is logged, and the queue of its dead letter. `creation`: of topics; None if
    brokers create them.
    """

    def __init__(self, cluster: KafkaCluster, options: Mapping[str, Any], lane: Callable[[], Lane],
                 used: Callable[[str], None], taking: SourceSplits | None, errors: ErrorHandling, *,
                 creation: TopicRequests | None) -> None:
        self._cluster = cluster
        self._creation = creation
        self._options = options
        self._lane = lane
        self._used = used
        self._taking = taking
        self._appender: Appender | None = None
        self._member: TransactionMember | None = None
        self._tolerant_appender: TolerantAppender | None = None
        self._closed = False
        self._errors = errors
        self._refusals = Refusals(errors)
        self._letters = LetterCounts()
        self._topics: set[str] = set()
        self.frames: list[Batch] = []
        """Those that are appended, for another attempt; none in a transaction, after whose end the host begins with the
        committed offsets."""
        self.flushed = False
        """Whether all of them are acknowledged."""
        self.acknowledged: Future[list[Any]] = running()
        """Ends when they are, or when the writer is closed."""
        self.lacks: str | None = None
        """The topic for which the next frame waits, if it waits for one."""
        self.offsets: dict[str, str] = {}
        self.number: int | None = None
        self.in_poll = False
        self.positions: list[AppendedPositions] = []
        self.signal: TransactionSignal | None = None
        self.bad = 0
        """How many records heeler's part of the chain has refused."""
        self.records = 0
        self.size = 0
        self.letter_size = 0
        """The bytes of dead letters."""
        self.figures: list[SplitFigures] = []

    @property
    def sequences(self) -> Mapping[TopicPartition, int]:
        """The appender's sequence numbers."""
        return self._open().sequences

    @property
    def added(self) -> frozenset[TopicPartition]:
        """The partitions that are in the lane's transaction now."""
        return frozenset() if self._member is None else self._member.added

    @property
    def refused(self) -> Refused:
        """The records that could not be appended and are tolerated; the dead letters of these and of the host, and
        those of a split that brokers refuse: the split, which could not know that, has counted these as written.
        """
        refused, letters = self._refusals.refused, self._letters
        if not letters.written and not letters.lost:
            return refused
        return replace(refused, letters=refused.letters + letters.written,
                       lost_letters=refused.lost_letters + letters.lost)

    def _open(self) -> Appender:
        if self._appender is None:
            lane = self._lane()
            self._member = member = lane.member(self._cluster)
            # Between frames there is a wait that can be left, so none is needed within one.
            self._appender = Appender(
                self._cluster, lane.identity, sequences=lane.sequences, admit=None if member is None else member.admit,
                buffer_bytes=sys.maxsize, **self._options)
            if self._closed:
                self._appender.close()
        return self._appender

    def write(self, batch: Batch, budget: TimeBudget) -> bool:
        """Appends a frame. Returns False if that cannot be done in time, because too many records wait for Kafka or
        heeler's part of the chain has not ended: then it has to be called again with this frame.
        """
        taken = None
        if self._taking is not None and batch.cut is not None:
            taken = self._taking.taken(batch.cut, budget)
            if taken is None:
                return False
        topics = batch.topics if taken is None else [topic for topic, *_ in taken.records]
        queues = self._queues(taken)
        if not budget.wait(lambda seconds: self._knows(topics, queues, seconds)):
            return False
        appender = self._open()
        if not budget.wait(lambda seconds: appender.flushed(seconds, but_for=BUFFER_BYTES)):
            return False
        if self._tolerant_appender is None:
            limit = int(self._options.get("max_request_bytes", DEFAULT_REQUEST_BYTES))
            self._tolerant_appender = TolerantAppender(
                appender, self._cluster, limit, self._use, self._refusals if self._errors.tolerant else None)
        tolerant = self._tolerant_appender
        positions = AppendedPositions(batch.number, len(batch.raw), named=taken is not None) if batch.wanted else None
        if taken is not None:
            for topic, letters in self._write_taken(tolerant, taken, positions):
                self._append_letters(topic, letters, partial(self._letters.refused, topic))
            self.bad += taken.refused.count
        else:
            self._write_converted(tolerant, batch, positions)
        if positions is not None:
            self.positions.append(positions)
        self._write_letters(batch.letters)
        self._refusals.send(self._append_letters)
        self._leave_out(tolerant)
        self.offsets |= dict(batch.offsets)
        self.number, self.in_poll, self.signal = batch.number, batch.more, batch.signal
        if self._member is None:
            self.frames.append(batch)
        if self._taking is not None:
            self._taking.withdraw()
        return True

    def _queues(self, taken: JavaSourceResult | None) -> Sequence[str]:
        """The topics of letters, which may follow from records that brokers refuse, too."""
        queue = [self._errors.queue] if self._errors.queue and self._errors.tolerant else []
        return queue if taken is None else [*(topic for topic, _ in taken.letters), *queue]

    def _knows(self, topics: Iterable[str], queues: Sequence[str], seconds: float) -> bool:
        """Whether the partitions of these topics are known, or an error that is raised again when records are appended.
        A topic that is created is awaited. Invalid names are not looked up: TolerantAppender refuses their records.
        `queues`: of dead letters. Raises UnknownTopicError if one of these does not exist any more.
        """
        until = time.monotonic() + seconds
        self.lacks = None
        wanted = [(topic, self._creation is None) for topic in dict.fromkeys(topics)
                  if topic not in self._topics and is_valid_topic(topic)]
        for topic, create in [*wanted, *((queue, False) for queue in dict.fromkeys(queues))]:
            try:
                self._cluster.partitions(
                    topic, create=create, timeout_ms=max(0.0, 1000 * (until - time.monotonic())))
            except ConnectError as error:
                unknown = isinstance(error, UnknownTopicError)
                if unknown and topic in queues:
                    raise
                if unknown and self._creation is not None:
                    if not self._creation.create(topic, max(0.0, until - time.monotonic())):
                        _waiting.log(
                            _logger, logging.WARNING, "Records of a Java source wait for their topic, %s", topic)
                        self.lacks = topic
                        return False
                    continue
                if isinstance(error, KafkaUnavailableError) or (unknown and create):
                    _waiting.log(_logger, logging.WARNING, "Records of a Java source wait for Kafka: %s", error)
                    self.lacks = topic
                    return False
        return True

    def _write_taken(
        self, tolerant: TolerantAppender, taken: JavaSourceResult, positions: AppendedPositions | None
    ) -> Sequence[tuple[str, pa.RecordBatch]]:
        """Returns the dead letters."""
        count = size = 0
        for topic, partitions, raw in taken.records:
            rows = raw.column("offset").to_numpy()
            on_append = lost = None
            if positions is not None and rows.min(initial=0) >= 0:
                on_append, lost = partial(_record_positions, positions, rows), partial(_lost, positions, rows)
            appended, kept = tolerant.append(topic, partitions, raw, on_append, lost)
            if positions is not None and on_append is not None:
                positions.named(rows[kept], topic)
            count, size = count + len(appended), size + appended.nbytes
        self._count(taken.figures._replace(written=count, written_bytes=size))
        return taken.letters

    def _write_converted(self, tolerant: TolerantAppender, batch: Batch, positions: AppendedPositions | None) -> None:
        count = size = 0
        for which, topic in enumerate(batch.topics):
            rows = np.flatnonzero(batch.topic == which)
            if not len(rows):
                continue
            raw = batch.raw if len(rows) == len(batch.raw) else batch.raw.take(pa.array(rows))
            partitions = batch.partition[rows]
            on_append = partial(_record_positions, positions, rows) if positions is not None else None
            lost = partial(_lost, positions, rows) if positions is not None else None
            given = None if (partitions == -1).all() else partitions
            appended, kept = tolerant.append(topic, given, raw, on_append, lost)
            if positions is not None:
                positions.refused(np.delete(rows, kept))
            count, size = count + len(appended), size + appended.nbytes
        # The host reports only what came out of the chain.
        self._count(SplitFigures(len(batch.raw), batch.raw.nbytes, count, size))

    def _write_letters(self, letters: pa.RecordBatch | None) -> None:
        """Appends letters of the host. One whose record fails the task is written outside of the transaction, which the
        failure aborts.
        """
        if letters is None:
            return
        if self._errors.tolerant:
            self._letters.append(self._errors, letters, self._append_letters)
            return
        try:
            self._letters.write(self._errors, letters)
        except Exception as problem:  # noqa: BLE001 - the task fails with the error of its record
            _logger.warning("Could not write to the dead letter queue: %s", problem)

    def _append_letters(self, topic: str, letters: pa.RecordBatch, on_refusal: OnRefusal) -> None:
        self.letter_size += letters.nbytes
        self._open().append(topic, None, letters, on_refusal=on_refusal)

    def _use(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            self._used(topic)

    def _count(self, figures: SplitFigures) -> None:
        self.figures.append(figures)
        self.records += figures.written
        self.size += figures.written_bytes

    def flush(self, budget: TimeBudget) -> bool:
        """Waits until all records are acknowledged. Returns whether they are. Raises the first error."""
        appender = self._open()
        while not self.flushed and budget.wait(appender.flushed):
            self.flushed = self._tolerant_appender is None or not self._leave_out(self._tolerant_appender)
        if self.flushed:
            complete(self.acknowledged, [])
        return self.flushed

    def _leave_out(self, tolerant: TolerantAppender) -> bool:
        """Does not count records that brokers have refused, and appends their letters. Returns whether there are any
        since the last call.
        """
        refused = tolerant.refused
        while tolerant.refused:
            count, size = tolerant.collect()
            self._count(SplitFigures(0, 0, -count, -size))
            self._refusals.send(self._append_letters)
        return refused

    def close(self) -> None:
        """Closes the appender; `write` and `flush`, if they wait, raise an error. Any thread, any number of times."""
        self._closed = True
        if self._appender is not None:
            self._appender.close()
        complete(self.acknowledged, [])


def _record_positions(
    positions: AppendedPositions, rows: Rows, partition: int, some: Rows, offset: int,
) -> None:  # fmt: skip
    """Records the positions of `some` of the rows, from `offset` on."""
    positions.appended(rows[some], partition, offset)


def _lost(positions: AppendedPositions, rows: Rows, some: Rows) -> None:
    """Records that some of the rows were refused."""
    positions.refused(rows[some])
