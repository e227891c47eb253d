"""The pipeline from Kafka to a sink: converters and transforms.

A pipeline object has only configuration, so it can be sent to executors. A Python worker there creates the stages for
the first batch and keeps them for its next splits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import connect_timestamps, in_order, one_topic
from spark_tasks.metrics.phases import phase
from spark_tasks.pipeline import tombstones
from spark_tasks.pipeline.converters.base import Column, Converter, MixedSchemasError
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.primitive import ByteArrayConverter
from spark_tasks.pipeline.converters.simple_header import SimpleHeaderConverter
from spark_tasks.pipeline.converters.string import StringConverter
from spark_tasks.pipeline.errors.failures import (
    FailedStage,
    Refuse,
    StageFailedError,
    StageOutageError,
    combined,
    good_records,
    raise_failure,
    stage,
)
from spark_tasks.pipeline.stage_factory import ConfiguredPipeline
from spark_tasks.pipeline.transforms.chain import Chain, TransformError
from spark_tasks.pipeline.transforms.columns_or_rows import joined

_PLACE_FIELDS: Final = (
    pa.field("topic", pa.dictionary(pa.int32(), pa.string())), pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()), pa.field("timestamp", pa.int64()),
)
_READ_ANY_HEADER = (SimpleHeaderConverter, StringConverter, ByteArrayConverter)

Array = np.ndarray[Any, Any]
Known = Mapping[FailedStage, Callable[[], Column]]
"""Converters that have read the records of a batch already, each with what returns its keys or values."""
NONE_KNOWN: Final[Known] = MappingProxyType({})


class SinkPipeline(ConfiguredPipeline):
    """Converts Kafka's records to Connect's, for the tasks of one connector."""

    of_sink = True
    keeps_tombstones_apart: ClassVar[bool] = False
    """Whether records without a key or value, which have no schema, are not in one batch with records that have one."""

    def to_connect_batches(self, topic: str, partition: int, raw: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields the records of `to_connect_by_schema` in order, in one batch for each run of records with the same
        schema. Raises ToleranceExceededError for the first bad record.
        """
        yield from in_order(self.to_connect_by_schema(topic, partition, raw))

    def to_connect_by_schema(
        self, topic: str, partition: int, raw: pa.RecordBatch, refuse: Refuse = raise_failure
    ) -> list[pa.RecordBatch]:
        """Returns the converted records without the bad ones, in few batches; `in_order` puts them in order. Calls
        `refuse` with each bad record and its row in `raw`; by default it raises ToleranceExceededError. Raises
        StageOutageError.
        """
        stages, offsets = self.stages, raw.column("offset")

        def describe(row: int) -> str:
            return f"{topic}-{partition}, offset {offsets[row].as_py()}"

        def refuse_raw(row: int, failed: StageFailedError) -> None:
            refuse(failed.failure(row, describe(row)))

        batches = self._converted(topic, partition, raw, refuse_raw)
        if stages.chain.stages:
            batches, refused = self._through_chain(batches, offsets.to_numpy())
            for row, failed in refused:
                refuse_raw(row, failed)
            if not self.keeps_tombstones_apart and len(batches) > 1:
                batches = tombstones.together(batches)
        return batches

    def _distinguishes_nulls(self, part: str) -> bool:
        """Whether something after the converters tells a key or value without a schema from a null with one."""
        return self.keeps_tombstones_apart or part in self.stages.chain.reads

    def to_connect_together(self, topic: str, partitions: Array, raw: pa.RecordBatch) -> pa.RecordBatch | None:
        """Converts records of several partitions of a topic at once. `partitions`: of each record (int32).

        Returns None if they have to be converted separately (`to_connect_batches`), because there are transforms, a
        bad record or several schemas.
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
        """Returns the converted records of each schema, before the transforms."""
        bad: list[int] = []

        def note(row: int, failed: StageFailedError) -> None:
            bad.append(row)
            refuse(row, failed)

        parts = good_records(raw, partial(self._connect, topic, partition), note)
        if len(parts) < 2:
            return parts[0] if parts else []
        batches = _joined_by_schema(parts)
        if len(batches) <= max(map(len, parts)):
            return batches
        good = np.ones(len(raw), np.bool_)
        good[bad] = False
        return self._connect(topic, partition, raw.filter(pa.array(good)))  # perhaps fewer batches, of wider schemas

    def _through_chain(
        self, batches: Iterable[pa.RecordBatch], offsets: Array
    ) -> tuple[list[pa.RecordBatch], list[tuple[int, StageFailedError]]]:
        """Returns the transformed records, and the bad rows with their errors. `offsets`: of all rows."""
        transformed: list[pa.RecordBatch] = []
        refused: list[tuple[int, StageFailedError]] = []
        for batch in batches:
            rows = np.searchsorted(offsets, batch.column("offset").to_numpy())

            def note(row: int, failed: StageFailedError, rows: Array = rows) -> None:
                refused.append((int(rows[row]), failed))

            transformed += joined_parts(good_records(batch, partial(_transformed, self.stages.chain), note))
        return transformed, sorted(refused, key=lambda one: one[0])

    def _connect(
        self, topic: str, partition: int, raw: pa.RecordBatch, known: Known = NONE_KNOWN
    ) -> list[pa.RecordBatch]:
        try:
            with phase("convert"):
                key = self._read("key", topic, raw, known)
                value = self._read("value", topic, raw, known)
        except StageFailedError as failed:
            converter = self.stages.key if failed.kind is FailedStage.KEY_CONVERTER else self.stages.value
            if failed.rest is not None and type(converter) is JsonConverter:  # a plugin's may change what this returns
                failed.again = partial(self._connect, topic, partition, known={failed.kind: failed.rest})
            raise
        except MixedSchemasError as mixed:
            return each_part(
                mixed.rows_by_schema(), lambda rows: self._connect(topic, partition, taken(raw, rows)))
        with phase("convert"):
            self._check_headers(topic, raw)
            connect = _connect_batch(topic, partition, raw, key, value)
            return tombstones.apart(connect, raw, [
                part for part in ("key", "value")
                if self._distinguishes_nulls(part) and not getattr(self.stages, part).nulls_have_schema])

    def _read(self, part: str, topic: str, raw: pa.RecordBatch, known: Known = NONE_KNOWN) -> Column:
        array = raw.column(part)
        converter: Converter = getattr(self.stages, part)
        if array.null_count == len(array) and not (converter.nulls_have_schema and self._distinguishes_nulls(part)):
            return pa.nulls(len(array)), {}
        name, kind = type(converter).__name__, FailedStage[f"{part.upper()}_CONVERTER"]
        with stage(kind, self.stages.names[part], f"{part} of record {{}} cannot be read by {name}"):
            return known[kind]() if kind in known else converter.to_connect(topic, array, raw.column("headers"))

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


def each_part(parts: Iterable[Array], convert: Callable[[Array], list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    """Converts parts of a batch, such as the rows of each schema, by themselves. The StageFailedError has all bad rows
    that the errors of the parts name: with those of one part, all rows would be converted again for each bad schema.
    """
    batches: list[pa.RecordBatch] = []
    failures: list[StageFailedError] = []
    for rows in parts:
        try:
            batches += convert(rows)
        except StageFailedError as failed:
            failed.move(lambda row, rows=rows: int(rows[row]))  # type: ignore[misc]
            failures.append(failed)
            if not failed.bad:
                break
    if failures:
        raise combined(failures)
    return batches


def taken(batch: pa.RecordBatch, rows: Array) -> pa.RecordBatch:
    """Returns these rows of a batch. `rows`: in order."""
    begin, size = int(rows[0]), len(rows)
    return batch.slice(begin, size) if rows[-1] - begin == size - 1 else batch.take(pa.array(rows))


def _transformed(chain: Chain, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    try:
        with phase("transform"):
            return list(chain.apply(batch))
    except TransformError as error:
        raise error.part from error


def joined_parts(parts: Iterable[list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    """Returns the batches of good_parts. Adjacent batches with the same schema are joined."""
    listed = list(parts)
    return listed[0] if len(listed) == 1 else joined([batch for part in listed for batch in part])


def _joined_by_schema(parts: Iterable[list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    """Returns one batch for each schema, with the records in order. No two records have the same offset."""
    groups: list[list[pa.RecordBatch]] = []
    for batch in (batch for part in parts for batch in part if len(batch)):
        for group in groups:
            if group[0].schema.equals(batch.schema, check_metadata=True):
                group.append(batch)
                break
        else:
            groups.append([batch])
    return [_sorted(pa.concat_batches(group)) for group in groups]


def _sorted(batch: pa.RecordBatch) -> pa.RecordBatch:
    offsets = batch.column("offset").to_numpy()
    return batch if np.all(offsets[1:] > offsets[:-1]) else batch.take(pa.array(np.argsort(offsets)))


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
        *_PLACE_FIELDS,
        pa.field("key", key[0].type, metadata=key[1] or None),
        pa.field("value", value[0].type, metadata=value[1] or None),
        pa.field("headers", headers.type),
    ]
    return pa.RecordBatch.from_arrays([*columns, headers], schema=pa.schema(fields))
