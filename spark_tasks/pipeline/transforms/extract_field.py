"""ExtractField."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Type
from spark_tasks.data.columns import ABSENT_KEY, is_json, metadata_of, nulls_of_texts
from spark_tasks.data.schema import Schema
from spark_tasks.pipeline.converters.java_values import JavaError, field_schema, require_map, require_struct
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, Record
from spark_tasks.pipeline.transforms.field_path import SYNTAX, parse_path, schema_at, value_at
from spark_tasks.pipeline.transforms.field_transform import (
    REPLACE_NULLS,
    Changed,
    FieldTransform,
    Part,
    described,
    for_key,
)


class ExtractField(FieldTransform):
    """Replaces the whole key or value with one of its fields."""

    purpose = "field extraction"
    skips_nulls = False
    config_def = ConfigDef(
        ConfigKey("field", Type.STRING, doc="The field; with field.syntax.version=V2, its path."), REPLACE_NULLS, SYNTAX
    )

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        self._text, self.fills_defaults = values["field"], values["replace.null.with.default"]
        self._path = parse_path(self._text, values["field.syntax.version"])

    @override
    def row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if schema is None:
            return None, value_at(None if value is None else require_map(value, self.purpose), self._path)
        if value is not None:
            require_struct(value, self.purpose)
        inner = self._schema(schema)
        return inner, None if value is None else value_at(value, self._path, defaults=self.fills_defaults)

    def _schema(self, schema: Schema) -> Schema:
        if not self._path:
            raise JavaError("java.lang.IllegalArgumentException", "the path of the field is empty")
        field_schema(schema, self._path[0])
        inner = schema_at(schema, self._path)
        if inner is None:
            raise JavaError("java.lang.IllegalArgumentException", f"Unknown field: {self._text}")
        return inner

    @property
    @override
    def is_for_columns(self) -> bool:
        return bool(self._path)

    @override
    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        if not self.is_for_columns:
            raise NotInColumnsError
        whole, name = self._columns(array, field), self._path[-1]
        schema = None if whole.schema is None else self._schema(whole.schema)
        columns = whole.level(self._path, fills_defaults=self.fills_defaults)
        if schema is not None:
            if columns.children[name].null_count:
                raise NotInColumnsError  # which of the nulls have the schema is unknown
            return columns.children[name], described(schema)
        if name not in columns.children:
            return pa.nulls(len(array)), None
        found, described_as = columns.children[name], metadata_of(columns.fields[name])
        if found.null_count:
            described_as.pop(ABSENT_KEY, None)
        return (nulls_of_texts(found) if is_json(described_as) else found), described_as


ExtractFieldKey = for_key(ExtractField)
