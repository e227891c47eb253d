"""The pipelines between Kafka and a connector: converters and transforms.

A pipeline object has only configuration, so it can be sent to executors. A Python worker there creates the stages for
the first batch and keeps them for its next splits.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA, connect_timestamps, one_topic
from spark_tasks.data.rows import as_value, plain, value_field
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.metrics.phases import phase
from spark_tasks.pipeline.converters.base import BadRowsError, Column, Converter, MixedSchemasError
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.primitive import ByteArrayConverter
from spark_tasks.pipeline.converters.simple_header import SimpleHeaderConverter
from spark_tasks.pipeline.converters.string import StringConverter
from spark_tasks.pipeline.failures import (
    SOURCE_TASK,
    FailedStage,
    Refuse,
    StageFailedError,
    StageOutageError,
    good_records,
    raise_failure,
    stage,
)
from spark_tasks.pipeline.stage_factory import Stages, made_stages
from spark_tasks.pipeline.transforms.chain import Chain, TransformError
from spark_tasks.pipeline.transforms.rows import joined, put

_READ_ANY_HEADER = (SimpleHeaderConverter, StringConverter, ByteArrayConverter)

Array = np.ndarray[Any, Any]
Properties = tuple[tuple[str, str], ...]
RawBatch = tuple[str, pa.Array | None, pa.RecordBatch]


class _Pipeline:
    """Has the configuration, and creates the stages on first use."""

    def __init__(self, worker: Mapping[str, str], connector: Mapping[str, str]) -> None:
        wanted = ("key.converter", "value.converter", "header.converter", "plugin.path")
        self._worker = {name: str(value) for name, value in worker.items() if name.startswith(wanted)}
        self._connector = {name: str(value) for name, value in connector.items()}

    @property
    def stages(self) -> Stages:
        """Converters and transforms, created once per process and configuration. Raises ConfigError,
        PluginNotFoundError.
        """
        return made_stages(*self.key)

    @property
    def key(self) -> tuple[Properties, Properties]:
        """The configuration. Pipelines with equal ones do the same."""
        return tuple(sorted(self._worker.items())), tuple(sorted(self._connector.items()))


class SinkPipeline(_Pipeline):
    """Converts Kafka's records to Connect's, for the tasks of one connector."""

    def to_connect(self, topic: str, partition: int, raw: pa.RecordBatch) -> pa.RecordBatch:
        """Converts a raw batch of one topic partition to a batch with columns.CONNECT_COLUMNS.

        Raises DataError with topic, partition, offset and converter of the first bad record, and if the records have
        several schemas: one batch cannot contain them, so use `to_connect_batches`.
        """
        batches = list(self.to_connect_batches(topic, partition, raw))
        if len(batches) != 1:
            raise DataError(f"records of {topic}-{partition} have {len(batches)} schemas: use to_connect_batches")
        return batches[0]

    def to_connect_batches(
        self, topic: str, partition: int, raw: pa.RecordBatch, refuse: Refuse = raise_failure
    ) -> Iterator[pa.RecordBatch]:
        """Yields the converted records in order, in one batch for each run of records with the same schema, without bad
        records. Calls `refuse` with each bad record and its row in `raw`; by default it raises ToleranceExceededError.
        Raises StageOutageError.
        """
        stages, offsets = self.stages, raw.column("offset")

        def describe(row: int) -> str:
            return f"{topic}-{partition}, offset {offsets[row].as_py()}"

        def refuse_raw(row: int, failed: StageFailedError) -> None:
            refuse(failed.failure(row, describe(row)))

        for batch in self._converted(topic, partition, raw, refuse_raw):
            if not stages.chain.stages:
                yield batch
                continue
            rows = np.searchsorted(offsets.to_numpy(), batch.column("offset").to_numpy())

            def refuse_row(row: int, failed: StageFailedError, rows: Any = rows) -> None:
                refuse_raw(int(rows[row]), failed)

            yield from joined_parts(good_records(batch, partial(_transformed, stages.chain), refuse_row))

    def to_connect_together(self, topic: str, partitions: Array, raw: pa.RecordBatch) -> pa.RecordBatch | None:
        """Converts records of several partitions of a topic at once. `partitions`: of each record (int32).

        Returns None if they have to be converted apart (`to_connect_batches`), because there are transforms, a bad
        record or several schemas.
        """
        if self.stages.chain.stages:
            return None
        try:
            with phase("convert"):
                key, value = self._read("key", topic, raw), self._read("value", topic, raw)
                self._check_headers(topic, raw)
        except (MixedSchemasError, StageFailedError, StageOutageError):
            return None
        return _connect_batch(topic, partitions, raw, key, value)

    def _converted(
        self, topic: str, partition: int, raw: pa.RecordBatch, refuse: Callable[[int, StageFailedError], None]
    ) -> list[pa.RecordBatch]:
        """Returns the converted records, before the transforms."""
        bad: list[int] = []

        def note(row: int, failed: StageFailedError) -> None:
            bad.append(row)
            refuse(row, failed)

        parts = good_records(raw, lambda some: list(self._connect(topic, partition, some)), note)
        found = joined_parts(parts)
        if len(parts) < 2 or len(found) < 2:
            return found
        good = np.ones(len(raw), np.bool_)
        good[bad] = False
        return list(self._connect(topic, partition, raw.filter(pa.array(good))))  # together they have fewer schemas

    def _connect(self, topic: str, partition: int, raw: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        try:
            with phase("convert"):
                key = self._read("key", topic, raw)
                value = self._read("value", topic, raw)
        except MixedSchemasError as mixed:
            begin = 0
            for end in mixed.ends:
                yield from self._run_of(topic, partition, raw, begin, end)
                begin = end
            return
        with phase("convert"):
            self._check_headers(topic, raw)
            batch = _connect_batch(topic, partition, raw, key, value)
        yield batch

    def _run_of(
        self, topic: str, partition: int, raw: pa.RecordBatch, begin: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._connect(topic, partition, raw.slice(begin, end - begin))
        except StageFailedError as failed:
            failed.move(partial(operator.add, begin))
            raise

    def _read(self, part: str, topic: str, raw: pa.RecordBatch) -> Column:
        array = raw.column(part)
        if array.null_count == len(array):
            return pa.nulls(len(array)), {}
        converter: Converter = getattr(self.stages, part)
        name = type(converter).__name__
        with stage(FailedStage[f"{part.upper()}_CONVERTER"], self.stages.names[part],
                   f"{part} of record {{}} cannot be read by {name}"):
            return converter.to_connect(topic, array, raw.column("headers"))

    def header_of(self, topic: str, name: str, text: str) -> bytes | None:
        """Returns a header value that the header converter reads as `text`, or None if a schema registry is needed."""
        converter = self.stages.header
        if isinstance(converter, _READ_ANY_HEADER):
            return text.encode()
        return converter.from_connect_header(topic, name, None, text) if isinstance(converter, JsonConverter) else None

    def _check_headers(self, topic: str, raw: pa.RecordBatch) -> None:
        """Raises StageFailedError for a record with a header that the converter cannot read. Headers remain bytes."""
        headers, converter = raw.column("headers"), self.stages.header
        if headers.null_count == len(headers) or isinstance(converter, _READ_ANY_HEADER):
            return
        name = type(converter).__name__
        for row, pairs in enumerate(headers.to_pylist()):
            with stage(FailedStage.HEADER_CONVERTER, self.stages.names["header"],
                       f"headers of record {{}} cannot be read by {name}", row):
                for pair in pairs or ():
                    converter.to_connect_header(topic, pair["key"], pair["value"])


def _transformed(chain: Chain, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    try:
        with phase("transform"):
            return list(chain.apply(batch))
    except TransformError as error:
        raise error.part from error


def joined_parts(parts: Iterable[list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    """Returns the batches of good_parts. Adjacent batches with the same schema are joined."""
    found = list(parts)
    return found[0] if len(found) == 1 else joined([batch for part in found for batch in part])


def _connect_batch(
    topic: str, partition: int | Array, raw: pa.RecordBatch, key: Column, value: Column
) -> pa.RecordBatch:
    partitions = pa.Array.from_buffers(
        pa.int32(), len(raw), [None, pa.py_buffer(np.full(len(raw), partition, np.int32))]
    )
    times = connect_timestamps(raw.column("timestamp"))
    columns = [one_topic(topic, len(raw)), partitions, raw.column("offset"), times, key[0], value[0]]
    headers = raw.column("headers")
    fields = [
        pa.field("topic", columns[0].type),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("key", key[0].type, metadata=key[1] or None),
        pa.field("value", value[0].type, metadata=value[1] or None),
        pa.field("headers", headers.type),
    ]
    return pa.RecordBatch.from_arrays([*columns, headers], schema=pa.schema(fields))


class SourcePipeline(_Pipeline):
    """Converts Connect's records to Kafka's. `rows`: each row of the connector's batches is a value
    (SourceConnector.yields). The topic is the connector's `topic`, unless the source yields records with a column
    `topic`.
    """

    def __init__(self, worker: Mapping[str, str], connector: Mapping[str, str], *, rows: bool = False) -> None:
        super().__init__(worker, connector)
        self._rows = rows

    def to_raw(self, batch: pa.RecordBatch, refuse: Refuse = raise_failure) -> Iterator[RawBatch]:
        """Yields for each topic in the batch: topic, partitions (None if the partitioner chooses them), RAW_SCHEMA
        batch.

        Records keep their order within a topic. Bad records are omitted: `refuse` is called with each and its row in
        `batch`. Offsets are 0, because the broker assigns them; a record without a timestamp gets the current time.
        Raises ToleranceExceededError if a record cannot be written, DataError if the whole batch cannot, and
        StageOutageError.
        """
        if not len(batch):
            return
        if not self._rows and "value" not in batch.schema.names:
            raise DataError(f"the source's records have no column value, only {', '.join(batch.schema.names)}; "
                            'a connector whose rows are values sets yields = "rows"')
        prepared = self.prepared(batch)
        parts = good_records(
            prepared, lambda some: list(self._written(some)), lambda row, failed: refuse(failed.failure(row))
        )
        yield from parts[0] if len(parts) == 1 else _joined_by_topic(raw for part in parts for raw in part)

    def original(self, batch: pa.RecordBatch, row: int) -> RawBatch:
        """Returns a bad record for a dead letter, as the source yielded it: the converters write it, or if they cannot,
        it is text.
        """
        record = self.prepared(batch.slice(row, 1))
        topic = next(iter(self._by_topic(record)))[0]
        try:
            headers = self._headers(topic, record)
        except StageFailedError:
            headers = pa.nulls(1, HEADERS_TYPE)
        columns = []
        for part in ("key", "value"):
            try:
                written, headers = self._write(part, topic, record, headers)
            except StageFailedError:
                shown = record.column(part)[0].as_py()
                written = pa.array([shown if isinstance(shown, bytes | None) else str(shown).encode()], pa.binary())
            columns.append(written)
        times, _ = _timestamps(record, 1)
        raw = pa.RecordBatch.from_arrays([pa.array([0]), times, *columns, headers], schema=RAW_SCHEMA)
        return topic, None, raw

    def _written(self, batch: pa.RecordBatch) -> Iterator[RawBatch]:
        try:
            with phase("transform"):
                transformed = list(self.stages.chain.apply(batch))
        except TransformError as error:
            raise error.part from error
        complete, begin = sum(map(len, transformed)) == len(batch), 0
        for out in transformed:
            for topic, part in self._by_topic(out):
                try:
                    yield from self._raws(topic, part)
                except StageFailedError as failed:
                    failed.move(partial(operator.add, begin) if complete and len(part) == len(out) else None)
                    raise
            begin += len(out)

    def prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the batch as transforms expect it: rows become values, and records have a topic."""
        batch = _as_value(batch) if self._rows else batch
        topic = self._connector.get("topic")
        if "topic" in batch.schema.names or not topic or not self.stages.chain.stages:
            return batch
        return put(batch, "topic", one_topic(topic, len(batch)))

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if "topic" not in batch.schema.names:
            topic = self._connector.get("topic")
            if not topic:
                raise ConfigError("topic: neither the connector's configuration nor its records name a topic")
            yield topic, batch
            return
        topics = batch.column("topic")
        if not pa.types.is_dictionary(topics.type):
            topics = topics.dictionary_encode()
        if topics.null_count:
            raise DataError("a source record has no topic")
        used = pc.unique(topics.indices).to_pylist()
        for index in used:
            mine = batch if len(used) == 1 else batch.filter(pc.equal(topics.indices, index))
            yield str(topics.dictionary[index].as_py()), mine

    def _raws(self, topic: str, batch: pa.RecordBatch) -> Iterator[RawBatch]:
        with phase("convert"):
            raw = self._raw(topic, batch)
        yield raw

    def _raw(self, topic: str, batch: pa.RecordBatch) -> RawBatch:
        size, names = len(batch), batch.schema.names
        headers = self._headers(topic, batch)  # first, as in Kafka Connect
        key, headers = self._write("key", topic, batch, headers)
        value, headers = self._write("value", topic, batch, headers)
        times, invalid = _timestamps(batch, size)
        if invalid:
            with stage(FailedStage.KAFKA_PRODUCE, SOURCE_TASK, f"a record for topic {topic} cannot be written"):
                raise BadRowsError(invalid)
        columns = [pa.array(np.zeros(size, np.int64)), times, key, value, headers]
        partitions = batch.column("partition").cast(pa.int32()) if "partition" in names else None
        if partitions is not None and partitions.null_count == size:
            partitions = None
        return topic, partitions, pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)

    def _write(self, part: str, topic: str, batch: pa.RecordBatch, headers: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Returns the bytes of keys or values, and the headers with those that the converter adds."""
        if part not in batch.schema.names:
            return pa.nulls(len(batch), pa.binary()), headers
        field = batch.schema.field(part)
        converter: Converter = getattr(self.stages, part)
        with stage(FailedStage[f"{part.upper()}_CONVERTER"], self.stages.names[part],
                   f"{part} of a record for topic {topic} cannot be written by {type(converter).__name__}"):
            return converter.with_headers(topic, plain(batch.column(part)), field.metadata, headers)

    def _headers(self, topic: str, batch: pa.RecordBatch) -> pa.Array:
        if "headers" not in batch.schema.names:
            return pa.nulls(len(batch), HEADERS_TYPE)
        headers = batch.column("headers")
        name = type(self.stages.header).__name__
        with stage(FailedStage.HEADER_CONVERTER, self.stages.names["header"],
                   f"headers of a record for topic {topic} cannot be written by {name}"):
            if pa.types.is_null(headers.type) or pa.types.is_binary(headers.type.value_type.field("value").type):
                return _raw_headers(headers)
            write = self.stages.header.from_connect_header
            return pa.array(
                [None if row is None else [(h["key"], write(topic, h["key"], None, h["value"])) for h in row]
                 for row in headers.to_pylist()], HEADERS_TYPE,
            )  # fmt: skip


def _joined_by_topic(raws: Iterable[RawBatch]) -> Iterator[RawBatch]:
    """Joins the batches of each topic, except batches with partitions."""
    found: dict[tuple[str, bool], list[RawBatch]] = {}
    for raw in raws:
        found.setdefault((raw[0], raw[1] is None), []).append(raw)
    for (topic, free), batches in found.items():
        if not free:
            yield from batches
        else:
            yield topic, None, pa.concat_batches([raw for _, _, raw in batches])


def _raw_headers(headers: pa.Array) -> pa.Array:
    """Returns headers whose values are bytes as HEADERS_TYPE. Raises DataError for a null key, which the schema of a
    plugin's batch may allow.
    """
    try:
        return headers if headers.type == HEADERS_TYPE else headers.cast(HEADERS_TYPE)
    except pa.ArrowInvalid as error:
        raise DataError(f"a header of a source record has no key: {error}") from error


def _as_value(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows as structs in a column `value`, with the schema that their types imply."""
    array = as_value(batch)
    field = pa.field("value", array.type, metadata=value_field(batch.schema))
    return pa.RecordBatch.from_arrays([array], schema=pa.schema([field]))


class _InvalidTimestampError(DataError):
    java_class = "org.apache.kafka.common.InvalidRecordException"


def _timestamps(batch: pa.RecordBatch, size: int) -> tuple[pa.Array, list[tuple[int, Exception]]]:
    """Returns the timestamps to write, and the rows with one that Kafka does not allow. As in Kafka Connect, -1 means
    none.
    """
    now = int(time.time() * 1000)
    if "timestamp" not in batch.schema.names:
        return pa.array(np.full(size, now, np.int64)), []
    found = batch.column("timestamp")
    if pa.types.is_timestamp(found.type):
        found = found.cast(pa.timestamp("ms"), safe=False)
    known = found.cast(pa.int64()).fill_null(-1)
    there = pc.greater_equal(known, 0)
    bad: list[tuple[int, Exception]] = []
    if there.false_count:
        bad = [(row, _InvalidTimestampError(f"Invalid record timestamp {known[row].as_py()}"))
               for row in pc.indices_nonzero(pc.less(known, -1)).to_pylist()]
    return pc.if_else(there, known, now), bad
