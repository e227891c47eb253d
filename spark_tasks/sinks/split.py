"""The executor's part of a sink batch: a range of one partition through the pipeline into the plugin's writer."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceWriter

from spark_tasks.data.rows import write_batches
from spark_tasks.errors import RetriableError
from spark_tasks.kafka.cluster import Isolation
from spark_tasks.kafka.errors import OffsetOutOfRangeError
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.record_limit import DEFAULT_MAX_RECORD_BYTES
from spark_tasks.kafka.records.errors import CorruptRecordsError, OversizedRecordError
from spark_tasks.kafka.sharing import shared_cluster
from spark_tasks.metrics.phases import Stopwatch, measured, phase
from spark_tasks.metrics.plugins import PluginMetrics, counting
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.plugins.api import Shape
from spark_tasks.spark.executor import Outcome, failed_outcome
from spark_tasks.tasks.pacing import MOST_BYTES

BUDGET_FACTOR = 4.0  # a split that takes so many times longer than planned stops where it is


class Pipeline(Protocol):
    """The part of SinkPipeline that a split needs."""

    def to_connect_batches(self, topic: str, partition: int, raw: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Converted and transformed records in order; those that were dropped are missing."""


class RangeLostError(RetriableError):
    """Records were deleted while they were read; the next batch starts behind them."""


@dataclass(frozen=True, slots=True)
class SinkJob:
    """What all splits of a task have in common; pickled once, `writer` with cloudpickle."""

    client: Mapping[str, Any]
    isolation: Isolation
    accepts: Shape
    pipeline: Pipeline
    writer: bytes
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES


@dataclass(frozen=True, slots=True)
class SinkResult:
    """What became of a split: `message` is the writer's, `next_offset` where the next batch goes on. With
    `out_of_range` (the log's start and end) nothing was done: the range is not in the log. With `failure` nothing
    counts.
    """

    topic: str
    partition: int
    next_offset: int
    records: int = 0
    size: int = 0
    seconds: float = 0.0
    message: Any = None
    out_of_range: tuple[int, int] | None = None
    failure: Outcome | None = None
    figures: SplitFigures | None = None


@dataclass(frozen=True, slots=True)
class SinkSplit:
    """Offsets `start` to `end` (exclusive) of a partition; `job` is a pickled SinkJob."""

    job: bytes
    topic: str
    partition: int
    start: int
    end: int
    expected_seconds: float = 0.0

    def run(self) -> SinkResult:
        """Read, convert, write. Errors come back in the result, so that the writer can be told of the others."""
        with measured() as watch, counting() as plugins:
            return self._run(watch, plugins)

    def _run(self, watch: Stopwatch, plugins: PluginMetrics) -> SinkResult:
        begun = time.perf_counter()
        try:
            reading = _Reading(self, _unpacked(self.job))
            first = next(reading, None)
        except OffsetOutOfRangeError as error:
            return SinkResult(self.topic, self.partition, self.start, out_of_range=(error.log_start, error.log_end))
        except Exception as error:  # noqa: BLE001 - converters and transforms are plugin code
            return SinkResult(self.topic, self.partition, self.start, failure=failed_outcome(error))
        try:
            with phase("write"):
                message = None if first is None else reading.write(itertools.chain([first], reading))
            for _ in reading:  # as in Spark, what the writer does not take is dropped
                pass
        except Exception as error:  # noqa: BLE001 - plugin code
            return SinkResult(self.topic, self.partition, self.start, failure=failed_outcome(error))
        return SinkResult(
            self.topic, self.partition, reading.position, reading.records, reading.size,
            time.perf_counter() - begun, message, figures=SplitFigures(
                reading.records, reading.size, reading.written, reading.written_bytes, watch.seconds, plugins.counted()
            ),
        )


class _Reading(Iterator[pa.RecordBatch]):
    """The split's Connect batches, none of them empty; counts what was read."""

    def __init__(self, split: SinkSplit, job: SinkJob) -> None:
        self._split = split
        self._job = job
        self._writer: DataSourceWriter = cloudpickle.loads(job.writer)
        self.position = split.start
        self.records = 0
        self.size = 0
        self.written = 0  # after the transforms
        self.written_bytes = 0
        self._damaged = False
        self._until = time.perf_counter() + BUDGET_FACTOR * max(split.expected_seconds, 1.0)
        self._batches = self._read()

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def _read(self) -> Iterator[pa.RecordBatch]:
        split, convert = self._split, self._job.pipeline.to_connect_batches
        for raw in self._raw():
            for connect in convert(split.topic, split.partition, raw):
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

    def _raw(self) -> Iterator[pa.RecordBatch]:
        split, cluster = self._split, shared_cluster(self._job.client)
        try:
            yield from read_range(
                cluster, split.topic, split.partition, split.start, split.end, isolation=self._job.isolation,
                max_record_bytes=self._job.max_record_bytes,
            )
        except OffsetOutOfRangeError as error:
            if self.records:
                raise RangeLostError(str(error)) from error
            raise
        except (CorruptRecordsError, OversizedRecordError):
            if not self.records:
                raise
            self._damaged = True  # what was read counts; the next batch begins here and says what it is

    def write(self, batches: Iterable[pa.RecordBatch]) -> Any:
        """The writer's commit message."""
        if self._job.accepts == "rows":
            batches = map(as_rows, batches)
        return write_batches(self._writer, batches)


def as_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The fields of the records' values as columns; a value that is no struct becomes the column `value`."""
    value = batch.column("value")
    if not pa.types.is_struct(value.type):
        return batch.select(["value"])
    fields = [value.type.field(i) for i in range(value.type.num_fields)]
    return pa.RecordBatch.from_arrays(value.flatten(), schema=pa.schema(fields))


@lru_cache(maxsize=256)
def _unpacked(job: bytes) -> SinkJob:
    """Kept in the Python worker. The writer is not: as in Spark, each call of `write` is on a fresh copy."""
    found: SinkJob = pickle.loads(job)
    return found
