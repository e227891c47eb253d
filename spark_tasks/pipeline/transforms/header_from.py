"""HeaderFrom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import Check, ConfigDef, ConfigKey, Importance, OneOf, Type, invalid
from spark_tasks.data.columns import is_json
from spark_tasks.data.schema import Field, Schema
from spark_tasks.data.schema import Type as ConnectType
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.java.hash import copied
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.java_values import JavaError, Struct, require_map, require_struct
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, Record, put
from spark_tasks.pipeline.transforms.field_path import SYNTAX, parse_path, schema_at, value_at
from spark_tasks.pipeline.transforms.field_transform import (
    REPLACE_NULLS,
    Columns,
    FieldTransform,
    Part,
    as_optional_as,
    basics,
    described,
    for_key,
)
from spark_tasks.pipeline.transforms.headers import with_headers
from spark_tasks.pipeline.transforms.java_casts import cast_column


def _check_full(name: str, value: Any) -> None:
    if not value:
        raise invalid(name, value, "Empty list")


_FULL = Check(_check_full, "non-empty list")


class HeaderFrom(FieldTransform):
    """Copies or moves fields to headers."""

    skips_nulls = False
    reads = ("value", "headers")
    writes = ("value", "headers")
    config_def = ConfigDef(
        ConfigKey("fields", Type.LIST, importance=Importance.HIGH, validator=_FULL, doc="The fields."),
        ConfigKey("headers", Type.LIST, importance=Importance.HIGH, validator=_FULL,
                  doc="The names of the headers, in the order of the fields."),
        ConfigKey("operation", Type.STRING, importance=Importance.HIGH, validator=OneOf("move", "copy"),
                  doc="move removes the fields, copy keeps them."),
        REPLACE_NULLS, SYNTAX,
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        if len(values["fields"]) != len(values["headers"]):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        paths = [parse_path(name, values["field.syntax.version"]) for name in values["fields"]]
        self._pairs = list(zip(paths, values["headers"], strict=True))
        self._moves, self.fills_defaults = values["operation"] == "move", values["replace.null.with.default"]
        self._purpose = f"header {values['operation']}"

    @override
    def key_order(self, names: list[str]) -> list[str]:
        return copied(names)

    @override
    def row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if schema is None:
            require_map(value, self._purpose)
        else:
            require_struct(value, self._purpose)
        if schema is None:
            value = {name: value[name] for name in self.key_order(list(value))}
        # As in Java: first what the move leaves, then the headers, so that errors come in this order.
        left = self._without(schema, value, [path for path, _ in self._pairs]) if self._moves else (schema, value)
        headers = list(record.headers)
        for path, header in self._pairs:
            inner = None if schema is None else schema_at(schema, path)
            if schema is not None and inner is None:
                raise JavaError(
                    "java.lang.NullPointerException",
                    'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return value of '
                    '"org.apache.kafka.connect.data.Schema.field(String)" is null',
                )
            one = value_at(value, path, defaults=self.fills_defaults)
            if one is None and inner is not None and not inner.optional:
                named = "" if inner.name is None else f"{inner.name}:"
                raise DataError(f"A null value requires an optional schema but was Schema{{{named}{inner.type.name}}}")
            headers.append((header, self.header_writer.write(record.topic, header, inner, one)))
        record.headers = headers
        return left

    def _without(self, schema: Schema | None, value: Any, paths: Sequence[tuple[str, ...]]) -> Part:
        """Returns a map or a struct without the fields at these paths."""
        gone, inner = _split(paths)
        if schema is None:
            if not isinstance(value, dict):
                return None, value
            return None, {k: self._without(None, one, inner[k])[1] if k in inner else one
                          for k, one in value.items() if k not in gone}
        if schema.type is not ConnectType.STRUCT:
            return schema, value
        fields, values = [], {}
        for field in schema.fields:
            if field.name in gone:
                continue
            field_value = value.get(field.name, defaults=self.fills_defaults) if isinstance(value, Struct) else None
            kind: Schema = field.schema
            if field.name in inner:
                kind, field_value = (as_optional_as(field.schema, one)
                                     for one in self._without(field.schema, field_value, inner[field.name]))
            fields.append(Field(field.name, kind))
            values[field.name] = field_value
        changed = basics(schema, ConnectType.STRUCT, fields)
        if value is None:
            return changed, None
        struct = Struct(changed)
        for key, field_value in values.items():
            struct.put(key, field_value)
        return changed, struct

    @property
    @override
    def is_for_columns(self) -> bool:
        return self.header_writer.simple and all(path for path, _ in self._pairs)

    @override
    def columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Changes the batch. Only for numbers, strings and booleans that SimpleHeaderConverter writes."""
        if not self.is_for_columns or self.part not in batch.schema.names:
            raise NotInColumnsError
        array, field = batch.column(self.part), batch.schema.field(self.part)
        if array.null_count:
            raise BadRowError(0, "null")
        columns = self._columns(array, field)
        batch = with_headers(batch, [
            (header, _texts(columns.level(path, fills_defaults=self.fills_defaults), path[-1],
                            None if columns.schema is None else schema_at(columns.schema, path)))
            for path, header in self._pairs
        ])  # fmt: skip
        if not self._moves and columns.schema is not None:
            return batch
        changed, schema = self._left(columns, [path for path, _ in self._pairs] if self._moves else [], copied)
        return put(batch, self.part, changed, described(schema))

    def _left(
        self, columns: Columns, paths: Sequence[tuple[str, ...]], order: Callable[[list[str]], list[str]]
    ) -> tuple[pa.Array, Schema | None]:
        """Returns maps or structs without the fields at these paths, and their schema. `order`: of the keys of maps."""
        gone, inner = _split(paths)
        schemas: dict[str, Schema | None] = {}
        for name, rest in inner.items():
            if name not in gone:
                level = columns.inner(name, fills_defaults=self.fills_defaults)
                found, schemas[name] = self._left(level, rest, list)
                columns.put(name, found)
        if columns.schema is None:
            names = [name for name in order(list(columns.children)) if name not in gone]
            return columns.build(names, None)[0], None
        columns.check_nulls()
        kept = [Field(f.name, as_optional_as(f.schema, schemas.get(f.name) or f.schema))
                for f in columns.schema.fields if f.name not in gone]
        changed, _ = columns.build([field.name for field in kept], None)
        return changed, basics(columns.schema, ConnectType.STRUCT, kept)


def _split(paths: Sequence[tuple[str, ...]]) -> tuple[set[str], dict[str, list[tuple[str, ...]]]]:
    """Returns the fields that paths end at, and the rest of all longer paths by their first step."""
    inner: dict[str, list[tuple[str, ...]]] = {}
    for name, *rest in paths:
        if rest:
            inner.setdefault(name, []).append(tuple(rest))
    return {path[0] for path in paths if len(path) == 1}, inner


def _texts(columns: Columns, name: str, schema: Schema | None) -> pa.Array:
    if name not in columns.children:
        if columns.schema is not None:
            raise NotInColumnsError
        return pa.nulls(columns.length, pa.string())
    array, metadata = columns.member(name)
    if is_json(metadata):
        raise NotInColumnsError
    if pa.types.is_null(array.type):
        return pa.nulls(columns.length, pa.string())
    if schema is not None and (schema.logical or (array.null_count and not schema.optional)):
        raise NotInColumnsError
    if pa.types.is_boolean(array.type) or pa.types.is_string(array.type) or pa.types.is_primitive(array.type):
        return cast_column(array, None, ConnectType.STRING)
    raise NotInColumnsError


HeaderFromKey = for_key(HeaderFrom)
