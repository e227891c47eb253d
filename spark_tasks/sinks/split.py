"""The executor's part of a sink batch: a range of one partition through the pipeline into the plugin's writer."""

from __future__ import annotations

import itertools
import logging
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.config.record_limit import DEFAULT_MAX_RECORD_BYTES
from spark_tasks.data.columns import in_order, size_of
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once.plans import KnownLetters, SendPlan
from spark_tasks.dead_letters.exactly_once.sender import AtLeastOnceSender, ExactlyOnceSender
from spark_tasks.dead_letters.exactly_once.sender_choice import sender_of
from spark_tasks.dead_letters.refusals import NONE_REFUSED, Original, Refusals, Refused
from spark_tasks.errors import RetriableError, ToleranceExceededError
from spark_tasks.kafka.cluster import Isolation, TopicPartition
from spark_tasks.kafka.errors import KafkaUnavailableError, OffsetOutOfRangeError, UnknownTopicError
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.records.errors import CorruptRecordsError, OversizedRecordError
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.metrics.phases import Stopwatch, measured, phase
from spark_tasks.metrics.plugins import PluginMetrics, counting
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.pipeline.errors.failures import Failure, Refuse
from spark_tasks.plugins.api import Shape
from spark_tasks.sinks.failed_rows import FailedRows, TooManyFailedRowsError
from spark_tasks.sinks.rejection_streak import RejectionStreak, streaks_of
from spark_tasks.sinks.writes import Reports, WriterRunner, put_failure, raise_if_outage
from spark_tasks.spark.executor import Outcome, failed_outcome
from spark_tasks.tasks.pace import MAX_SPLIT_BYTES

_logger = logging.getLogger(__name__)

_MAX_JOBS = 4096  # in the caches of a process; one for each task
_MANY = 4  # a split with at least this many refused records remembers their spacing for the next one
_FIRST_TIMEOUT_MS = 10_000  # before anything is written; the other partitions of the task wait meanwhile
BUDGET_FACTOR = 4.0  # a split that takes this many times longer than planned ends before the end of its range


class Pipeline(Protocol):
    """The part of SinkPipeline that a split uses."""

    def to_connect_by_schema(
        self, topic: str, partition: int, raw: pa.RecordBatch, refuse: Refuse = ...
    ) -> list[pa.RecordBatch]:
        """Returns the converted and transformed records, without those that were dropped or refused."""

    def header_of(self, topic: str, name: str, text: str) -> bytes | None:
        """Returns the value of a header that the header converter reads as `text`, or None if it has no such value."""


class RangeLostError(RetriableError):
    """Records were deleted from the log while they were read. The next batch starts after them."""


@dataclass(frozen=True, slots=True)
class SinkJob:
    """The common part of all splits of a task, which is pickled once. `writer`: pickled with cloudpickle."""

    client: Mapping[str, Any]
    isolation: Isolation
    accepts: Shape
    pipeline: Pipeline
    writer: bytes
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES
    errors: ErrorHandling = field(default_factory=ErrorHandling)
    max_bytes: int = MAX_SPLIT_BYTES  # after which a split ends before the end of its range


class SinkResult(NamedTuple):  # thousands a second are created and pickled, much faster than dataclasses
    """The result of a split. `messages`: the writer's commit messages, one for each call of `write`. `next_offset`:
    the start of the next batch. `size`: in bytes.

    If `out_of_range` is set (the log's start and end), the range is not in the log and no record was read. If `failure`
    is set, the split has failed and only `refused` (the bad records) is used. `known_letters`: from an
    ExactlyOnceSender. `written_to`: only with that, the offset after the last record that the sink was given; None if
    the sink has refused that record.
    `blocked`: the seconds for which other tasks waited for it, only of long ones in a SharedSplit. `out_of_reach`: the
    split has failed because no leader of the partition gave it a record.
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
    known_letters: KnownLetters | None = None
    written_to: int | None = None
    blocked: float = 0.0
    out_of_reach: bool = False

    @property
    def uses_topic(self) -> bool:
        """Whether the topic becomes one of the connector's active topics: with the first record that can be converted,
        as in Kafka Connect (KIP-558).
        """
        return self.records > self.refused.by_phase.get("convert", 0)


def within_reach(
    results: Sequence[SinkResult], lose: Callable[[TopicPartition], None], task: str
) -> Sequence[SinkResult]:
    """Returns the results of a batch without those of partitions that are out of reach, so that these do not delay the
    task's other partitions; all results if there are no others. Calls `lose` with each partition that is out of reach.
    """
    lost = [result for result in results if result.out_of_reach]
    for result in lost:
        lose((result.topic, result.partition))
    if not lost or len(lost) == len(results):
        return results
    first = lost[0].failure
    _logger.warning("%s continues without %d of its partitions, which are currently unavailable: %s",
                    task, len(lost), None if first is None else first.error)
    return [result for result in results if not result.out_of_reach]


@dataclass(frozen=True, slots=True)
class ConvertedRange:
    """The converted records of a whole range. `records`: before the conversion; `size` and `connect_size`: before and
    after it, in bytes.
    """

    connect: pa.RecordBatch
    records: int
    size: int
    connect_size: int


class SinkSplit(NamedTuple):
    """The offsets `start` to `end` (exclusive) of a partition. `job`: a pickled SinkJob. `held`: record batches from
    `start` on that have been fetched already, in the broker's format. `letters`: how dead letters are written; None for
    at least once. `number`: the split's in its batch.
    """

    job: bytes
    topic: str
    partition: int
    start: int
    end: int
    expected_seconds: float = 0.0
    held: bytes = b""
    letters: SendPlan | None = None
    number: int = 0

    def run(
        self, converted: ConvertedRange | None = None, shared: Mapping[str, float] = MappingProxyType({})
    ) -> SinkResult:
        """Reads, converts and writes the records; only writes those that are `converted` already. `shared`: the seconds
        of each phase that count in addition. Errors are returned in the result, so that the worker also gets the
        messages of the other splits.
        """
        with measured() as watch, counting() as plugins:
            watch.seconds.update(shared)
            return self._run(watch, plugins, converted)

    def _run(self, watch: Stopwatch, plugins: PluginMetrics, converted: ConvertedRange | None) -> SinkResult:
        begun = time.perf_counter()
        job = unpacked(self.job)
        letters = sender_of(job.errors, (self.topic, self.partition), self.letters)
        reading = _Reading(self, job, letters, converted, _FIRST_TIMEOUT_MS)
        try:
            first = next(reading, None)
        except OffsetOutOfRangeError as error:
            return SinkResult(self.topic, self.partition, self.start, out_of_range=(error.log_start, error.log_end))
        except (KafkaUnavailableError, UnknownTopicError) as error:
            return self._failed(error, reading)._replace(out_of_reach=not reading.records)
        except Exception as error:  # noqa: BLE001 - converters and transforms are plugin code
            return self._failed(error, reading)
        messages: Sequence[Any] = ()
        try:
            if first is not None:
                with phase("write"):
                    reading, messages = self._put(job, reading, first)
            letters.send(reading.refusals)
        except OffsetOutOfRangeError as error:  # the beginning was there when it was first read
            return self._failed(RangeLostError(str(error)), reading)
        except Exception as error:  # noqa: BLE001 - plugin code
            return self._failed(error, reading)
        return SinkResult(
            self.topic, self.partition, reading.position, reading.records, reading.size,
            time.perf_counter() - begun, tuple(messages) or (None,), refused=reading.refusals.refused,
            figures=SplitFigures(
                reading.records, reading.size, reading.written, reading.written_bytes, watch.seconds, plugins.counted()
            ),
            known_letters=letters.known, written_to=None if self.letters is None else reading.written_to,
        )

    def _put(self, job: SinkJob, reading: _Reading, first: pa.RecordBatch) -> tuple[_Reading, Sequence[Any]]:
        """Writes all records: in one call, or in several if the writer refuses some of them. Returns the reading that
        was written (a second one, if the first call failed) and the writer's messages.
        """
        spacings, streaks, place = _spacings(self.job), streaks_of(job.errors.connector), (self.topic, self.partition)
        runner = WriterRunner(job.writer, job.accepts, place, tolerant=job.errors.tolerant, refuse=reading.refuse_put,
                              number=self.number)
        batches: Iterator[pa.RecordBatch] = itertools.chain([first], reading)
        spacing, raised = spacings.pop(place, None), None
        if spacing is None:
            try:
                message, reports = runner.write(batches)
            except Exception as error:
                if reading.failed or not job.errors.tolerant:
                    raise
                raise_if_outage(error)
                raised = error
                reading = reading.again()
                batches = reading
            else:
                streaks.pop(place, None)
                reading.refuse_puts(reports)
                return reading, [message]
        streak = streaks.setdefault(place, RejectionStreak())
        messages, reports = runner.write_accepted(list(batches), spacing, raised, streak)
        if messages:
            streaks.pop(place, None)
        if len(reports) >= _MANY:
            spacings[place] = reading.written // len(reports)
        reading.refuse_puts(reports)
        return reading, messages

    def _failed(self, error: Exception, reading: _Reading) -> SinkResult:
        """Returns the result of a failed split. With errors.tolerance=none, the bad record that fails the task gets its
        dead letter first, as in Kafka Connect.
        """
        try:
            if isinstance(error, ToleranceExceededError):
                reading.letters.send(reading.refusals)
        except Exception as problem:  # noqa: BLE001 - the first error is the one to report
            _logger.warning("Could not write a dead letter for %s: %s", error, problem)
        failure = failed_outcome(error)
        return SinkResult(self.topic, self.partition, self.start, failure=failure, refused=reading.refusals.refused)


class _Reading(Iterator[pa.RecordBatch]):
    """Iterates over the split's Connect batches that are not empty. Counts the records and collects the bad ones; if
    their letters become large, it ends before the end of the range.
    """

    def __init__(
        self, split: SinkSplit, job: SinkJob, letters: ExactlyOnceSender | AtLeastOnceSender,
        converted: ConvertedRange | None = None, first_timeout_ms: float | None = None,
    ) -> None:
        self._split = split
        self._job = job
        self.letters = letters
        self.refusals = Refusals(job.errors, letters.max_letters)
        self.position = split.start
        self.records = 0
        self.size = 0
        self.failed = False
        self.written = 0  # records after the transforms
        self.written_bytes = 0
        self._first_timeout_ms = first_timeout_ms
        self._last: int | None = None  # the offset of the last record that was yielded
        self._has_last = True  # whether the sink has accepted that record
        self._damaged = False
        self._until = time.perf_counter() + BUDGET_FACTOR * max(split.expected_seconds, 1.0)
        self._batches = self._read() if converted is None else self._take(converted)

    def again(self) -> _Reading:
        """Returns a new reading of the same range, which was read from Kafka."""
        return _Reading(self._split, self._job, self.letters)

    def _take(self, converted: ConvertedRange) -> Iterator[pa.RecordBatch]:
        self.records, self.size = converted.records, converted.size
        self.written, self.written_bytes = len(converted.connect), converted.connect_size
        self.position = self._split.end
        if self.written:
            yield converted.connect

    @property
    def written_to(self) -> int | None:
        """The offset after the last record that was yielded; None if there was none, or if it was refused."""
        return self._last + 1 if self._last is not None and self._has_last else None

    @override
    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except BaseException:
            self.failed = True  # not the writer's error, even if the writer wraps it
            raise

    def _read(self) -> Iterator[pa.RecordBatch]:
        split = self._split
        for found in self._raw(split.start, split.end):
            raw, batches = self._converted(found)
            self.written_bytes += sum(map(size_of, batches))
            for connect in in_order(batches):
                if len(connect):
                    self.written += len(connect)
                    self._last = connect.column("offset")[-1].as_py()
                    yield connect
            self.position = raw.column(0)[len(raw) - 1].as_py() + 1
            self.records += len(raw)
            self.size += size_of(raw)
            if self.size >= self._job.max_bytes or self.refusals.enough or time.perf_counter() > self._until:
                return
        if not self._damaged:
            self.position = split.end  # the last offsets may hold no record

    def _converted(self, raw: pa.RecordBatch) -> tuple[pa.RecordBatch, list[pa.RecordBatch]]:
        """Returns `raw` and its converted records; only the beginning if the letters of all would be too large. The
        stages refuse records one after the other, so a letter is written only when all bad records before are known.
        """
        split, convert = self._split, self._job.pipeline.to_connect_by_schema
        failed = FailedRows(None if self._job.errors.tolerant else partial(self._refuse, raw))
        try:
            batches = convert(split.topic, split.partition, raw, failed.add_limited)
        except TooManyFailedRowsError as many:
            raw = raw.slice(0, many.row + 1)
            failed.clear()
            batches = convert(split.topic, split.partition, raw, failed.add)
        for failure in failed.in_order():
            self._refuse(raw, failure)
            if self.refusals.enough and failure.row + 1 < len(raw):
                last = raw.column(0)[failure.row]
                return raw.slice(0, failure.row + 1), [
                    batch.filter(pc.less_equal(batch.column("offset"), last)) for batch in batches]
        return raw, batches

    def _raw(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        split, cluster = self._split, shared_cluster(self._job.client)
        try:
            yield from read_range(
                cluster, split.topic, split.partition, start, end, isolation=self._job.isolation,
                first_timeout_ms=None if self.records else self._first_timeout_ms,
                max_record_bytes=self._job.max_record_bytes, held=split.held if start == split.start else b"",
            )
        except OffsetOutOfRangeError as error:
            if self.records:
                raise RangeLostError(str(error)) from error
            raise
        except (CorruptRecordsError, OversizedRecordError):
            if not self.records:
                raise
            self._damaged = True  # the records read so far are written; the next batch starts here and raises the error

    def _refuse(self, raw: pa.RecordBatch, failure: Failure) -> None:
        split, one = self._split, raw.slice(failure.row, 1)
        self.refusals.add(failure, Original(split.topic, one, split.partition, one.column("offset")[0].as_py()))

    def refuse_put(self, offset: int, error: Exception) -> None:
        """Refuses a record that the writer has reported."""
        self.refuse_puts([(offset, error)])

    def refuse_puts(self, reports: Reports) -> None:
        """Refuses the records that the writer has reported, when it has written the others. They are read again,
        because a dead letter has the record as it is in Kafka. Raises RangeLostError if one is not there anymore, so
        that it cannot have a letter, and errors of sending letters, whose memory may be needed for others.
        """
        split, left = self._split, dict(reports)
        if not left:
            return
        self._has_last = self._last not in left
        for raw in self._raw(min(left), max(left) + 1):
            offsets = raw.column("offset").to_pylist()
            for row in (row for row, offset in enumerate(offsets) if offset in left):
                where = f"{split.topic}-{split.partition}, offset {offsets[row]}"
                self._refuse(raw, replace(put_failure(left.pop(offsets[row]), where), row=row))
                if self.refusals.full:
                    self.letters.send(self.refusals, before=offsets[row] + 1)
        if left:
            raise RangeLostError(f"records of {split.topic}-{split.partition} that the writer has reported are no "
                                 f"longer in the log: offsets {sorted(left)[:10]}")


@lru_cache(maxsize=_MAX_JOBS)
def _spacings(job: bytes) -> dict[tuple[str, int], int]:  # noqa: ARG001 - the cache's key
    """Returns the mean distance between refused records of partitions whose last split had many; see WriterRunner."""
    return {}


@lru_cache(maxsize=_MAX_JOBS)
def unpacked(job: bytes) -> SinkJob:
    """Returns the unpickled job, which is kept in the process. The writer stays pickled: as in Spark, each
    call of `write` gets a fresh copy.
    """
    unpickled: SinkJob = pickle.loads(job)
    return unpickled
