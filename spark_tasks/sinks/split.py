"""The executor's part of a sink batch: a range of one partition through the pipeline into the plugin's writer."""

from __future__ import annotations

import itertools
import logging
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Protocol

import pyarrow as pa

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import NONE_REFUSED, Original, Refusals, Refused
from spark_tasks.errors import RetriableError, ToleranceExceededError
from spark_tasks.kafka.cluster import Isolation
from spark_tasks.kafka.errors import OffsetOutOfRangeError
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.record_limit import DEFAULT_MAX_RECORD_BYTES
from spark_tasks.kafka.records.errors import CorruptRecordsError, OversizedRecordError
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.metrics.phases import Stopwatch, measured, phase
from spark_tasks.metrics.plugins import PluginMetrics, counting
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.pipeline.failures import Failure, Refuse
from spark_tasks.plugins.api import Shape
from spark_tasks.sinks.writes import Reports, WriterRunner, not_the_records_fault, put_failure
from spark_tasks.spark.executor import Outcome, failed_outcome
from spark_tasks.tasks.pace import MOST_BYTES

_logger = logging.getLogger(__name__)

_MANY = 4  # refused records of a split
BUDGET_FACTOR = 4.0  # a split that takes this many times longer than planned stops early


class Pipeline(Protocol):
    """The part of SinkPipeline that a split uses."""

    def to_connect_batches(
        self, topic: str, partition: int, raw: pa.RecordBatch, refuse: Refuse = ...
    ) -> Iterator[pa.RecordBatch]:
        """Converted and transformed records in order, without those that were dropped or refused."""

    def header_of(self, topic: str, name: str, text: str) -> bytes | None:
        """A header that the header converter reads as this text; None if there is none."""


class RangeLostError(RetriableError):
    """Records were deleted while they were read; the next batch starts after them."""


@dataclass(frozen=True, slots=True)
class SinkJob:
    """What all splits of a task share; pickled once, `writer` with cloudpickle."""

    client: Mapping[str, Any]
    isolation: Isolation
    accepts: Shape
    pipeline: Pipeline
    writer: bytes
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES
    errors: ErrorHandling = field(default_factory=ErrorHandling)


@dataclass(frozen=True, slots=True)
class SinkResult:
    """The result of a split. `messages`: the writer's, one for each call; `next_offset`: where the next batch begins.
    With `out_of_range` (the log's start and end) nothing was done, because the range is not in the log. With `failure`
    nothing counts. `refused`: the bad records.
    """

    topic: str
    partition: int
    next_offset: int
    records: int = 0
    size: int = 0
    seconds: float = 0.0
    messages: tuple[Any, ...] = (None,)
    out_of_range: tuple[int, int] | None = None
    failure: Outcome | None = None
    refused: Refused = NONE_REFUSED
    figures: SplitFigures | None = None


@dataclass(frozen=True, slots=True)
class SinkSplit:
    """Offsets `start` to `end` (exclusive) of a partition; `job` is a pickled SinkJob. `held`: bytes of
    them that have been fetched already.
    """

    job: bytes
    topic: str
    partition: int
    start: int
    end: int
    expected_seconds: float = 0.0
    held: bytes = b""

    def run(self) -> SinkResult:
        """Read, convert, write. Errors are returned in the result, so that the writer gets the messages of other
        splits.
        """
        with measured() as watch, counting() as plugins:
            return self._run(watch, plugins)

    def _run(self, watch: Stopwatch, plugins: PluginMetrics) -> SinkResult:
        begun = time.perf_counter()
        job = _unpacked(self.job)
        refusals = Refusals(job.errors)
        try:
            reading = _Reading(self, job, refusals)
            first = next(reading, None)
        except OffsetOutOfRangeError as error:
            return SinkResult(self.topic, self.partition, self.start, out_of_range=(error.log_start, error.log_end))
        except Exception as error:  # noqa: BLE001 - converters and transforms are plugin code
            return self._failed(error, refusals)
        messages: Sequence[Any] = ()
        try:
            if first is not None:
                with phase("write"):
                    reading, messages = self._put(job, reading, first)
            reading.refusals.send_apart()
        except Exception as error:  # noqa: BLE001 - plugin code
            return self._failed(error, reading.refusals)
        return SinkResult(
            self.topic, self.partition, reading.position, reading.records, reading.size,
            time.perf_counter() - begun, tuple(messages) or (None,), refused=reading.refusals.refused,
            figures=SplitFigures(
                reading.records, reading.size, reading.written, reading.written_bytes, watch.seconds, plugins.counted()
            ),
        )

    def _put(self, job: SinkJob, reading: _Reading, first: pa.RecordBatch) -> tuple[_Reading, Sequence[Any]]:
        """All of it written, in one call or, where the writer refuses some of it, in several; the messages."""
        spacings, place = _spacings(self.job), (self.topic, self.partition)
        runner = WriterRunner(job.writer, job.accepts, place, tolerant=job.errors.tolerant, refuse=reading.refuse_put)
        batches: Iterator[pa.RecordBatch] = itertools.chain([first], reading)
        spacing, raised = spacings.pop(place, None), None
        if spacing is None:
            try:
                message, reports = runner.write(batches)
            except Exception as error:
                if reading.failed or not job.errors.tolerant:
                    raise
                not_the_records_fault(error)
                raised = error
                reading = _Reading(self, job, Refusals(job.errors))
                batches = reading
            else:
                reading.refuse_puts(reports)
                return reading, [message]
        messages, reports = runner.write_accepted(list(batches), spacing, raised)
        if len(reports) >= _MANY:
            spacings[place] = reading.written // len(reports)
        reading.refuse_puts(reports)
        return reading, messages

    def _failed(self, error: Exception, refusals: Refusals) -> SinkResult:
        """Send the dead letter of a record that errors.tolerance=none does not allow, as Kafka Connect does."""
        try:
            if isinstance(error, ToleranceExceededError):
                refusals.send_apart()
        except Exception as problem:  # noqa: BLE001 - what has failed before is what counts
            _logger.warning("no dead letter for %s: %s", error, problem)
        failure = failed_outcome(error)
        return SinkResult(self.topic, self.partition, self.start, failure=failure, refused=refusals.refused)


class _Reading(Iterator[pa.RecordBatch]):
    """The split's non-empty Connect batches; counts the records that were read, and those that were refused."""

    def __init__(self, split: SinkSplit, job: SinkJob, refusals: Refusals) -> None:
        self._split = split
        self._job = job
        self.refusals = refusals
        self.position = split.start
        self.records = 0
        self.size = 0
        self.failed = False
        self.written = 0  # after the transforms
        self.written_bytes = 0
        self._damaged = False
        self._until = time.perf_counter() + BUDGET_FACTOR * max(split.expected_seconds, 1.0)
        self._batches = self._read()

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except BaseException:
            self.failed = True  # not the writer's error, even if the writer wraps it
            raise

    def _read(self) -> Iterator[pa.RecordBatch]:
        split, convert = self._split, self._job.pipeline.to_connect_batches
        for raw in self._raw(split.start, split.end):
            for connect in convert(split.topic, split.partition, raw, partial(self._refuse, raw)):
                if len(connect):
                    self.written += len(connect)
                    self.written_bytes += connect.nbytes
                    yield connect
            self.position = raw.column(0)[len(raw) - 1].as_py() + 1
            self.records += len(raw)
            self.size += raw.nbytes
            if self.size >= MOST_BYTES or time.perf_counter() > self._until:
                return
        if not self._damaged:
            self.position = split.end  # the last offsets may hold no record

    def _raw(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        split, cluster = self._split, shared_cluster(self._job.client)
        try:
            yield from read_range(
                cluster, split.topic, split.partition, start, end, isolation=self._job.isolation,
                max_record_bytes=self._job.max_record_bytes, held=split.held if start == split.start else b"",
            )
        except OffsetOutOfRangeError as error:
            if self.records:
                raise RangeLostError(str(error)) from error
            raise
        except (CorruptRecordsError, OversizedRecordError):
            if not self.records:
                raise
            self._damaged = True  # records read so far count; the next batch begins here and reports the error

    def _refuse(self, raw: pa.RecordBatch, failure: Failure) -> None:
        split, one = self._split, raw.slice(failure.row, 1)
        self.refusals.add(failure, Original(split.topic, one, split.partition, one.column("offset")[0].as_py()))

    def refuse_put(self, offset: int, error: Exception) -> None:
        """The writer has reported a record."""
        self.refuse_puts([(offset, error)])

    def refuse_puts(self, reports: Reports) -> None:
        """Note the records that the writer refuses; they are read again as they are in Kafka."""
        split, left = self._split, dict(reports)
        if not left:
            return
        for raw in self._raw(min(left), max(left) + 1):
            offsets = raw.column("offset").to_pylist()
            for row in (row for row, offset in enumerate(offsets) if offset in left):
                where = f"{split.topic}-{split.partition}, offset {offsets[row]}"
                self._refuse(raw, replace(put_failure(left[offsets[row]], where), row=row))


@lru_cache(maxsize=256)
def _spacings(job: bytes) -> dict[tuple[str, int], int]:  # noqa: ARG001 - the cache's key
    """The recent distance between refused records, by topic and partition, if a split had many: the next split can then
    start with small calls. Kept in the Python worker.
    """
    return {}


@lru_cache(maxsize=256)
def _unpacked(job: bytes) -> SinkJob:
    """The unpickled job, kept in the Python worker, except the writer: as in Spark, each `write` gets a fresh copy."""
    found: SinkJob = pickle.loads(job)
    return found
