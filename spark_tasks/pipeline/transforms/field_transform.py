"""The base classes of transforms of the key or value.

The keys of a schemaless map have the order of Java's HashMap, so that a record's text is the same as in Java.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.config.definition import ConfigKey, Type
from spark_tasks.data.columns import ABSENT_KEY, SCHEMA_KEY, is_json, metadata_of, struct_array
from spark_tasks.data.key_orders import Order
from spark_tasks.data.schema import Field, Schema, to_text
from spark_tasks.data.schema import Type as ConnectType
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.base import schema_of
from spark_tasks.pipeline.converters.java_values import JavaError, Struct, field_schema
from spark_tasks.pipeline.converters.json_columns import parse_columns
from spark_tasks.pipeline.converters.nested import filled
from spark_tasks.pipeline.transforms.columns_or_rows import ColumnsOrRows, NotInColumnsError, Record, put
from spark_tasks.pipeline.transforms.key_groups import MOST_KINDS, Group, grouped, has_maps, others
from spark_tasks.pipeline.transforms.narrowing import narrowed

Changed = tuple[pa.Array, dict[bytes, bytes] | None]
Part = tuple[Schema | None, Any]

REPLACE_NULLS = ConfigKey(
    "replace.null.with.default", Type.BOOLEAN, default=True,
    doc="Whether a null field gets its default value, if it has one.",
)  # fmt: skip


class Columns:
    """The parts of a struct column: children and fields by name, and the schema (None for a schemaless map). Raises
    NotInColumnsError for other columns.
    """

    def __init__(self, array: pa.Array, field: pa.Field) -> None:
        self.schema = schema_of(field.metadata)
        if is_json(field.metadata):
            array, _ = parse_columns(array.cast(pa.binary()))
        if not pa.types.is_struct(array.type) or (self.schema and self.schema.type is not ConnectType.STRUCT):
            raise NotInColumnsError
        self.nulls = pc.invert(array.is_valid()) if array.null_count else None
        self.length = len(array)
        self.children = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
        self.fields: dict[str, pa.Field] = {f.name: f for f in array.type}

    def fill_defaults(self) -> None:
        """Replaces nulls with the defaults of their schemas (replace.null.with.default)."""
        for field in self.schema.fields if self.schema else ():
            child = self.children[field.name]
            if field.schema.default is not None and child.null_count:
                self.children[field.name] = filled(child, field.schema)

    def level(self, path: Sequence[str], *, fills_defaults: bool) -> Columns:
        """Returns the columns of the maps or structs that have the last field of a path; these, if it has one step.
        `fills_defaults`: also in these. Raises NotInColumnsError if any of them, or one on the way, is null or absent.
        """
        if len(path) == 1:
            return self
        return self.inner(path[0], fills_defaults=fills_defaults).level(path[1:], fills_defaults=fills_defaults)

    def inner(self, name: str, *, fills_defaults: bool) -> Columns:
        """Returns the columns of the maps or structs in a field, see `level`."""
        child, field = self.children.get(name), self.fields.get(name)
        if child is None or field is None or self.nulls is not None or child.null_count or field.metadata:
            raise NotInColumnsError
        inner = field_schema(self.schema, name) if self.schema else None
        columns = Columns(child, pa.field(name, child.type, metadata=described(inner)))
        if fills_defaults:
            columns.fill_defaults()
        return columns

    def lacks_required(self) -> str | None:
        """Returns the name of a required field that is null in a struct, or None."""
        own = self.nulls.true_count if self.nulls is not None else 0
        for field in self.schema.fields if self.schema else ():
            if not field.schema.optional and self.children[field.name].null_count > own:
                return field.name
        return None

    def check_nulls(self) -> None:
        """Raises DataError if a required field is null, which a Struct does not allow."""
        name = self.lacks_required()
        if name is not None:
            raise DataError(f"null value in required field {name}")

    def member(self, name: str) -> tuple[pa.Array, dict[bytes, bytes]]:
        """Returns a child and its metadata, with nulls for maps that lack the key: for transforms that read it as null,
        as Java's do.
        """
        child, metadata = self.children[name], metadata_of(self.fields[name])
        if metadata.pop(ABSENT_KEY, None) and is_json(metadata):  # perhaps only as null has to differ from absent
            child, metadata = parse_columns(child.cast(pa.binary()))
        return child, metadata

    def put(self, name: str, array: pa.Array, metadata: dict[bytes, bytes] | None = None) -> None:
        """Sets a child. A new one becomes the last."""
        self.children[name] = array
        self.fields[name] = pa.field(name, array.type, metadata=metadata)

    def build(self, names: Sequence[str], schema: Schema | None) -> tuple[pa.Array, dict[bytes, bytes] | None]:
        """Returns a column of these children in this order, and its metadata."""
        children = [self.children[name] for name in names]
        fields = [self.fields[name].with_name(name) for name in names]
        array = struct_array(children, fields, self.length, self.nulls)
        return array, described(schema)


def described(schema: Schema | None) -> dict[bytes, bytes] | None:
    """Returns the field metadata of a column with this schema."""
    return None if schema is None else {SCHEMA_KEY: to_text(schema).encode()}


class FieldTransform(ColumnsOrRows):
    """Changes the key or the value. `part`: "key" or "value". `purpose`: for Java's error messages."""

    part: ClassVar[str] = "value"
    purpose: ClassVar[str]
    skips_nulls: ClassVar[bool] = True  # null keys or values and their schemas remain unchanged
    version = "4.3.1"
    fills_defaults = True

    @override
    def columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.part not in batch.schema.names:
            raise NotInColumnsError
        array, field = batch.column(self.part), batch.schema.field(self.part)
        if array.null_count:
            if array.null_count == len(array) and self.skips_nulls:
                return batch
            if not self.skips_nulls or self._ambiguous(field):
                raise (NotInColumnsError if array.null_count == len(array) else DataError("null"))
        return put(batch, self.part, *self.change(batch, array, field))

    def key_order(self, names: list[str]) -> list[str] | None:  # noqa: ARG002
        """Returns the keys of a schemaless map after the change for those before it, both in the order of Java's
        iteration; None if the order remains.
        """
        return None

    @override
    def groups(self, batch: pa.RecordBatch) -> list[Group]:
        if self.part not in batch.schema.names:
            return []
        if is_json(batch.schema.field(self.part).metadata):
            try:
                batch = narrowed(batch, [self.part])
            except (DataError, pa.ArrowException):
                return []  # a text is no JSON
        apart = self.apart(batch.column(self.part), batch.schema.field(self.part))
        return grouped(batch, self.part, apart) if 0 < len(apart) <= MOST_KINDS else []

    def has_others(self, array: pa.Array, field: pa.Field) -> bool:
        """Returns whether some maps have keys in another order than the others after the change."""
        return bool(self.apart(array, field))

    def apart(self, array: pa.Array, field: pa.Field) -> list[Order]:
        """Returns the keys of maps that have these in another order than the others after the change."""
        if not has_maps(array, field):
            return []
        reorders = self.key_order([]) is not None
        return others(array, field, (lambda names: self.key_order(names) or []) if reorders else None)

    @staticmethod
    def _ambiguous(field: pa.Field) -> bool:
        """Returns whether nulls may have the schema. They keep it, while other records may get another one."""
        schema = schema_of(field.metadata)
        return schema is not None and (schema.optional or schema.default is not None)

    @override
    def record(self, record: Record) -> None:
        schema, value = record.get(self.part)
        if value is not None or not self.skips_nulls:
            record.set(self.part, *self.row(schema, value, record))

    def _columns(self, array: pa.Array, field: pa.Field) -> Columns:
        columns = Columns(array, field)
        if self.fills_defaults:
            columns.fill_defaults()
        return columns

    @abstractmethod
    def row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        """Returns the new schema and value of one record. Raises DataError."""

    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:  # noqa: ARG002
        """Returns the new column and its metadata. Raises the errors of ColumnsOrRows.columns."""
        raise NotInColumnsError

    def changed_schema(self, schema: Schema) -> Schema:
        """Returns the new schema of a value, also of null within another value."""
        return schema


class Nested:
    """Transforms for single levels of a record, each with the path to its level (field.syntax.version=V2)."""

    def __init__(self, levels: Sequence[tuple[tuple[str, ...], FieldTransform]]) -> None:
        self._levels = levels

    def row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        """Applies all transforms to one value."""
        for path, transform in self._levels:
            schema, value = _at(schema, value, path, transform, record)
        return schema, value

    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        """Applies all transforms to a column."""
        metadata: dict[bytes, bytes] | None = dict(field.metadata or {})
        for path, transform in self._levels:
            array, metadata = _column_at(batch, array, pa.field("", array.type, metadata=metadata), path, transform)
        return array, metadata

    def changed_schema(self, schema: Schema) -> Schema:
        """Applies all transforms to a schema."""
        for path, transform in self._levels:
            schema = _schema_at(schema, path, transform)
        return schema


class NestingTransform(FieldTransform):
    """A FieldTransform with field.syntax.version=V2. `configure` sets `_nested` if field names are paths."""

    _nested: Nested | None = None

    @override
    def key_order(self, names: list[str]) -> list[str] | None:
        return None if self._nested else self._order(names)

    def _order(self, names: list[str]) -> list[str] | None:
        """Returns the `key_order` of the maps whose fields the transform changes."""
        raise NotImplementedError

    @override
    def row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if self._nested:
            return self._nested.row(schema, value, record)
        return self._row(schema, value, record)

    @override
    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        if self._nested:
            return self._nested.change(batch, array, field)
        return self._change(batch, array, field)

    @abstractmethod
    def _row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        """Changes the fields of one level of a record."""

    @abstractmethod
    def _change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        """Changes the fields of one level of a batch."""


def _at(schema: Schema | None, value: Any, path: Sequence[str], transform: FieldTransform, record: Record) -> Part:
    if not path:
        if value is None:
            return (None if schema is None else transform.changed_schema(schema)), None
        return transform.row(schema, value, record)
    name = path[0]
    if schema is None:
        if not isinstance(value, dict) or value.get(name) is None:
            return None, value
        return None, {**value, name: _at(None, value[name], path[1:], transform, record)[1]}
    changed = _schema_at(schema, path, transform)
    if not isinstance(value, Struct) or changed is schema:
        return changed, value
    inner, values = field_schema(schema, name), dict(value.values)
    _, found = _at(inner, values.get(name), path[1:], transform, record)
    values[name] = found if inner is None else as_optional_as(inner, found)
    return changed, Struct(changed, values)


def _column_at(
    batch: pa.RecordBatch, array: pa.Array, field: pa.Field, path: Sequence[str], transform: FieldTransform
) -> Changed:
    if not path:
        if transform.has_others(array, field):
            raise NotInColumnsError
        return transform.change(batch, array, field)
    columns, name = Columns(array, field), path[0]
    child, its = columns.children.get(name), columns.fields.get(name)
    if its is None or child is None:  # no record has it
        return array, dict(field.metadata or {})
    if columns.nulls is not None or child.null_count or its.metadata:
        raise NotInColumnsError
    if columns.schema is None:
        columns.put(name, *_column_at(batch, child, its, path[1:], transform))
        return columns.build(list(columns.children), None)
    inner = field_schema(columns.schema, name)
    found, _ = _column_at(batch, child, pa.field(name, child.type, metadata=described(inner)), path[1:], transform)
    columns.put(name, found)
    return columns.build(list(columns.children), _schema_at(columns.schema, path, transform))


def _schema_at(schema: Schema, path: Sequence[str], transform: FieldTransform) -> Schema:
    if not path:
        return transform.changed_schema(schema)
    if schema.type is not ConnectType.STRUCT or field_schema(schema, path[0]) is None:
        return schema
    fields = tuple(
        Field(f.name, as_optional_as(f.schema, _schema_at(f.schema, path[1:], transform))) if f.name == path[0] else f
        for f in schema.fields
    )
    return replace(schema, fields=fields)


def as_optional_as(before: Schema, changed: Any) -> Any:
    """Returns a changed schema, or a changed Struct, that is optional if the schema within a struct was. (At the top,
    Java's transforms make structs required.)
    """
    if isinstance(changed, Struct):
        return Struct(as_optional_as(before, changed.schema), changed.values)
    return replace(changed, optional=before.optional) if isinstance(changed, Schema) else changed


def basics(schema: Schema, kind: ConnectType, fields: Sequence[Field] = ()) -> Schema:
    """Returns a required schema of the type `kind` with the name, version, doc and parameters of `schema`."""
    return Schema(
        kind, name=schema.name, version=schema.version, doc=schema.doc, parameters=schema.parameters,
        fields=distinct(fields),
    )  # fmt: skip


def distinct(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Returns the fields. Raises DataError if two have the same name, or one has none."""
    seen: set[str] = set()
    for field in fields:
        if not field.name:
            raise JavaError("org.apache.kafka.connect.errors.SchemaBuilderException", "fieldName cannot be null.")
        if field.name in seen:
            raise JavaError(
                "org.apache.kafka.connect.errors.SchemaBuilderException",
                f"Cannot create field because of field name duplication {field.name}",
            )
        seen.add(field.name)
    return tuple(fields)


def fields_of(schema: Schema) -> tuple[Field, ...]:
    """Returns the fields of a struct schema. Raises DataError for any other schema."""
    if schema.type is not ConnectType.STRUCT:
        raise DataError("Cannot list fields on non-struct type")
    return schema.fields


def for_key(transform: type[FieldTransform]) -> type[FieldTransform]:
    """Returns the transform's class for keys."""
    swap = {"value": "key", "headers": "headers"}
    members: Mapping[str, Any] = {
        "part": "key", "reads": tuple(swap[p] for p in transform.reads),
        "writes": tuple(swap[p] for p in transform.writes),
        "aliases": (f"org.apache.kafka.connect.transforms.{transform.__name__}$Key",),
        "__doc__": transform.__doc__, "__module__": transform.__module__,
    }  # fmt: skip
    return type(f"{transform.__name__}Key", (transform,), dict(members))
