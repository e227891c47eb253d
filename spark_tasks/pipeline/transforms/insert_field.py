"""InsertField."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.arrays.buffers import string_array
from spark_tasks.config.definition import ConfigDef, ConfigKey, Type, invalid
from spark_tasks.data.columns import ABSENT_KEY, ABSENT_NULL
from spark_tasks.data.key_orders import Order
from spark_tasks.data.schema import STRING, TIMESTAMP, Field, Schema
from spark_tasks.data.schema import Type as ConnectType
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.java.hash import copied
from spark_tasks.pipeline.converters.java_values import Moment, Struct, by_identity, require_map, require_struct
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, Record
from spark_tasks.pipeline.transforms.field_path import SYNTAX, parse_path
from spark_tasks.pipeline.transforms.field_transform import (
    REPLACE_NULLS,
    Changed,
    Nested,
    NestingTransform,
    Part,
    basics,
    for_key,
)
from spark_tasks.pipeline.transforms.key_groups import has_maps, keeps, others

_INSERTED: dict[str, tuple[pa.DataType, Schema]] = {
    "topic": (pa.string(), STRING),
    "partition": (pa.int32(), Schema(ConnectType.INT32)),
    "offset": (pa.int64(), Schema(ConnectType.INT64)),
    "timestamp": (pa.timestamp("ms", tz="UTC"), Schema(ConnectType.INT64, name=TIMESTAMP, version=1)),
    "static": (pa.string(), STRING),
}
_UNSURE = ("partition", "timestamp")  # which records may lack
Insertions = dict[str, tuple[str, bool]]  # by content: the name of the field, whether it is optional


def _no_source(purpose: str) -> DataError:
    return DataError(f"Only SinkRecord supported for [{purpose}], found: "
                     "org.apache.kafka.connect.source.SourceRecord")  # fmt: skip


class InsertField(NestingTransform):
    """Adds fields with the record's topic, partition, offset or timestamp, or with a fixed text."""

    purpose = "field insertion"
    config_def = ConfigDef(
        *(
            ConfigKey(f"{what}.field", Type.STRING, default=None,
                      doc=f"The field for the {content}; ! after its name: required.")
            for what, content in (
                ("topic", "Kafka topic"),
                ("partition", "Kafka partition"),
                ("offset", "Kafka offset (sinks only)"),
                ("timestamp", "record timestamp"),
                ("static", "fixed text"),
            )
        ),
        ConfigKey("static.value", Type.STRING, default=None, doc="The fixed text."),
        REPLACE_NULLS,
        SYNTAX,
    )

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        inserted: Insertions = {}
        for what in _INSERTED:
            name = values[f"{what}.field"]
            if name is not None:
                inserted[what] = (name[:-1] if name[-1:] in ("!", "?") else name, not name.endswith("!"))
        if not inserted:
            raise ConfigError("No field insertion configured")
        if "static" in inserted and values["static.value"] is None:
            raise invalid("static.value", None, f"No value specified for static field: {inserted['static'][0]}")
        self._setup(inserted, values["static.value"], defaults=values["replace.null.with.default"])
        if values["field.syntax.version"].upper() == "V2":
            self._nested = self._levels()

    def _setup(self, inserted: Insertions, text: str | None, *, defaults: bool) -> None:
        self._insertions, self._text, self.fills_defaults = inserted, text, defaults
        self.changed_schema = by_identity(self._changed_schema)  # type: ignore[method-assign,assignment]

    def _levels(self) -> Nested:
        levels: dict[tuple[str, ...], Insertions] = {}
        for what, (name, optional) in self._insertions.items():
            *path, last = parse_path(name, "V2")
            levels.setdefault(tuple(path), {})[what] = (last, optional)
        found = []
        for where, inserted in levels.items():
            level = type(self)()
            level._setup(inserted, self._text, defaults=self.fills_defaults)  # noqa: SLF001 - an instance of this class
            found.append((where, level))
        return Nested(found)

    def _changed_schema(self, schema: Schema) -> Schema:
        added = [
            Field(name, _INSERTED[what][1].as_optional() if optional else _INSERTED[what][1])
            for what, (name, optional) in self._insertions.items()
        ]
        return basics(schema, ConnectType.STRUCT, [*schema.fields, *added])

    @override
    def _order(self, names: list[str]) -> list[str]:
        return copied(names, *(name for name, _ in self._insertions.values()))

    @override
    def apart(self, array: pa.Array, field: pa.Field) -> list[Order]:
        found = super().apart(array, field)
        if self._nested is None and has_maps(array, field):
            unsure = [name for what, (name, _) in self._insertions.items() if what in _UNSURE]
            for gone in chain.from_iterable(combinations(unsure, count) for count in range(1, len(unsure) + 1)):
                found += others(array, field, partial(self._order_without, gone))
        return found

    def _order_without(self, gone: Sequence[str], names: list[str]) -> list[str]:
        return copied(names, *(name for name, _ in self._insertions.values() if name not in gone))

    @override
    def _row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if schema is None:
            fields = require_map(value, self.purpose)
            values = self._values(record)
            added = {name: one.millis if isinstance(one, Moment) else one for name, one in values.items()}
            both = {**fields, **added}
            return None, {name: both[name] for name in copied(list(fields), *added)}
        old = require_struct(value, self.purpose)
        new = self.changed_schema(schema)
        struct = Struct(new)
        for field in schema.fields:
            struct.put(field.name, old.get(field.name, defaults=self.fills_defaults))
        for name, one in self._values(record).items():
            struct.put(name, one)
        return new, struct

    def _values(self, record: Record) -> dict[str, Any]:
        value_by_name: dict[str, Any] = {}
        for what, (name, _) in self._insertions.items():
            if what == "offset" and not record.is_sink:
                raise _no_source(self.purpose)
            if what == "static":
                value_by_name[name] = self._text
                continue
            one = getattr(record, what)
            if one is None or (what == "timestamp" and one < 0):
                continue  # it replaces nothing, not even what another option has put into the same field
            value_by_name[name] = np.int32(one) if what == "partition" else Moment(one) if what == "timestamp" else one
        return value_by_name

    @override
    def _change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        columns = self._columns(array, field)
        if columns.schema is not None:
            columns.check_nulls()
        names, added, lacking = list(columns.children), [], []
        for what, (name, optional) in self._insertions.items():
            column = self._column(what, batch)
            if columns.schema is None and column is None:
                continue
            value = pa.nulls(len(batch), _INSERTED[what][0]) if column is None else column
            if columns.schema is None:
                if value.null_count and name in columns.children:
                    raise NotInColumnsError  # records without this content remain unchanged
                value = value.cast(pa.int64()) if what == "timestamp" else value
            elif value.null_count and not optional:
                raise NotInColumnsError
            columns.put(name, value, {ABSENT_KEY: ABSENT_NULL} if columns.schema is None and value.null_count else None)
            added.append(name)
            lacking += [name] if value.null_count else []
        if columns.schema is None:
            order = copied(names, *added)
            for gone in chain.from_iterable(combinations(lacking, count) for count in range(len(lacking) + 1)):
                if not keeps(order, copied(names, *(name for name in added if name not in gone))):
                    raise NotInColumnsError  # maps without this content have another order
            return columns.build(order, None)
        changed = self.changed_schema(columns.schema)
        return columns.build([f.name for f in changed.fields], changed)

    def _column(self, what: str, batch: pa.RecordBatch) -> pa.Array | None:
        if what == "static":
            return _constant(self._text or "", len(batch))
        if what not in batch.schema.names:
            if what == "offset":
                raise _no_source(self.purpose)
            return None
        column = batch.column(what)
        if what == "topic":
            return column.cast(pa.string())
        if what == "timestamp":
            known = pc.if_else(pc.greater_equal(column, 0), column, pa.scalar(None, pa.int64()))
            column = known.cast(_INSERTED[what][0])
        return None if column.null_count == len(column) else column


def _constant(text: str, length: int) -> pa.Array:
    written = text.encode()
    data = np.frombuffer(written * length, np.uint8)
    return string_array(data, (np.arange(length + 1) * len(written)).astype(np.int32))


InsertFieldKey = for_key(InsertField)
