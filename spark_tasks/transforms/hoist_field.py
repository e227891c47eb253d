"""HoistField."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from spark_tasks.columns import SCHEMA_KEY
from spark_tasks.config_def import ConfigDef, ConfigKey, Type
from spark_tasks.converters.base import schema_of
from spark_tasks.schema import Field, Schema, to_text
from spark_tasks.schema import Type as ConnectType
from spark_tasks.transforms.field_transform import Changed, FieldTransform, for_key


class HoistField(FieldTransform):
    """Makes the whole key or value the only field of a new map or struct."""

    purpose = "hoist field"
    takes_nulls = True
    config_def = ConfigDef(ConfigKey("field", Type.STRING, doc="The name of the field."))

    def configure(self, configs: Mapping[str, str]) -> None:
        """See Transform."""
        self._name = self.config_def.parse(configs)["field"]

    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:  # noqa: ARG002 - base's
        """See FieldTransform."""
        schema = schema_of(field.metadata)
        if schema is None:
            inner = field.with_name(self._name)
            return pa.StructArray.from_arrays([array], fields=[inner]), None
        inner = pa.field(self._name, array.type, nullable=schema.optional or array.null_count > 0)
        outer = Schema(ConnectType.STRUCT, fields=(Field(self._name, schema),))
        return pa.StructArray.from_arrays([array], fields=[inner]), {SCHEMA_KEY: to_text(outer).encode()}


HoistFieldKey = for_key(HoistField)
