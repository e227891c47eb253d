"""SetSchemaMetadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type
from spark_tasks.data.schema import Schema
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.pipeline.converters.base import schema_of
from spark_tasks.pipeline.converters.java_values import Struct, by_identity
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, Record
from spark_tasks.pipeline.transforms.field_transform import (
    REPLACE_NULLS,
    Changed,
    FieldTransform,
    Part,
    described,
    fields_of,
    for_key,
)


class SetSchemaMetadata(FieldTransform):
    """Changes the name or version of the struct schema of keys or values."""

    purpose = "updating schema metadata"
    skips_nulls = False
    config_def = ConfigDef(
        ConfigKey("schema.name", Type.STRING, default=None, importance=Importance.HIGH, doc="The schema's name."),
        ConfigKey("schema.version", Type.INT, default=None, importance=Importance.HIGH, doc="The schema's version."),
        REPLACE_NULLS,
    )

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        self._name, self._version = values["schema.name"], values["schema.version"]
        self.fills_defaults = values["replace.null.with.default"]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")
        self.changed_schema = by_identity(self._changed_schema)  # type: ignore[method-assign,assignment]

    def _changed_schema(self, schema: Schema) -> Schema:
        fields_of(schema)
        return replace(
            schema, name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )  # fmt: skip

    @override
    def row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if schema is None:
            if value is None:
                return None, None
            raise DataError(f"Schema required for [{self.purpose}]")
        new = self.changed_schema(schema)
        if not isinstance(value, Struct):
            return new, value
        struct = Struct(new)
        for field in schema.fields:
            struct.put(field.name, value.get(field.name, defaults=self.fills_defaults))
        return new, struct

    @override
    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        if schema_of(field.metadata) is None:
            raise NotInColumnsError
        columns = self._columns(array, field)
        if columns.schema is None:
            raise NotInColumnsError
        columns.check_nulls()
        found, _ = columns.build(list(columns.children), None)
        return found, described(self.changed_schema(columns.schema))


SetSchemaMetadataKey = for_key(SetSchemaMetadata)
