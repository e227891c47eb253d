"""The executor's part of a source batch: reads with the plugin's reader, and appends through the pipeline."""

from __future__ import annotations

import itertools
import logging
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import StructType

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import NONE_REFUSED, Original, Refusals, Refused
from spark_tasks.errors import DataError, ToleranceExceededError
from spark_tasks.kafka.append import DEFAULT_REQUEST_BYTES, Appender
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.records.encode import encode
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.kafka.topic_creation import TopicCreation
from spark_tasks.kafka.transactions import TransactionMember
from spark_tasks.metrics.phases import Stopwatch, each, measured, phase
from spark_tasks.metrics.plugins import PluginMetrics, counting
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.pipeline.failures import FailedStage, Failure
from spark_tasks.pipeline.stages import SourcePipeline
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.stream_offsets import StreamOffset, plain

_logger = logging.getLogger(__name__)

_SOURCE_TASK = "org.apache.kafka.connect.runtime.WorkerSourceTask"  # Kafka Connect's name for the stage's class
_FIRST_TUPLES = 100  # rows gathered first, while their size is unknown
_MOST_TUPLES = 10_000
_MISFITS = (pa.ArrowException, ValueError, TypeError, AssertionError, ArithmeticError)  # errors of PySpark's conversion
_MOST_ROWS = 65_536  # rows through the pipeline at once: enough to be fast, few enough to overlap
_MOST_BYTES = 32 * 1024 * 1024  # and their bytes, unless a single row has more


@dataclass(frozen=True, slots=True)
class SourceJob:
    """What all splits of a task share; pickled once, `reader` with cloudpickle. `schema` names the columns of
    readers that yield tuples (empty: there are none). `appender`: keyword arguments for the Appender.
    """

    client: Mapping[str, Any]
    appender: Mapping[str, Any]
    pipeline: SourcePipeline
    reader: bytes
    schema: StructType
    creation: TopicCreation | None
    errors: ErrorHandling = default(default_factory=ErrorHandling)


@dataclass(frozen=True, slots=True)
class SourceResult:
    """The result of a split. `end`: the offset that a simple stream reader returned."""

    sequences: Mapping[TopicPartition, int]
    records: int
    size: int
    seconds: float
    topics: tuple[str, ...]
    end: dict[str, Any] | None = None
    refused: Refused = NONE_REFUSED
    figures: SplitFigures | None = None


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """Reads `partitions` (pickled InputPartitions) one after the other, or, with `start`, a simple stream reader from
    that offset; writes everything under one lane.
    """

    job: bytes
    lane: Lane
    partitions: tuple[bytes, ...] = ()
    start: bytes | None = None
    expected_seconds: float = 0.0

    def run(self) -> SourceResult:
        """Read, convert, append, and wait until everything is acknowledged."""
        with measured() as watch, counting() as plugins:
            return self._run(watch, plugins)

    def _run(self, watch: Stopwatch, plugins: PluginMetrics) -> SourceResult:
        begun = time.perf_counter()
        job = _unpacked(self.job)
        reader = cloudpickle.loads(job.reader)
        writing = _Writing(job, self.lane)
        end = None
        try:
            if self.start is not None:
                with phase("read"):
                    rows, end = answer_of(reader, pickle.loads(self.start))
                writing.write(rows)
            for partition in self.partitions:
                with phase("read"):
                    rows = reader.read(cloudpickle.loads(partition))
                writing.write(rows)
            with phase("write"):
                writing.flush()
        finally:
            writing.close()
        return SourceResult(
            dict(writing.sequences), writing.records, writing.size, time.perf_counter() - begun,
            tuple(writing.topics), end, writing.refusals.refused,
            SplitFigures(
                writing.read, writing.read_bytes, writing.records, writing.size, watch.seconds, plugins.counted()
            ),
        )


def answer_of(reader: Any, start: StreamOffset) -> tuple[Iterable[Any], StreamOffset]:
    """The rows of a simple reader from `start` on, and the offset after them. DataError if it returns something else,
    or rows with the same offset as before: they would be read again after each restart. (Spark refuses them too.)
    """
    match reader.read(plain(reader, start)):
        case tuple((rows, found)):
            end = plain(reader, found)
        case other:
            what = f"{type(reader).__name__}.read() returned a {type(other).__name__}"
            raise DataError(f"{what}; a simple reader returns two things: its rows, and the offset after them")
    if end == start and next(iter(rows), None) is not None:
        raise DataError(f"{type(reader).__name__}.read() returned rows, but the offset is unchanged: {start}")
    return rows, end


class _Writing:
    """Converts batches, writes them to an appender, and counts."""

    def __init__(self, job: SourceJob, lane: Lane) -> None:
        self._job = job
        self._cluster = shared_cluster(job.client)
        admit = None
        if lane.identity is not None and lane.identity.transactional_id is not None:
            admit = TransactionMember(self._cluster, lane.identity, lane.added, lane.likely).admit
        self._appender = Appender(self._cluster, lane.identity, sequences=lane.sequences, admit=admit, **job.appender)
        self._limit = int(job.appender.get("max_request_bytes", DEFAULT_REQUEST_BYTES))
        self.refusals = Refusals(job.errors)
        self.read = 0  # before the transforms
        self.read_bytes = 0
        self.records = 0
        self.size = 0
        self.topics: dict[str, None] = {}
        self.flush = self._appender.flush
        self.close = self._appender.close

    @property
    def sequences(self) -> Mapping[TopicPartition, int]:
        return self._appender.sequences

    def write(self, rows: Iterable[Any]) -> None:
        for batch in each("read", as_batches(rows, self._job.schema)):
            self.read += len(batch)
            self.read_bytes += batch.nbytes
            try:
                for topic, partitions, raw in self._job.pipeline.to_raw(batch, partial(self._refuse, batch)):
                    with phase("write"):
                        self._append(topic, partitions, raw)
            except ToleranceExceededError:
                self._send_apart()
                raise
            self.refusals.send(self._append_letters)  # with the other records: in their transaction, if any

    def _append(self, topic: str, partitions: pa.Array | None, raw: pa.RecordBatch) -> None:
        raw, partitions = self._fitting(topic, partitions, raw)
        if not len(raw):
            return
        if topic not in self.topics:
            if self._job.creation is not None:
                self._job.creation.ensure(self._cluster, topic)
            self.topics[topic] = None
        self._appender.append(topic, partitions, raw)
        self.records += len(raw)
        self.size += raw.nbytes

    def _append_letters(self, topic: str, raw: pa.RecordBatch) -> None:
        self._appender.append(topic, None, raw)

    def _refuse(self, batch: pa.RecordBatch, failure: Failure) -> None:
        topic, _, raw = self._job.pipeline.original(batch, failure.row)
        self.refusals.add(failure, Original(topic, raw))

    def _fitting(
        self, topic: str, partitions: pa.Array | None, raw: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The batch without records larger than max.request.size, if bad records are tolerated (KIP-779)."""
        if not self._job.errors.tolerant:
            return raw, partitions
        keep = np.ones(len(raw), np.bool_)
        for row, size in too_large(raw, self._limit):
            keep[row] = False
            error = RecordTooLargeError(row, size, self._limit, topic)
            failure = Failure(FailedStage.KAFKA_PRODUCE, _SOURCE_TASK, error, str(error), row)
            small = Original(topic, without_value(raw.slice(row, 1)))
            self.refusals.add(failure, small)
        if keep.all():
            return raw, partitions
        mask = pa.array(keep)
        return raw.filter(mask), None if partitions is None else partitions.filter(mask)

    def _send_apart(self) -> None:
        """Send the letter of a record that errors.tolerance=none does not allow, outside the transaction, which ends
        with the task.
        """
        try:
            self.refusals.send_apart()
        except Exception as error:  # noqa: BLE001 - what has failed before is what counts
            _logger.warning("no dead letter: %s", error)


def too_large(raw: pa.RecordBatch, limit: int) -> list[tuple[int, int]]:
    """The records larger than the limit: row, and size in bytes as a batch of one record."""
    if raw.nbytes < limit:
        return []
    sizes = sum(pc.fill_null(pc.binary_length(raw.column(part)), 0).to_numpy().astype(np.int64)
                for part in ("key", "value"))
    found = []
    for row in np.flatnonzero(np.asarray(sizes) > limit // 2).tolist():
        try:
            encode(raw, rows=np.array([row]), no_timestamp=0, max_batch_bytes=limit)
        except RecordTooLargeError as error:
            found.append((row, error.size))
    return found


def without_value(raw: pa.RecordBatch) -> pa.RecordBatch:
    """A record that is too large, without its value, so that a dead letter can hold it."""
    empty = pa.nulls(len(raw), pa.binary())
    return raw.set_column(raw.schema.get_field_index("value"), raw.schema.field("value"), empty)


def as_batches(rows: Iterable[Any], schema: StructType) -> Iterator[pa.RecordBatch]:
    """What a reader yields, as record batches of limited size: record batches, of which large ones are split, or
    tuples, lists and Rows, which are gathered. Raises DataError for anything else.
    """
    if not isinstance(rows, Iterable):
        raise DataError(f"read() of the source's reader returned a {type(rows).__name__}; it must yield rows or Arrow "
                        "record batches")
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        return
    together = itertools.chain([first], iterator)
    if isinstance(first, pa.RecordBatch):
        for batch in together:
            count = _rows_at_once(batch, _MOST_ROWS)
            for start in range(0, len(batch), count):
                yield batch.slice(start, count)
        return
    if not schema.fields:
        raise DataError(f"the source yields {type(first).__name__}s, so its DataSource must implement schema()")
    count = _FIRST_TUPLES
    while some := list(itertools.islice(together, count)):
        table = _from_tuples(some, schema)
        count = _rows_at_once(table, _MOST_TUPLES)
        yield from table.to_batches()


def _rows_at_once(seen: pa.RecordBatch | pa.Table, most: int) -> int:
    """How many rows of the size seen so far to gather at once."""
    fitting = _MOST_BYTES * len(seen) // max(int(seen.nbytes), 1)
    return max(1, min(most, fitting))


def _from_tuples(rows: Sequence[Any], schema: StructType) -> pa.Table:
    rows = _in_order(rows, schema.names)
    widths = set(map(len, rows)) - {len(schema)}
    if widths:
        raise DataError(f"the source yields rows of {max(widths)} values, its schema has {len(schema)} columns")
    try:
        return _converted(rows, schema)
    except _MISFITS as error:
        raise DataError(f"rows of the source do not fit its schema: {_misfit(rows, schema) or error}") from error


def _converted(rows: Sequence[Any], schema: StructType) -> pa.Table:
    """Convert rows as Spark does, so that data sources give the same values: naive times are local, for example."""
    return LocalDataToArrowConversion.convert(list(rows), schema, False)


def _misfit(rows: Sequence[Any], schema: StructType) -> str | None:
    """Describe the first value that does not fit; PySpark's errors mostly name neither the column nor the value."""
    for number, field in enumerate(schema):
        for row in rows:
            try:
                _converted([(row[number],)], StructType([field]))
            except _MISFITS as error:
                why = f": {error}" if str(error) else ""
                kind = type(row[number]).__name__
                return f"column {field.name} is {field.dataType.simpleString()} and got a {kind}{why}"
    return None


def _in_order(rows: Sequence[Any], names: Sequence[str]) -> Sequence[Any]:
    """The rows with their values in the order of the schema: as in PySpark, a Row with names is matched by name."""
    kinds = set(map(type, rows))
    for kind in kinds:  # a dict or a text would be accepted as a sequence of its keys or letters
        if not issubclass(kind, (tuple, list)):
            raise DataError(f"the source yields rows of type {kind.__name__}; a row is a tuple, a list or a Row")
    return [_by_name(row, names) for row in rows] if any(issubclass(kind, Row) for kind in kinds) else rows


def _by_name(row: Any, names: Sequence[str]) -> Any:
    fields = getattr(row, "__fields__", None)
    if fields is None or fields == names:
        return row
    if sorted(fields) != sorted(names):
        raise DataError(f"the source yields a Row with {', '.join(fields)}; its schema has {', '.join(names)}")
    return [row[name] for name in names]


@lru_cache(maxsize=256)
def _unpacked(job: bytes) -> SourceJob:
    found: SourceJob = pickle.loads(job)
    return found
