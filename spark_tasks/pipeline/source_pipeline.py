"""The pipeline from a source to Kafka: transforms and converters. As SinkPipeline, it has only configuration."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.data.columns import CONNECT_COLUMNS, HEADERS_TYPE, RAW_SCHEMA, milliseconds, no_headers, one_topic
from spark_tasks.data.rows import as_value, plain, value_field
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.metrics.phases import phase
from spark_tasks.pipeline.converters.base import BadRowsError, Converter
from spark_tasks.pipeline.errors.failures import (
    SOURCE_TASK,
    FailedStage,
    Refuse,
    StageFailedError,
    good_records,
    raise_failure,
    stage,
)
from spark_tasks.pipeline.stage_factory import ConfiguredPipeline
from spark_tasks.pipeline.transforms.chain import TransformError
from spark_tasks.pipeline.transforms.columns_or_rows import put

RawBatch = tuple[str, pa.Array | None, pa.RecordBatch]


class SourcePipeline(ConfiguredPipeline):
    """Converts Connect's records to Kafka's. `rows`: each row of the connector's batches is a value
    (SourceConnector.yields). The topic is the connector's `topic`, unless the source yields records with a column
    `topic`.
    """

    of_sink = False

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
        if not self._rows:
            _check_columns(batch.schema.names)
        prepared = self.prepared(batch)
        parts = good_records(
            prepared, lambda some: list(self._written(some)), lambda row, failed: refuse(failed.failure(row))
        )
        yield from parts[0] if len(parts) == 1 else _joined_by_topic(raw for part in parts for raw in part)

    def takes(self, batch: pa.RecordBatch) -> bool:
        """Returns whether the batch has the columns of records, once each, with types that `to_raw` can write: a dead
        letter may have any others.
        """
        try:
            if not self._rows:
                names = batch.schema.names
                _check_columns(names)
                if len(set(names)) < len(names):
                    return False
            for _, records in self._by_topic(self.prepared(batch)):
                _timestamps(records, len(records))
                _partitions(records)
                if "headers" in records.schema.names and not _are_headers(records.column("headers").type):
                    return False
        except (ConfigError, DataError, pa.ArrowException):
            return False
        return True

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
                written = pa.array([_shown(record.column(part))], pa.binary())
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
        complete = not self.stages.chain.adds_records and sum(map(len, transformed)) == len(batch)
        begin = 0
        for out in transformed:
            for topic, part in self._by_topic(out):
                try:
                    yield from self._raws(topic, part)
                except StageFailedError as failed:
                    failed.move(partial(operator.add, begin) if complete and len(part) == len(out) else None)
                    raise
            begin += len(out)

    def prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the batch as transforms expect it: rows become values, records have a topic, and timestamps are
        numbers.
        """
        batch = _as_value(batch) if self._rows else batch
        if not self.stages.chain.stages:
            return batch
        if "timestamp" in batch.schema.names:
            batch = put(batch, "timestamp", _milliseconds(batch))
        topic = self._connector.get("topic")
        if "topic" in batch.schema.names or not topic:
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
            of_topic = batch if len(used) == 1 else batch.filter(pc.equal(topics.indices, index))
            yield str(topics.dictionary[index].as_py()), of_topic

    def _raws(self, topic: str, batch: pa.RecordBatch) -> Iterator[RawBatch]:
        with phase("convert"):
            raw = self._raw(topic, batch)
        yield raw

    def _raw(self, topic: str, batch: pa.RecordBatch) -> RawBatch:
        size = len(batch)
        headers = self._headers(topic, batch)  # first, as in Kafka Connect
        key, headers = self._write("key", topic, batch, headers)
        value, headers = self._write("value", topic, batch, headers)
        times, invalid = _timestamps(batch, size)
        partitions, wrong = _partitions(batch)
        if invalid := list({row: (row, error) for row, error in wrong + invalid}.values()):  # each row once
            with stage(FailedStage.KAFKA_PRODUCE, SOURCE_TASK, f"a record for topic {topic} cannot be written"):
                raise BadRowsError(invalid)
        columns = [pa.array(np.zeros(size, np.int64)), times, key, value, headers]
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
            return no_headers(len(batch))
        headers = batch.column("headers")
        if not _are_headers(headers.type):
            raise _wrong_type("headers", headers.type, "a list of structs of key and value")
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


def _check_columns(names: list[str]) -> None:
    """Raises DataError unless the columns are those of records: others would be lost."""
    unknown = [name for name in names if name not in CONNECT_COLUMNS]
    if "value" in names and not unknown:
        return
    wrong = f"columns that records do not have: {', '.join(unknown)}"
    if "value" not in names:
        wrong = f"no column value, only {', '.join(names)}"
    raise DataError(f"the source's records have {wrong}; if its rows are the values, set yields = \"rows\" in the "
                    "connector's class")


def _joined_by_topic(raws: Iterable[RawBatch]) -> Iterator[RawBatch]:
    """Joins the batches of each topic, except batches with partitions, which stay at their place: the partitioner may
    choose the same partition for the records before and after them.
    """
    free: dict[str, list[pa.RecordBatch]] = {}
    for topic, partitions, raw in raws:
        if partitions is None:
            free.setdefault(topic, []).append(raw)
            continue
        if topic in free:
            yield topic, None, pa.concat_batches(free.pop(topic))
        yield topic, partitions, raw
    for topic, batches in free.items():
        yield topic, None, pa.concat_batches(batches)


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


def _shown(one: pa.Array) -> bytes | None:
    """Returns the only value of an array as text; bytes remain unchanged."""
    try:
        value = one[0].as_py()
    except (ValueError, OverflowError):  # a date beyond Python's, or several fields with one name
        return str(one.to_string()).encode()
    return value if isinstance(value, bytes | None) else str(value).encode()


class _InvalidTimestampError(DataError):
    java_class = "org.apache.kafka.common.InvalidRecordException"


def _timestamps(batch: pa.RecordBatch, size: int) -> tuple[pa.Array, list[tuple[int, Exception]]]:
    """Returns the timestamps to write, and the rows with one that Kafka does not allow. As in Kafka Connect, -1 means
    none.
    """
    now = int(time.time() * 1000)
    if "timestamp" not in batch.schema.names:
        return pa.array(np.full(size, now, np.int64)), []
    known = _milliseconds(batch).fill_null(-1)
    present = pc.greater_equal(known, 0)
    bad: list[tuple[int, Exception]] = []
    if present.false_count:
        bad = [(row, _InvalidTimestampError(f"Invalid record timestamp {known[row].as_py()}"))
               for row in pc.indices_nonzero(pc.less(known, -1)).to_pylist()]
    return pc.if_else(present, known, now), bad


def _milliseconds(batch: pa.RecordBatch) -> pa.Array:
    given = batch.column("timestamp")
    try:
        return milliseconds(given)
    except pa.ArrowException:
        raise _wrong_type("timestamp", given.type, "a timestamp, or int64 (milliseconds since 1970)") from None


def _are_headers(kind: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return True
    pair = getattr(kind, "value_type", pa.null())
    return pa.types.is_struct(pair) and {"key", "value"} <= {field.name for field in pair}


def _wrong_type(column: str, given: pa.DataType, wanted: str) -> DataError:
    return DataError(f"the source's column {column} has the type {given}; it must be {wanted}")


def _partitions(batch: pa.RecordBatch) -> tuple[pa.Array | None, list[tuple[int, Exception]]]:
    """Returns the partitions, None if the partitioner chooses all, and the rows with one that is not an int32."""
    if "partition" not in batch.schema.names:
        return None, []
    given = batch.column("partition")
    if given.null_count == len(given):
        return None, []
    try:
        return given.cast(pa.int32()), []
    except pa.ArrowNotImplementedError:
        raise _wrong_type("partition", given.type, "int32") from None
    except pa.ArrowInvalid:
        return None, [(row, DataError(f"Invalid record partition {given[row].as_py()}: it must be an int32"))
                      for row in range(len(given)) if not _is_int32(given.slice(row, 1))]


def _is_int32(one: pa.Array) -> bool:
    try:
        one.cast(pa.int32())
    except pa.ArrowInvalid:
        return False
    return True
