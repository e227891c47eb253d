"""Flatten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey
from spark_tasks.config.definition import Type as ConfigType
from spark_tasks.data.columns import ABSENT_KEY, is_json, metadata_of
from spark_tasks.data.schema import Field, Schema, Type, default_json
from spark_tasks.errors import DataError
from spark_tasks.java.json import java_json
from spark_tasks.pipeline.converters.base import schema_of
from spark_tasks.pipeline.converters.java_values import (
    Struct,
    by_identity,
    class_name,
    require_map,
    require_struct,
    schema_type,
)
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, Record
from spark_tasks.pipeline.transforms.field_transform import (
    Changed,
    Columns,
    FieldTransform,
    Part,
    basics,
    described,
    distinct,
    fields_of,
    for_key,
)


class Flatten(FieldTransform):
    """Moves the fields of nested structs and maps to the top level, with joined names."""

    purpose = "flattening"
    config_def = ConfigDef(ConfigKey("delimiter", ConfigType.STRING, default=".", doc="The text between joined names."))

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        self._delimiter = self.config_def.parse(configs)["delimiter"]
        self.changed_schema = by_identity(self._changed_schema)  # type: ignore[method-assign,assignment]

    @override
    def row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if schema is None:
            flat: dict[str, Any] = {}
            self._flatten(require_map(value, self.purpose), "", flat)
            return None, flat
        struct = require_struct(value, self.purpose)
        new = self.changed_schema(schema)
        flattened = Struct(new)
        self._fill(struct, schema, "", flattened)
        return new, flattened

    def _name(self, prefix: str, name: str) -> str:
        return prefix + self._delimiter + name if prefix else name

    def _flatten(self, found: dict[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for key, value in found.items():
            name = self._name(prefix, key)
            if isinstance(value, dict):
                self._flatten(value, name, flat)
            elif value is not None and schema_type(value) is None:
                raise DataError(f"Flatten transformation was passed a value of type class {class_name(value)} which is "
                                "not supported by Connect's data API")
            else:
                flat[name] = value

    def _fill(self, struct: Struct | None, schema: Schema, prefix: str, flat: Struct) -> None:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            value = None if struct is None else struct.get(field.name)
            if field.schema.type is Type.STRUCT:
                self._fill(value, field.schema, name, flat)
            else:
                flat.put(name, value)

    def _changed_schema(self, schema: Schema) -> Schema:
        fields: list[Field] = []
        fields_of(schema)
        self._schemas(schema, "", schema.optional, _default(schema), fields)
        return basics(schema, Type.STRUCT, fields)

    def _schemas(
        self, schema: Schema, prefix: str, optional: bool, default: Mapping[str, Any], fields: list[Field]
    ) -> None:
        """Adds the fields of a struct to `fields`. Those without a default of their own get it from the struct's."""
        for field in schema.fields:
            name, inner = self._name(prefix, field.name), field.schema
            loose = optional or inner.optional
            if inner.default is None and default.get(field.name) is not None:
                inner = replace(inner, default=java_json(default[field.name]))
            if inner.type is Type.STRUCT:
                self._schemas(inner, name, loose, _default(inner), fields)
            elif inner.type is Type.MAP:
                distinct(fields)  # Java's builder rejects a duplicate name first
                raise DataError(f"Flatten transformation does not support MAP for record with schemas (for field "
                                f"{name}).")
            else:
                fields.append(Field(name, replace(inner, optional=loose)))

    @override
    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        schema = schema_of(field.metadata)
        columns = Columns(array, field)
        children: dict[str, pa.Array] = {}
        fields: dict[str, pa.Field] = {}
        self._collect(columns, schema, "", children, fields)
        new = None if schema is None else self.changed_schema(schema)
        columns.children, columns.fields = children, fields
        if new is not None:
            columns.schema = new
            columns.check_nulls()
        array, _ = columns.build([f.name for f in new.fields] if new else list(children), None)
        return array, described(new)

    def _collect(
        self, columns: Columns, schema: Schema | None, prefix: str, children: dict[str, pa.Array],
        fields: dict[str, pa.Field],
    ) -> None:  # fmt: skip
        inner = {f.name: f.schema for f in schema.fields} if schema else {}
        if columns.nulls is not None and any(field.default is not None for field in inner.values()):
            raise NotInColumnsError  # fields of a null struct do not get their defaults
        columns.fill_defaults()
        for key, child in columns.children.items():
            name, its = self._name(prefix, key), columns.fields[key]
            of_child = inner.get(key)
            if pa.types.is_struct(child.type) and (schema is None or of_child is not None):
                nested = Columns(child, pa.field(key, child.type, metadata=described(of_child)))
                if schema is None and (child.null_count or ABSENT_KEY in metadata_of(its)):
                    raise NotInColumnsError  # a null map becomes one null, not one for each key
                self._collect(nested, of_child, name, children, fields)
            elif schema is None and (is_json(metadata_of(its)) or pa.types.is_temporal(child.type)):
                raise NotInColumnsError
            elif schema is None and name in children:
                raise NotInColumnsError  # which of two keys with the same name counts depends on the record
            else:
                children[name], fields[name] = child, its


def _default(schema: Schema) -> Mapping[str, Any]:
    return default_json(schema) or {}


FlattenKey = for_key(Flatten)
