"""The executor's part of a source batch: reads with the plugin's reader, transforms, converts and appends records."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from functools import lru_cache, partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import StructType

from spark_tasks.data.columns import size_of
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import NO_RECORD, NONE_REFUSED, Original, Refusals, Refused
from spark_tasks.dead_letters.source_letters import record_header
from spark_tasks.errors import DataError, ToleranceExceededError
from spark_tasks.kafka.append import DEFAULT_REQUEST_BYTES, Appender
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.pending_batch import OnRefusal
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.kafka.topic_creation import TopicCreation
from spark_tasks.metrics.phases import Stopwatch, each, measured, phase
from spark_tasks.metrics.plugins import PluginMetrics, counting
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.pipeline.errors.failures import Failure
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.plugins.spark_task import as_spark_task
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.stream_offsets import StreamOffset, plain
from spark_tasks.sources.tolerant_appender import TolerantAppender

_FIRST_TUPLES = 100  # in the first batch, while the size of rows is unknown
_MAX_TUPLES = 10_000
_GROWTH = 16  # of a batch of tuples, from the one before it
_CONVERSION_ERRORS = (pa.ArrowException, ValueError, TypeError, AssertionError, ArithmeticError)  # of PySpark
_END = object()  # of an iterator
_MAX_ROWS = 65_536  # in a batch for the pipeline: enough to be fast, few enough to overlap with the append
_MAX_BYTES = 32 * 1024 * 1024  # of such a batch, unless a single row is larger
_LOOK_S = 0.5  # how often a flush looks for records that brokers have refused, which need memory


@dataclass(frozen=True, slots=True)
class SourceJob:
    """The data that all splits of a task share; pickled once. `client`, `appender`: see ProducerSettings. `reader`: the
    stream reader, pickled with cloudpickle. `schema`: that of the rows of readers that yield tuples, otherwise empty.
    `creation`: None if brokers create topics.
    """

    client: Mapping[str, Any]
    appender: Mapping[str, Any]
    pipeline: SourcePipeline
    reader: bytes
    schema: StructType
    creation: TopicCreation | None
    errors: ErrorHandling = default(default_factory=ErrorHandling)


class SourceResult(NamedTuple):  # as SinkResult
    """The result of a split. `sequences`: the next sequence numbers of its lane; `added`: the partitions that are in
    its transaction now. `records`, `size`: the number and the
    bytes of the appended records; `topics`: theirs. `seconds`: the run time. `end`: the offset that a simple stream
    reader returned.
    """

    sequences: Mapping[TopicPartition, int]
    records: int
    size: int
    seconds: float
    topics: tuple[str, ...]
    end: dict[str, Any] | None = None
    refused: Refused = NONE_REFUSED
    figures: SplitFigures | None = None
    added: frozenset[TopicPartition] = frozenset()


class SourceSplit(NamedTuple):
    """Reads `partitions` (pickled InputPartitions) one after the other or, with `start` (a pickled offset), a simple
    stream reader. Appends all records with one lane. `job`: a pickled SourceJob. `numbers`: that of the
    first partition in the batch, and the difference to each next one.
    """

    job: bytes
    lane: Lane
    partitions: tuple[bytes, ...] = ()
    start: bytes | None = None
    expected_seconds: float = 0.0
    numbers: tuple[int, int] = (0, 1)

    def run(self) -> SourceResult:
        """Reads, converts and appends records, and waits until they are acknowledged."""
        with measured() as watch, counting() as plugins:
            return self._run(watch, plugins)

    def _run(self, watch: Stopwatch, plugins: PluginMetrics) -> SourceResult:
        begun = time.perf_counter()
        job = unpickled_job(self.job)
        reader = cloudpickle.loads(job.reader)
        writer = RecordWriter(job, self.lane)
        end = None
        try:
            if self.start is not None:
                with phase("read"):
                    rows, end = read_simple(reader, pickle.loads(self.start))
                writer.write_rows(rows)
            for number, partition in zip(itertools.count(*self.numbers), self.partitions):
                with as_spark_task(number):
                    with phase("read"):
                        rows = reader.read(cloudpickle.loads(partition))
                    writer.write_rows(rows)
            with phase("write"):
                writer.flush()
        finally:
            writer.close()
        return SourceResult(
            dict(writer.sequences), writer.records, writer.size, time.perf_counter() - begun,
            tuple(writer.topics), end, writer.refusals.refused,
            SplitFigures(
                writer.read, writer.read_bytes, writer.records, writer.size, watch.seconds, plugins.counted()
            ),
            writer.added,
        )


def read_simple(reader: Any, start: StreamOffset) -> tuple[Iterable[Any], StreamOffset]:
    """Returns the rows of a simple reader from `start`, and the offset after them. Raises DataError if `read` returns
    anything else, or rows with an unchanged offset, which would be read again after each restart. (Spark rejects them,
    too.)
    """
    match reader.read(plain(reader, start)):
        case tuple((rows, found)):
            end = plain(reader, found)
        case other:
            what = f"{type(reader).__name__}.read() returned a {type(other).__name__}"
            raise DataError(f"{what}; a simple reader must return two values: its rows, and the offset after them")
    if end == start and isinstance(rows, Iterable) and next(iter(rows), _END) is not _END:
        raise DataError(f"{type(reader).__name__}.read() returned rows, but the offset is unchanged: {start}")
    return rows, end


class RecordWriter:
    """Converts records, appends them, and counts records and bytes. `lane`: its producer."""

    def __init__(self, job: SourceJob, lane: Lane) -> None:
        self._job = job
        self._cluster = shared_cluster(job.client)
        self._member = member = lane.member(self._cluster)
        self._appender = Appender(self._cluster, lane.identity, sequences=lane.sequences,
                                  admit=None if member is None else member.admit, **job.appender)
        self.refusals = Refusals(job.errors)
        self._limit = int(job.appender.get("max_request_bytes", DEFAULT_REQUEST_BYTES))
        self._tolerant_appender = TolerantAppender(
            self._appender, self._cluster, self._limit, self._use, self.refusals if job.errors.tolerant else None)
        self.read = 0  # before the transforms
        self.read_bytes = 0
        self.records = 0
        self.size = 0
        self.topics: dict[str, None] = {}
        self.close = self._appender.close

    @property
    def sequences(self) -> Mapping[TopicPartition, int]:
        """The next sequence numbers of the lane."""
        return self._appender.sequences

    @property
    def added(self) -> frozenset[TopicPartition]:
        """The partitions that are in the lane's transaction now."""
        return frozenset() if self._member is None else self._member.added

    def write_rows(self, rows: Iterable[Any]) -> None:
        """Appends a reader's rows."""
        for batch in each("read", as_batches(rows, self._job.schema)):
            self.write(batch)

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends the records of a batch as the source read it."""
        self.read += len(batch)
        self.read_bytes += size_of(batch)
        try:
            for topic, partitions, raw in self._job.pipeline.to_raw(batch, partial(self._refuse, batch)):
                with phase("write"):
                    self._append(topic, partitions, raw)
        except ToleranceExceededError as error:
            self.refusals.end_source(error)
            raise
        self._send_letters()

    def write_produced(self, topic: str, partitions: pa.Array, raw: pa.RecordBatch) -> None:
        """Appends records that the pipeline has already transformed and converted."""
        with phase("write"):
            self._append(topic, partitions, raw)
        self._send_letters()

    def flush(self) -> None:
        """Waits until all records and letters are acknowledged. Raises the first error."""
        while not self._appender.flushed(_LOOK_S):
            self._send_letters()
        if self._send_letters():
            self._appender.flush()

    def _send_letters(self) -> bool:
        """Appends the letters with the other records: in their transaction, if any. Returns whether brokers have
        refused records since the last call.
        """
        refused = self._tolerant_appender.refused
        while True:
            count, size = self._tolerant_appender.collect()
            self.records -= count
            self.size -= size
            self.refusals.send(self._append_letters)
            if not self._tolerant_appender.refused:
                return refused

    def _append(self, topic: str, partitions: pa.Array | None, raw: pa.RecordBatch) -> None:
        appended, _ = self._tolerant_appender.append(topic, partitions, raw)
        self.records += len(appended)
        self.size += size_of(appended)

    def _use(self, topic: str) -> None:
        if topic not in self.topics:
            if self._job.creation is not None:
                self._job.creation.ensure(self._cluster, topic)
            self.topics[topic] = None

    def _append_letters(self, topic: str, raw: pa.RecordBatch, on_refusal: OnRefusal) -> None:
        self._appender.append(topic, None, raw, on_refusal=on_refusal)

    def _refuse(self, batch: pa.RecordBatch, failure: Failure) -> None:
        if not self.refusals.needs_record:  # to convert it takes most of the time of a bad record
            self.refusals.add(failure, NO_RECORD)
            return
        topic, _, raw = self._job.pipeline.original(batch, failure.row)
        origin = record_header(batch, failure.row, self._limit // 2 - raw.nbytes) if self._job.errors.replayable else ()
        self.refusals.add(failure, Original(topic, raw, origin=origin))
        if self.refusals.full:
            self.refusals.send(self._append_letters)


def as_batches(rows: Iterable[Any], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Converts a reader's rows to record batches of limited size. Splits large record batches, and collects tuples,
    lists and Rows. `schema`: that of the rows, see SourceJob. Raises DataError for anything else.
    """
    if not isinstance(rows, Iterable):
        raise DataError(f"read() of the source's reader returned a {type(rows).__name__}; it must yield rows or Arrow "
                        "record batches")
    iterator = iter(rows)
    first = next(iterator, _END)
    if first is _END:
        return
    together = itertools.chain([first], iterator)
    if isinstance(first, pa.RecordBatch):
        for batch in together:
            if not isinstance(batch, pa.RecordBatch):
                raise DataError(f"the source yields a {type(batch).__name__} after an Arrow record batch; it must "
                                "yield either rows or Arrow record batches")
            count = _batch_rows(batch, _MAX_ROWS)
            for start in range(0, len(batch), count):
                yield batch.slice(start, count)
        return
    if not schema.fields:
        raise DataError(f"the source yields {type(first).__name__}s, so its DataSource must implement schema()")
    some = list(_first_tuples(together))
    while some:
        table = _from_tuples(some, schema)
        yield from table.to_batches()
        # Not many more at once: the next rows may be larger than these.
        some = list(itertools.islice(together, min(_batch_rows(table, _MAX_TUPLES), _GROWTH * len(some))))


def _first_tuples(rows: Iterator[Any]) -> Iterator[Any]:
    """Yields the first rows, fewer if they are large."""
    size = 0
    for row in itertools.islice(rows, _FIRST_TUPLES):
        yield row
        size += _size(row)
        if size >= _MAX_BYTES:
            return


def _size(value: Any) -> int:
    """Returns about how many bytes a value has if it is large."""
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 0


def _batch_rows(sample: pa.RecordBatch | pa.Table, max_rows: int) -> int:
    """Returns how many rows, at most `max_rows`, a batch should have if all rows are as large as those of `sample`."""
    rows = _MAX_BYTES * len(sample) // max(int(sample.nbytes), 1)
    return max(1, min(max_rows, rows))


def _from_tuples(rows: Sequence[Any], schema: StructType) -> pa.Table:
    rows = _in_order(rows, schema.names)
    widths = set(map(len, rows)) - {len(schema)}
    if widths:
        raise DataError(f"the source yields rows of {max(widths)} values, but its schema has {len(schema)} columns")
    try:
        return _converted(rows, schema)
    except _CONVERSION_ERRORS as error:
        raise DataError(f"rows of the source do not match its schema: {_mismatch(rows, schema) or error}") from error


def _converted(rows: Sequence[Any], schema: StructType) -> pa.Table:
    """Converts rows as Spark does, so that values are the same as in Spark. For example, naive datetimes are local."""
    return LocalDataToArrowConversion.convert(list(rows), schema, False)


def _mismatch(rows: Sequence[Any], schema: StructType) -> str | None:
    """Describes the first value that does not match the schema. (Most of PySpark's errors do not name the column.)"""
    for number, field in enumerate(schema):
        for row in rows:
            try:
                _converted([(row[number],)], StructType([field]))
            except _CONVERSION_ERRORS as error:
                why = f": {error}" if str(error) else ""
                kind = type(row[number]).__name__
                return f"column {field.name} is {field.dataType.simpleString()} but got a {kind}{why}"
    return None


def _in_order(rows: Sequence[Any], names: Sequence[str]) -> Sequence[Any]:
    """Returns the rows with their values in the order of the schema. As in PySpark, a Row with names is matched by
    name.
    """
    kinds = set(map(type, rows))
    for kind in kinds:  # a dict or a string would pass as a sequence of its keys or characters
        if not issubclass(kind, (tuple, list)):
            raise DataError(f"the source yields rows of type {kind.__name__}; a row must be a tuple, a list or a Row")
    return [_by_name(row, names) for row in rows] if any(issubclass(kind, Row) for kind in kinds) else rows


def _by_name(row: Any, names: Sequence[str]) -> Any:
    fields = getattr(row, "__fields__", None)
    if fields is None or fields == names:
        return row
    if sorted(fields) != sorted(names):
        raise DataError(f"the source yields a Row with {', '.join(fields)}, but its schema has {', '.join(names)}")
    return [row[name] for name in names]


@lru_cache(maxsize=256)
def unpickled_job(job: bytes) -> SourceJob:
    """Returns a SourceJob, which all splits of a task in this process share."""
    unpickled: SourceJob = pickle.loads(job)
    return unpickled
