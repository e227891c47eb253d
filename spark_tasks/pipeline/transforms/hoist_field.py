"""HoistField."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Type
from spark_tasks.data.schema import Field, Schema
from spark_tasks.data.schema import Type as ConnectType
from spark_tasks.pipeline.converters.base import schema_of
from spark_tasks.pipeline.converters.java_values import Struct
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, Record
from spark_tasks.pipeline.transforms.field_transform import Changed, Columns, FieldTransform, Part, described, for_key


class HoistField(FieldTransform):
    """Wraps the whole key or value as the only field of a new map or struct."""

    purpose = "hoist field"
    skips_nulls = False
    config_def = ConfigDef(ConfigKey("field", Type.STRING, doc="The name of the field."))

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        self._name = self.config_def.parse(configs)["field"]

    @override
    def row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if schema is None:
            return None, {self._name: value}
        outer = Schema(ConnectType.STRUCT, fields=(Field(self._name, schema),))
        hoisted = Struct(outer)
        hoisted.put(self._name, value)
        return outer, hoisted

    @override
    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        schema = schema_of(field.metadata)
        if schema is None:
            inner = field.with_name(self._name)
            return pa.StructArray.from_arrays([array], fields=[inner]), None
        if array.null_count and not schema.optional:
            raise NotInColumnsError  # records without a value, or null values of a required schema
        if schema.type is ConnectType.STRUCT and Columns(array, field).lacks_required():
            raise NotInColumnsError  # a Struct may lack a required field until it is put into another one
        if schema.logical and not (pa.types.is_temporal(array.type) or pa.types.is_decimal(array.type)):
            raise NotInColumnsError  # Cast kept the logical name, which a struct rejects
        inner = pa.field(self._name, array.type, nullable=schema.optional)
        outer = Schema(ConnectType.STRUCT, fields=(Field(self._name, schema),))
        return pa.StructArray.from_arrays([array], fields=[inner]), described(outer)


HoistFieldKey = for_key(HoistField)
