"""InsertField."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.columns import ABSENT_KEY, ABSENT_NULL
from spark_tasks.config_def import ConfigDef, ConfigKey, Type
from spark_tasks.converters.buffers import string_array
from spark_tasks.converters.java_hash import copied
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.schema import STRING, TIMESTAMP, Field, Schema
from spark_tasks.schema import Type as ConnectType
from spark_tasks.transforms.field_transform import REPLACE_NULLS, Changed, FieldTransform, for_key

_INSERTED: dict[str, tuple[pa.DataType, Schema]] = {
    "topic": (pa.string(), STRING),
    "partition": (pa.int32(), Schema(ConnectType.INT32)),
    "offset": (pa.int64(), Schema(ConnectType.INT64)),
    "timestamp": (pa.timestamp("ms", tz="UTC"), Schema(ConnectType.INT64, name=TIMESTAMP, version=1)),
    "static": (pa.string(), STRING),
}


class InsertField(FieldTransform):
    """Adds topic, partition, offset, timestamp or a fixed text as fields."""

    purpose = "field insertion"
    config_def = ConfigDef(
        *(
            ConfigKey(f"{what}.field", Type.STRING, default=None, doc=f"Field for the {said}; ! after it: required.")
            for what, said in (
                ("topic", "Kafka topic"),
                ("partition", "Kafka partition"),
                ("offset", "Kafka offset (sinks only)"),
                ("timestamp", "record timestamp"),
                ("static", "fixed text"),
            )
        ),
        ConfigKey("static.value", Type.STRING, default=None, doc="The fixed text."),
        REPLACE_NULLS,
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """See Transform."""
        values = self.config_def.parse(configs)
        self._text, self.fills_defaults = values["static.value"], values["replace.null.with.default"]
        self._fields = {w: values[f"{w}.field"] for w in ("topic", "partition", "offset", "timestamp", "static")}
        if not any(self._fields.values()):
            raise ConfigError("No field insertion configured")
        if self._fields["static"] and self._text is None:
            raise ConfigError("static.value: No value specified for static field: " + self._fields["static"])

    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        """See FieldTransform."""
        columns = self._columns(array, field)
        names, added = list(columns.children), []
        for what, asked in self._fields.items():
            if not asked:
                continue
            name, required = asked.rstrip("!?") if asked[-1] in "!?" else asked, asked.endswith("!")
            found = self._column(what, batch)
            if found is None and columns.schema is None:
                continue
            value = pa.nulls(len(batch), _INSERTED[what][0]) if found is None else found
            if columns.schema is None and what == "timestamp":
                value = value.cast(pa.int64())
            columns.put(name, value, {ABSENT_KEY: ABSENT_NULL} if columns.schema is None and value.null_count else None)
            added.append(Field(name, _INSERTED[what][1] if required else _INSERTED[what][1].as_optional()))
        if columns.schema is None:
            return columns.build(copied(names, *(f.name for f in added)), None)
        schema = replace(columns.schema, fields=columns.schema.fields + tuple(added))
        return columns.build([f.name for f in schema.fields], schema)

    def _column(self, what: str, batch: pa.RecordBatch) -> pa.Array | None:
        if what == "static":
            return _constant(self._text, len(batch))
        if what not in batch.schema.names:
            if what == "offset":
                raise DataError(f"Only SinkRecord objects supported for [{self.purpose}]")
            return None
        found = batch.column(what)
        if what == "topic":
            return found.cast(pa.string())
        if what == "timestamp":
            known = pc.if_else(pc.greater_equal(found, 0), found, pa.scalar(None, pa.int64()))
            return known.cast(_INSERTED[what][0])
        return None if found.null_count == len(found) else found


def _constant(text: str, length: int) -> pa.Array:
    written = text.encode()
    data = np.frombuffer(written * length, np.uint8)
    return string_array(data, (np.arange(length + 1) * len(written)).astype(np.int32))


InsertFieldKey = for_key(InsertField)
