"""Pipelines that run partly in the Java plugin host. Records pass between the parts with keys and values as
JSON, as Kafka's JsonConverter writes it, and with separate schemas (data/host_records.py).

Null keys and values remain null; they do not become the JSON text `null`. A header that heeler converts is JSON that
contains its schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA, SCHEMA_KEY, Metadata, connect_timestamps
from spark_tasks.data.host_records import CUT, CUT_SCHEMA, CutRecords, described
from spark_tasks.data.rows import plain
from spark_tasks.data.schema import from_text, to_text
from spark_tasks.errors import ConnectError
from spark_tasks.pipeline.converters.base import Column, HeaderConverter, schema_of
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.json_columns import parse_columns, read_tape
from spark_tasks.pipeline.converters.json_typed import TypedReader
from spark_tasks.pipeline.converters.json_write import JsonWriter
from spark_tasks.pipeline.errors.failures import (
    FailedStage,
    Refuse,
    StageFailedError,
    good_records,
    raise_failure,
    stage,
)
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import RawBatch, SourcePipeline


def to_json(array: pa.Array, metadata: Metadata | None) -> tuple[pa.Array, str | None]:
    """Returns keys or values as JSON (binary, null for null) and their schema as JSON. Raises DataError."""
    schema = schema_of(metadata)
    array = plain(array)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.binary()), None
    optional = None if schema is None else schema.as_optional()
    written = JsonWriter(replace_nulls=False).write(array, optional, metadata).cast(pa.binary())
    if array.null_count:
        written = pc.if_else(array.is_valid(), written, pa.scalar(None, pa.binary()))
    return written, None if schema is None else to_text(schema)


def from_json(array: pa.Array, schema: str | None) -> Column:
    """Parses what `to_json` returns. Raises DataError."""
    if schema is None:
        return parse_columns(array)
    tape, wanted = read_tape(array), from_text(schema)
    reader = TypedReader(tape, replace_nulls=False, exact=True)
    values = reader.read(wanted, tape.roots, tombstones=tape.roots < 0)
    return values, {SCHEMA_KEY: to_text(wanted).encode()}


class JavaSinkPipeline(SinkPipeline):
    """The first part of a Java sink's pipeline. Its batches have CUT_SCHEMA: each record as it was read from Kafka, and
    as it is after this part. `converted`: see plugins.cut.Cut.
    """

    keeps_tombstones_apart = True

    def __init__(self, worker: Mapping[str, str], connector: Mapping[str, str], converted: Collection[str]) -> None:
        super().__init__(worker, connector)
        self._converted_parts = frozenset(converted)

    @override
    def to_connect_by_schema(
        self, topic: str, partition: int, raw: pa.RecordBatch, refuse: Refuse = raise_failure
    ) -> list[pa.RecordBatch]:
        offsets, seen = raw.column("offset").to_numpy(), np.zeros(len(raw), np.bool_)
        found: list[pa.RecordBatch] = []
        refused: list[tuple[int, StageFailedError]] = []
        for batch in super().to_connect_by_schema(topic, partition, raw, refuse):
            rows = np.searchsorted(offsets, batch.column("offset").to_numpy())
            if (np.diff(rows) < 0).any() or seen[rows].any():
                raise ConnectError("transforms before a Java sink have to keep the order of records, and all records "
                                   "that they make from one record must have the same schema; this is not the case at "
                                   f"{topic}-{partition}, offset {offsets[rows[0]]}")
            seen[rows] = True

            def note(row: int, failed: StageFailedError, rows: np.ndarray[Any, Any] = rows) -> None:
                refused.append((int(rows[row]), failed))

            found += [
                pa.RecordBatch.from_arrays([*raw.take(part.column("row")).columns, *part.columns[1:]],
                                           schema=CUT_SCHEMA.with_metadata(part.schema.metadata))
                for part in good_records(batch.append_column("row", pa.array(rows)), self._cut_columns, note)
            ]
        for row, failed in sorted(refused, key=lambda one: one[0]):
            refuse(failed.failure(row, f"{topic}-{partition}, offset {offsets[row]}"))
        return found

    def _cut_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns a column `row` with the row number of each record, and the columns of CUT_SCHEMA that start with
        CUT.
        """
        columns: dict[str, pa.Array] = {"row": batch.column("row")}
        for name in ("topic", "partition", "timestamp"):
            columns[CUT + name] = batch.column(name).cast(CUT_SCHEMA.field(CUT + name).type)
        columns[f"{CUT}timestamp"] = columns[f"{CUT}timestamp"].fill_null(-1)
        schemas: dict[str, str | None] = {}
        for part in ("key", "value"):
            column = batch.column(part)
            if part in self._converted_parts:
                with stage(FailedStage.TRANSFORMATION if self.stages.chain.stages else
                           FailedStage[f"{part.upper()}_CONVERTER"], self._last_class(part),
                           f"{part} of record {{}} cannot be passed to the Java connector"):
                    column, schemas[part] = to_json(column, batch.schema.field(part).metadata)
            columns[CUT + part] = column.cast(pa.binary())
        columns[f"{CUT}headers"] = self._headers(batch)
        return pa.RecordBatch.from_pydict(columns).replace_schema_metadata(described(self._converted_parts, schemas))

    def _last_class(self, part: str) -> str:
        chain = self.stages.chain.stages
        return chain[-1].class_name if chain else self.stages.names[part]

    def _headers(self, batch: pa.RecordBatch) -> pa.Array:
        headers = batch.column("headers")
        if "header" not in self._converted_parts or headers.null_count == len(headers):
            return headers.cast(HEADERS_TYPE)
        return _each_header(batch, self.stages.names["header"], _to_json_header(self.stages.header))


Header = Callable[[str, str, bytes | None], bytes | None]


def _to_json_header(own: HeaderConverter) -> Header:
    json = _json()
    return lambda topic, name, value: json.from_connect_header(topic, name, *own.to_connect_header(topic, name, value))


def _from_json_header(own: HeaderConverter) -> Header:
    json = _json()
    return lambda topic, name, value: own.from_connect_header(topic, name, *json.to_connect_header(topic, name, value))


def _json() -> JsonConverter:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true", "replace.null.with.default": "false"})
    return converter


def _each_header(batch: pa.RecordBatch, class_name: str, change: Header) -> pa.Array:
    """Returns the headers with changed values."""
    changed: list[list[tuple[str, bytes | None]] | None] = []
    topics = batch.column("topic").to_pylist()
    for row, pairs in enumerate(batch.column("headers").to_pylist()):
        with stage(FailedStage.HEADER_CONVERTER, class_name, "headers of record {} cannot be converted", row):
            changed.append(None if pairs is None else [
                (pair["key"], change(topics[row], pair["key"], pair["value"])) for pair in pairs])
    return pa.array(changed, HEADERS_TYPE)


class JavaSourcePipeline(SourcePipeline):
    """The second part of a Java source's pipeline."""

    def __init__(self, worker: Mapping[str, str], connector: Mapping[str, str], converted: Collection[str]) -> None:
        super().__init__(worker, connector)
        self._converted_parts = frozenset(converted)

    def raw_batches(self, records: CutRecords, refuse: Callable[[pa.RecordBatch], Refuse]) -> Iterator[RawBatch]:
        """Yields the transformed and converted records. Their `offset` is the row number in `records`, -1 if unknown.
        `refuse` returns the function that receives the bad records of a batch.
        """
        for begin, end in runs(records.key_schema, records.value_schema):
            batch = self._batch(records, begin, end)
            refused = refuse(batch)
            if "header" not in self._converted_parts:
                yield from self.to_raw(batch, refused)
                continue

            def refuse_row(row: int, failed: StageFailedError, refused: Refuse = refused) -> None:
                refused(failed.failure(row))

            for part in good_records(batch, self._with_headers, refuse_row):
                yield from self.to_raw(part, refuse(part))

    def _batch(self, records: CutRecords, begin: int, end: int) -> pa.RecordBatch:
        size, raw = end - begin, records.raw.slice(begin, end - begin)
        topics = pa.array(records.topics, pa.string())
        topic = pa.DictionaryArray.from_arrays(pa.array(records.topic[begin:end]), topics)
        partition = records.partition[begin:end]
        rows = pa.array(np.arange(begin, end))
        columns = [topic, pa.array(partition, mask=partition < 0), rows, connect_timestamps(raw.column("timestamp"))]
        fields = [pa.field(name, column.type) for name, column in
                  zip(("topic", "partition", "offset", "timestamp"), columns, strict=True)]
        for part, schemas in (("key", records.key_schema), ("value", records.value_schema)):
            array, metadata = raw.column(part), None
            if part in self._converted_parts:
                which = int(schemas[begin]) if size else -1
                if which < 0 and array.null_count == size:
                    array = pa.nulls(size)
                else:
                    array, metadata = from_json(array, records.schemas[which] if which >= 0 else None)
            columns.append(array)
            fields.append(pa.field(part, array.type, metadata=metadata or None))
        columns.append(raw.column("headers"))
        fields.append(pa.field("headers", HEADERS_TYPE))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _with_headers(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        headers = _each_header(batch, self.stages.names["header"], _from_json_header(self.stages.header))
        return batch.set_column(batch.schema.get_field_index("headers"), "headers", headers)

    @override
    def _raw(self, topic: str, batch: pa.RecordBatch) -> RawBatch:
        found, partitions, raw = super()._raw(topic, batch)
        known = "offset" in batch.schema.names  # a transform may have removed the column
        offsets = batch.column("offset") if known else pa.array(np.full(len(batch), -1))
        return found, partitions, raw.set_column(0, RAW_SCHEMA.field(0), offsets)


def runs(*schemas: np.ndarray[Any, Any]) -> Iterator[tuple[int, int]]:
    """Yields the ranges (begin, end) in which none of the arrays changes its value."""
    size = len(schemas[0])
    changes = np.logical_or.reduce([codes[1:] != codes[:-1] for codes in schemas])
    ends = [*(np.flatnonzero(changes) + 1).tolist(), *([size] if size else [])]
    yield from zip([0, *ends], ends, strict=False)
