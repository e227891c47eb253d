"""ValueToKey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type, ValidList, invalid
from spark_tasks.data.schema import Field, Schema
from spark_tasks.data.schema import Type as ConnectType
from spark_tasks.errors import DataError
from spark_tasks.java.hash import capacity_for, hash_order
from spark_tasks.pipeline.converters.java_values import Struct, require_map, require_struct
from spark_tasks.pipeline.transforms.columns_or_rows import ColumnsOrRows, NotInColumnsError, Record, put
from spark_tasks.pipeline.transforms.field_path import SYNTAX, parse_path, schema_at, value_at
from spark_tasks.pipeline.transforms.field_transform import REPLACE_NULLS, Columns, distinct

_PURPOSE = "copying fields from value to key"


class ValueToKey(ColumnsOrRows):
    """Creates a new key from fields of the value."""

    version = "4.3.1"
    writes = ("key",)
    config_def = ConfigDef(
        ConfigKey("fields", Type.LIST, importance=Importance.HIGH, validator=ValidList(empty=False),
                  doc="The fields of the value that become the key."),
        REPLACE_NULLS, SYNTAX,
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        self._paths = [parse_path(name, values["field.syntax.version"]) for name in values["fields"]]
        names = {path[-1:]: path for path in self._paths}
        for path in self._paths:
            if names[path[-1:]] != path:
                both = " and ".join(".".join(one) for one in (path, names[path[-1:]]))
                raise invalid("fields", values["fields"], f"{both} would both become the field {path[-1]} of the key")
        self._defaults = values["replace.null.with.default"]

    @override
    def record(self, record: Record) -> None:
        schema, value = record.value_schema, record.value
        if schema is None:
            values = require_map(value, _PURPOSE)
            key = {path[-1]: value_at(values, path) for path in self._paths}
            record.set("key", None, {name: key[name] for name in hash_order(key, capacity_for(len(self._paths)))})
            return
        struct = Struct(self._schema(schema, require_struct(value, _PURPOSE)))
        for path in self._paths:
            struct.put(path[-1], value_at(value, path, defaults=self._defaults))
        record.set("key", struct.schema, struct)

    def _schema(self, schema: Schema, _value: Struct | None = None) -> Schema:
        fields: list[Field] = []
        for path in self._paths:
            inner = schema_at(schema, path)
            if inner is None:
                distinct(fields)  # Java's builder rejects a duplicate name first
                raise DataError(f"Field does not exist: {'.'.join(path)}")
            fields.append(Field(path[-1], inner))
        return Schema(ConnectType.STRUCT, fields=distinct(fields))

    @property
    @override
    def is_for_columns(self) -> bool:
        return all(self._paths)

    @override
    def columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if "value" not in batch.schema.names or not self.is_for_columns:
            raise NotInColumnsError
        array = batch.column("value")
        if array.null_count:
            raise DataError("null")
        columns = Columns(array, batch.schema.field("value"))
        if self._defaults:
            columns.fill_defaults()
        schema = None if columns.schema is None else self._schema(columns.schema)
        found = {path[-1]: self._found(columns, path) for path in self._paths}
        for name, (child, metadata) in found.items():
            columns.put(name, child, metadata)
        if schema is not None:
            columns.schema = schema
            columns.check_nulls()
            return put(batch, "key", *columns.build(list(found), schema))
        return put(batch, "key", *columns.build(hash_order(found, capacity_for(len(self._paths))), None))

    def _found(self, columns: Columns, path: Sequence[str]) -> tuple[pa.Array, dict[bytes, bytes]]:
        level = columns.level(path, fills_defaults=self._defaults)
        if path[-1] not in level.children:
            return pa.nulls(columns.length), {}
        return level.member(path[-1])  # absent keys become null
