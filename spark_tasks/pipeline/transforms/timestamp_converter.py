"""TimestampConverter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, OneOf
from spark_tasks.config.definition import Type as ConfigType
from spark_tasks.data.columns import is_json, metadata_of
from spark_tasks.data.schema import DATE, TIME, TIMESTAMP, Field, Schema, Type
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.java.hash import copied
from spark_tasks.java.simple_date_format import format_millis, parse_millis, pieces
from spark_tasks.pipeline.converters.base import schema_of
from spark_tasks.pipeline.converters.java_values import (
    JavaError,
    Moment,
    Struct,
    by_identity,
    class_name,
    require_map,
    require_struct,
)
from spark_tasks.pipeline.transforms import moment_columns
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, Record
from spark_tasks.pipeline.transforms.field_path import SYNTAX, parse_path
from spark_tasks.pipeline.transforms.field_transform import (
    REPLACE_NULLS,
    Changed,
    Nested,
    NestingTransform,
    Part,
    basics,
    described,
    fields_of,
    for_key,
)

_DAY = 86_400_000
_LONG = 2**63
PRECISIONS = {"seconds": (1000, 1), "milliseconds": (1, 1), "microseconds": (1, 1000), "nanoseconds": (1, 1_000_000)}
_TARGETS: dict[str, Schema] = {
    "string": Schema(Type.STRING), "unix": Schema(Type.INT64), "Date": Schema(Type.INT32, name=DATE, version=1),
    "Time": Schema(Type.INT32, name=TIME, version=1), "Timestamp": Schema(Type.INT64, name=TIMESTAMP, version=1),
}  # fmt: skip
_LOGICAL = {DATE: "Date", TIME: "Time", TIMESTAMP: "Timestamp"}


def _saturated(number: int) -> int:
    return max(min(number, _LONG - 1), -_LONG)


def _divided(number: int, by: int) -> int:
    """Returns the quotient, rounded toward zero as in Java."""
    return number // by if number >= 0 else -(-number // by)


class TimestampConverter(NestingTransform):
    """Converts a field, or the whole key or value, between texts, numbers since the epoch and logical types."""

    purpose = "converting timestamp formats"
    skips_nulls = False
    config_def = ConfigDef(
        ConfigKey("field", ConfigType.STRING, default="", importance=Importance.HIGH,
                  doc="The field; empty for the whole key or value."),
        ConfigKey("target.type", ConfigType.STRING, importance=Importance.HIGH,
                  validator=OneOf("string", "unix", "Date", "Time", "Timestamp"), doc="The type to convert to."),
        ConfigKey("format", ConfigType.STRING, default="",
                  doc="The pattern of strings, as for Java's SimpleDateFormat."),
        ConfigKey("unix.precision", ConfigType.STRING, default="milliseconds", importance=Importance.LOW,
                  validator=OneOf("nanoseconds", "microseconds", "milliseconds", "seconds"),
                  doc="The unit of numbers since the epoch."),
        REPLACE_NULLS, SYNTAX,
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        self._field, self._target, self._format = values["field"], values["target.type"], values["format"]
        self._up, self._down = PRECISIONS[values["unix.precision"]]
        self.fills_defaults = values["replace.null.with.default"]
        self.changed_schema = by_identity(self._changed_schema)  # type: ignore[method-assign,assignment]
        if self._target == "string" and not self._format.strip():
            raise ConfigError("TimestampConverter requires format option to be specified when using string timestamps")
        try:
            pieces(self._format)
        except ValueError as error:
            raise ConfigError("TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps:"
                              f" {self._format}") from error
        if self._field and values["field.syntax.version"].upper() == "V2":
            *path, last = parse_path(self._field, "V2")
            if path:
                level = type(self)()
                level.configure({**configs, "field": last, "field.syntax.version": "V1"})
                self._nested = Nested([(tuple(path), level)])
            self._field = last

    @override
    def key_order(self, names: list[str]) -> list[str] | None:
        return super().key_order(names) if self._field else None

    @override
    def _order(self, names: list[str]) -> list[str]:
        return copied(names, self._field)

    @override
    def _row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if schema is None:
            if value is None or not self._field:
                return None, self._converted(value, None)
            fields = require_map(value, self.purpose)
            both = {**fields, self._field: self._converted(fields.get(self._field), None)}
            return None, {name: both[name] for name in self._order(list(fields))}
        if not self._field:
            kind = _type_of(schema)
            return self.changed_schema(schema), self._converted(value, kind)
        if value is not None:
            require_struct(value, self.purpose)
        new = self.changed_schema(schema)
        if value is None:
            return new, None
        struct = Struct(new)
        for field in schema.fields:
            one = value.get(field.name, defaults=self.fills_defaults)
            if field.name == self._field:
                one = self._converted(one, _type_of(field.schema))
            struct.put(field.name, one)
        return new, struct

    def _changed_schema(self, schema: Schema) -> Schema:
        target = _TARGETS[self._target]
        if not self._field:
            return replace(target, optional=schema.optional)
        fields = [
            Field(f.name, replace(target, optional=f.schema.optional)) if f.name == self._field else f
            for f in fields_of(schema)
        ]
        return replace(basics(schema, Type.STRUCT, fields), optional=schema.optional)

    def _converted(self, value: Any, kind: str | None) -> Any:
        if value is None:
            return None
        return self._to(self._millis(value, kind or _inferred(value)))

    def _millis(self, value: Any, kind: str) -> int:
        if kind == "string":
            if not isinstance(value, str):
                raise DataError(f"Expected string timestamp to be a String, but found class {class_name(value)}")
            return self._parsed(value)
        if kind == "unix":
            if type(value) is not int:
                raise DataError(f"Expected Unix timestamp to be a Long, but found class {class_name(value)}")
            return _saturated(value * self._up) if self._down == 1 else _divided(value, self._down)
        if not isinstance(value, Moment):
            raise DataError(f"Expected {kind} to be a java.util.Date, but found class {class_name(value)}")
        return value.millis

    def _parsed(self, text: str) -> int:
        if not self._format.strip():
            raise JavaError(
                "java.lang.NullPointerException",
                'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format" is null',
            )
        try:
            return parse_millis(self._format, text)
        except ValueError:
            raise DataError(
                f"Could not parse timestamp: value ({text}) does not match pattern ({self._format})"
            ) from None

    def _to(self, millis: int) -> Any:
        match self._target:
            case "string":
                return format_millis(self._format, millis)
            case "unix":
                return _divided(millis, self._up) if self._down == 1 else _saturated(millis * self._down)
            case "Date":
                return Moment(max(millis - millis % _DAY, -_LONG))
            case "Time":
                return Moment(millis % _DAY)
            case _:
                return Moment(millis)

    @override
    def _change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        schema = schema_of(field.metadata)
        if not self._field and (schema is None or is_json(field.metadata)):
            raise NotInColumnsError
        if not self._field and schema is not None:
            return self._column(array, _type_of(schema)), described(self.changed_schema(schema))
        columns = self._columns(array, field)
        columns.check_nulls()
        if columns.schema is None:
            names, known = list(columns.children), self._field in columns.children
            child, its = columns.member(self._field) if known else (pa.nulls(columns.length), {})
            if its:
                raise NotInColumnsError
            if pa.types.is_null(child.type):  # Java adds the key with null
                columns.put(self._field, child)
                return columns.build(self._order(names), None)
            found = self._column(child, _inferred_of(child.type))
            if self._target in ("Date", "Time"):  # without a schema, a moment, like all of Java's dates
                millis = moment_columns.to_millis(found, self._target, self._format, (self._up, self._down))
                found = moment_columns.from_millis(millis, "Timestamp", self._format, (self._up, self._down))
            columns.put(self._field, found)
            return columns.build(self._order(names), None)
        changed = self.changed_schema(columns.schema)
        for one in columns.schema.fields:
            if one.name == self._field:
                child = columns.children[self._field]
                columns.put(one.name, self._column(child, _type_of(one.schema)),
                            metadata_of(columns.fields[one.name]) or None)  # fmt: skip
        return columns.build([f.name for f in changed.fields], changed)

    def _column(self, array: pa.Array, kind: str) -> pa.Array:
        millis = moment_columns.to_millis(array, kind, self._format, (self._up, self._down))
        return moment_columns.from_millis(millis, self._target, self._format, (self._up, self._down))


def _type_of(schema: Schema) -> str:
    logical = _LOGICAL.get(schema.name or "")
    if logical:
        return logical
    if schema.type in (Type.STRING, Type.INT64):
        return "string" if schema.type is Type.STRING else "unix"
    named = f"{schema.name}:" if schema.name is not None else ""
    raise JavaError("org.apache.kafka.connect.errors.ConnectException",
                    f"Schema Schema{{{named}{schema.type.name}}} does not correspond to a known timestamp type format")


def _inferred(value: Any) -> str:
    if isinstance(value, Moment):
        return "Timestamp"
    if isinstance(value, str):
        return "string"
    if type(value) is int:
        return "unix"
    raise DataError(f"TimestampConverter does not support class {class_name(value)} objects as timestamps")


def _inferred_of(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "Timestamp"
    if pa.types.is_string(kind):
        return "string"
    if pa.types.is_int64(kind):
        return "unix"
    raise NotInColumnsError


TimestampConverterKey = for_key(TimestampConverter)
