"""Sql: a SELECT on the records of a batch, which DataFusion runs (ADR 0018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type
from spark_tasks.data.arrow_types import from_arrow, to_arrow
from spark_tasks.data.columns import is_json, struct_array
from spark_tasks.data.schema import Field, Schema
from spark_tasks.data.schema import Type as ConnectType
from spark_tasks.errors import ConfigError, DataError, rust_code
from spark_tasks.java.hash import hash_order
from spark_tasks.pipeline.converters.base import BadRowError, schema_of
from spark_tasks.pipeline.converters.java_columns import column
from spark_tasks.pipeline.converters.long_decimals import with_long_decimals
from spark_tasks.pipeline.transforms.base import Transform
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, connect_values, joined, put
from spark_tasks.pipeline.transforms.field_transform import Columns, described
from spark_tasks.pipeline.transforms.sql_paths import Path, is_untyped, with_kinds, with_metadata
from spark_tasks.pipeline.transforms.sql_query import (
    FIELD,
    PARTS,
    ROW,
    SETTABLE,
    ValidQuery,
    check_plan,
    first_line,
    new_session,
    parsed,
)

_TYPES = (pa.null(), pa.string(), pa.list_(pa.null()), pa.int64(), pa.map_(pa.string(), pa.null()))
"""Types for a column of which this batch has no value. Most functions take null; each other type suits some."""
_SETTING = frozenset(f"record.{name}" for name in SETTABLE)
_MAX_TYPED = 3  # columns, or paths into them, for which types are tried, since each combination is planned
_MAX_KNOWN = 1000
_WHOLE: frozenset[Path] = frozenset({()})
Kinds = Mapping[str, Mapping[Path, pa.DataType]]
"""Types by column and path into it."""


class Sql(Transform):
    """Creates the new values with a SELECT, and drops records that do not satisfy its WHERE."""

    version = "1.0"
    config_def = ConfigDef(
        ConfigKey("query", Type.STRING, importance=Importance.HIGH, validator=ValidQuery(), doc=(
            "SELECT … FROM records WHERE …. The columns are the fields of the value, and value, key, headers, topic, "
            "partition, offset and timestamp. The selected columns become the new value.")),
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        """Raises ConfigError if DataFusion is not installed, and for errors in the query regardless of records."""
        self._query = parsed(self.config_def.parse(configs)["query"])
        self.adds_records = self._query.unnests
        self._context, self._options = new_session()
        self._known: dict[tuple[Any, ...], Kinds] = {}  # types that suit columns without values

    @override
    def apply(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return joined(list(self._apply(batch, 0)))

    def _apply(self, batch: pa.RecordBatch, begin: int) -> Iterator[pa.RecordBatch]:
        if not len(batch):
            return
        if _is_mixed(batch) and len(batch) > 1:
            yield from self._halves(batch, begin)
            return
        try:
            selected = self._selected(_retyped(batch) if _is_mixed(batch) else batch)
        except (ConfigError, MemoryError):
            raise
        except Exception as error:  # DataFusion has no error classes: a record or a type may be the cause
            if len(batch) == 1:
                raise BadRowError(begin, first_line(error)) from error
            yield from self._halves(batch, begin)
            return
        yield selected

    def _halves(self, batch: pa.RecordBatch, begin: int) -> Iterator[pa.RecordBatch]:
        half = len(batch) // 2
        yield from self._apply(batch.slice(0, half), begin)
        yield from self._apply(batch.slice(half), begin + half)

    def _selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._rows(*self._table(batch))
        metadata = {field.name: dict(field.metadata or {}) for field in rows.schema}
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        places = columns.pop(ROW)
        if not columns.keys() <= _SETTING:
            batch = _without_content(batch)  # a value of which unnest makes many records would be copied for each
        result = batch.take(places)
        typed = schema_of(batch.schema.field("value").metadata) is not None
        for name in SETTABLE:
            new = columns.pop(f"record.{name}", None)
            if new is not None:
                result = _with_part(result, name, new, metadata[f"record.{name}"], typed=typed)
        if not columns:
            return result
        if columns.keys() == {"value"}:
            return put(result, "value", columns["value"], metadata["value"])
        fields = {name.removeprefix(FIELD): (array, metadata[name]) for name, array in columns.items()}
        return put(result, "value", *_value(fields, result, typed=typed))

    def _rows(self, table: pa.RecordBatch, fields: list[str]) -> pa.RecordBatch:
        """Returns the query's rows. A column without values has no type, so that some functions fail, although they
        accept its nulls beside the values of other records. If so, it gets a type that suits the query.
        """
        kinds = self._known.get(_key(table))
        if kinds is None:
            slots = [(field.name, path) for field in table.schema if field.name in self._query.columns
                     for path in sorted(self._query.paths.get(field.name, _WHOLE), key=str)
                     if is_untyped(field.type, path)]  # fmt: skip
            try:
                return self._collected(table, fields)
            except Exception as error:
                if not slots or isinstance(error, (ConfigError, MemoryError)):
                    raise
                kinds = self._suitable(table, fields, slots)
        return self._collected(_with_types(table, kinds), fields)

    def _suitable(self, table: pa.RecordBatch, fields: list[str], slots: list[tuple[str, Path]]) -> Kinds:
        """Returns types for the slots (columns and paths into them) with which the query accepts a record of nulls;
        none if there are none. The result depends only on the columns' types, and not on the values of a bad record.
        """
        nulls = [pa.nulls(1, kind) for kind in table.schema.types]
        nulls[table.schema.get_field_index(ROW)] = pa.array([0])
        record = pa.record_batch(nulls, schema=table.schema)
        suitable: Kinds = {}
        for types in _combinations(len(slots)):
            kinds: dict[str, dict[Path, pa.DataType]] = {}
            for (name, path), kind in zip(slots, types, strict=True):
                kinds.setdefault(name, {})[path] = kind
            try:
                self._collected(_with_types(record, kinds), fields)
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001, S112 - DataFusion has no error classes
                continue
            suitable = kinds
            break
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[_key(table)] = suitable
        return suitable

    def _collected(self, table: pa.RecordBatch, fields: list[str]) -> pa.RecordBatch:
        with self._records(table), rust_code():
            frame = self._context.sql_with_options(self._query.text(fields, f", {ROW} "), self._options)
            check_plan(frame.logical_plan())
            batches = frame.collect()
            return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=frame.schema())

    @contextmanager
    def _records(self, table: pa.RecordBatch) -> Iterator[None]:
        self._context.register_record_batches("records", [[table]])
        try:
            yield
        finally:
            self._context.deregister_table("records")

    def _table(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[str]]:
        """Returns the table for the query, and the names of the value's fields."""
        arrays, metadata, fields = {}, {}, []
        for name, kind in PARTS.items():
            exists = name in batch.schema.names
            arrays[name] = batch.column(name) if exists else pa.nulls(len(batch), kind)
        if pa.types.is_dictionary(arrays["topic"].type):
            arrays["topic"] = arrays["topic"].cast(pa.string())
        value, field = batch.column("value"), batch.schema.field("value")
        try:
            found = Columns(value, field)
        except NotInColumnsError:
            found = None
        if found is not None:
            schemas = {f.name: f.schema for f in found.schema.fields} if found.schema else {}
            for name, child in found.children.items():
                fields.append(name)
                arrays.setdefault(name, child)
                own = described(schemas.get(name)) or dict(found.fields[name].metadata or {})
                if arrays[name] is child:
                    metadata[name] = own
        arrays["value"], metadata["value"] = value, dict(field.metadata or {})
        schema = schema_of(field.metadata)
        if schema is None:  # a key that no record of this batch has
            for name in self._query.names - arrays.keys():
                arrays[name] = pa.nulls(len(batch))
            for name, paths in self._query.paths.items():
                if not pa.types.is_null(arrays[name].type):
                    arrays[name] = with_kinds(arrays[name], dict.fromkeys(paths, pa.null()))
        arrays[ROW] = pa.array(np.arange(len(batch)))
        columns = [pa.field(name, array.type, metadata=metadata.get(name)) for name, array in arrays.items()]
        return pa.record_batch([_from_start(array) for array in arrays.values()], schema=pa.schema(columns)), fields


def _combinations(columns: int) -> list[tuple[pa.DataType, ...]]:
    """Returns the combinations of types to try for columns without values; those with most nulls first."""
    if columns > _MAX_TYPED:
        return [(kind,) * columns for kind in _TYPES]
    return sorted(product(_TYPES, repeat=columns), key=lambda types: columns - types.count(pa.null()))


def _from_start(array: pa.Array) -> pa.Array:
    """Returns the array, copied if it is a slice of structs: a slice of structs in structs crashes DataFusion 55."""
    return array.take(pa.array(np.arange(len(array)))) if array.offset and pa.types.is_struct(array.type) else array


def _key(table: pa.RecordBatch) -> tuple[Any, ...]:
    return (*table.schema.names, *table.schema.types)


def _with_types(table: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
    for name, at in kinds.items():
        index = table.schema.get_field_index(name)
        array = with_kinds(table.column(index), at)
        table = table.set_column(index, table.schema.field(index).with_type(array.type), array)
    return table


def _is_mixed(batch: pa.RecordBatch) -> bool:
    """Returns whether a column of the value contains values of different types, as JSON."""
    return _has_json(batch.schema.field("value"))


def _has_json(field: pa.Field) -> bool:
    if is_json(field.metadata):
        return True
    kind = field.type
    inner = list(kind) if pa.types.is_struct(kind) else [kind.value_field] if pa.types.is_list(kind) else []
    return any(_has_json(one) for one in inner)


def _retyped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch of one record with the types of this record's values."""
    return put(batch, "value", *column(connect_values(batch, "value")))


def _with_part(
    batch: pa.RecordBatch, name: str, array: pa.Array, metadata: dict[bytes, bytes], *, typed: bool
) -> pa.RecordBatch:
    if name == "topic":
        if array.null_count:
            raise DataError('the query sets "record.topic" to NULL; set a topic, or drop the record with WHERE')
        return put(batch, name, array.cast(pa.string()).dictionary_encode())
    if name == "key":
        array, schema = _plain(array, metadata)
        return put(batch, name, array, described(schema) if typed else metadata)
    return put(batch, name, array.cast(SETTABLE[name]))


def _without_content(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch with a value that only shows which records are tombstones, and their schema."""
    index = batch.schema.get_field_index("value")
    flags = pc.if_else(batch.column(index).is_valid(), True, pa.scalar(None, pa.bool_()))
    return batch.set_column(index, batch.schema.field(index).with_type(pa.bool_()), flags)


def _value(
    columns: Mapping[str, tuple[pa.Array, dict[bytes, bytes]]], batch: pa.RecordBatch, *, typed: bool
) -> tuple[pa.Array, dict[bytes, bytes] | None]:
    """Returns the column of the new value and its metadata. A tombstone remains a tombstone."""
    old = batch.column("value")
    nulls = pc.is_null(old) if old.null_count else None
    schema = schema_of(batch.schema.field("value").metadata)
    names = list(columns) if typed else hash_order(columns)
    children, fields, own = [], [], []
    for name in names:
        array, described_as = columns[name]
        child, its = _plain(array, described_as)
        if child.null_count and not its.optional:
            its = its.as_optional()
        children.append(child)
        own.append(Field(name, its))
        fields.append(pa.field(name, child.type, nullable=its.optional or not typed,
                               metadata=None if typed else described_as))
    array = struct_array(children, fields, len(batch), nulls)
    if schema is None:
        return array, None
    return array, described(Schema(ConnectType.STRUCT, optional=schema.optional, fields=tuple(own)))


def _plain(array: pa.Array, metadata: Mapping[bytes, bytes]) -> tuple[pa.Array, Schema]:
    """Returns the column with a Connect type, and its schema: the original one if the query only selects the column."""
    known = schema_of(metadata)
    if known is not None and array.type in (to_arrow(known), to_arrow(with_long_decimals(known))):
        return array, known
    if pa.types.is_null(array.type):
        return array, from_arrow(array.type)
    schema = from_arrow(array.type)
    kind = with_metadata(to_arrow(schema), array.type)
    return array.cast(kind, safe=not pa.types.is_timestamp(array.type)), schema  # now() has nanoseconds
