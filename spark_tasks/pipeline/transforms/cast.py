"""Cast."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import Check, ConfigDef, ConfigKey, Importance, invalid
from spark_tasks.config.definition import Type as ConfigType
from spark_tasks.data.columns import is_json
from spark_tasks.data.schema import Field, Schema, Type
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.java.hash import copied, hash_order
from spark_tasks.pipeline.converters.base import schema_of
from spark_tasks.pipeline.converters.java_columns import typed
from spark_tasks.pipeline.converters.java_values import (
    JavaError,
    Struct,
    by_identity,
    class_name,
    default_of,
    require_map,
    require_struct,
    schema_type,
)
from spark_tasks.pipeline.converters.json_write import JsonWriter
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, Record
from spark_tasks.pipeline.transforms.field_path import SYNTAX, parse_path
from spark_tasks.pipeline.transforms.field_transform import (
    REPLACE_NULLS,
    Changed,
    Columns,
    Nested,
    NestingTransform,
    Part,
    basics,
    described,
    fields_of,
    for_key,
)
from spark_tasks.pipeline.transforms.java_casts import cast, cast_column, logical_number

_OUTPUT = ("INT8", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "BOOLEAN", "STRING")
_INPUT = frozenset({*(Type[name] for name in _OUTPUT), Type.BYTES})
_ENUM = "org.apache.kafka.connect.data.Schema.Type"
Spec = dict[str | None, Type]  # None: the whole value


def _spec(mappings: Sequence[str]) -> Spec:
    type_by_field: Spec = {}
    for mapping in mappings:
        parts = mapping.split(":")
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        if len(parts) > 2:
            raise invalid("renames", mappings, f"Invalid rename mapping: {mapping}")
        field, wanted = (None, parts[0]) if len(parts) == 1 else (parts[0].strip(), parts[1])
        try:
            kind = Type[wanted.strip().upper()]
        except KeyError:
            java = f"java.lang.IllegalArgumentException: No enum constant {_ENUM}.{wanted.strip().upper()}"
            raise invalid(f"Invalid type found in casting spec: {wanted.strip()}", java) from None
        if kind.name not in _OUTPUT:
            raise ConfigError(
                f"Cast transformation does not support casting to {kind.name}; supported types are {_shown(_OUTPUT)}"
            )
        type_by_field[field] = kind
    if None in type_by_field and len(mappings) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in "
            "their spec"
        )
    return type_by_field


def _shown(names: Sequence[str]) -> str:
    return "[" + ", ".join(names) + "]"


def _check_spec(name: str, value: Any) -> None:  # noqa: ARG001 - a Check
    if not value:
        raise ConfigError("Must specify at least one field to cast.")
    _spec(value)


class Cast(NestingTransform):
    """Casts fields, or the whole key or value, to another primitive type."""

    purpose = "cast types"
    config_def = ConfigDef(
        ConfigKey("spec", ConfigType.LIST, importance=Importance.HIGH,
                  validator=Check(_check_spec, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"),
                  doc="Pairs of the form field:type, or one type for the whole key or value."),
        REPLACE_NULLS, SYNTAX,
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        self._setup(_spec(values["spec"]), defaults=values["replace.null.with.default"])
        self._whole = self._spec.get(None)
        if self._whole is None and values["field.syntax.version"].upper() == "V2":
            self._nested = self._levels()

    def _setup(self, spec: Spec, *, defaults: bool) -> None:
        self._spec, self.fills_defaults, self._whole = spec, defaults, None
        self._named = {name: spec[name] for name in hash_order(name for name in spec if name is not None)}
        self.changed_schema = by_identity(self._changed_schema)  # type: ignore[method-assign,assignment]

    def _levels(self) -> Nested:
        levels: dict[tuple[str, ...], Spec] = {}
        for name, kind in self._spec.items():
            *path, last = parse_path(str(name), "V2")
            levels.setdefault(tuple(path), {})[last] = kind
        levels_done = []
        for level_path, spec in levels.items():
            level = type(self)()
            level._setup(spec, defaults=self.fills_defaults)  # noqa: SLF001 - an instance of this class
            levels_done.append((level_path, level))
        return Nested(levels_done)

    @override
    def key_order(self, names: list[str]) -> list[str] | None:
        return None if self._whole else super().key_order(names)

    @override
    def _order(self, names: list[str]) -> list[str]:
        return copied(names, *self._named)

    @override
    def _row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if schema is None:
            if self._whole:
                return None, self._cast(None, value, self._whole)
            fields = require_map(value, self.purpose)
            changed = {name: self._cast(None, fields.get(name), kind) for name, kind in self._named.items()}
            both = {**fields, **changed}
            return None, {name: both[name] for name in self._order(list(fields))}
        new = self.changed_schema(schema)
        if self._whole:
            return new, self._cast(schema, value, self._whole)
        old, struct = require_struct(value, self.purpose), Struct(new)
        for field in schema.fields:
            one = old.get(field.name, defaults=self.fills_defaults)
            kind = self._spec.get(field.name)
            struct.put(field.name, one if kind is None else self._cast(field.schema, one, kind))
        return new, struct

    def _cast(self, schema: Schema | None, value: Any, target: Type) -> Any:
        if value is None:
            return None
        kind = schema_type(value) if schema is None else schema.type
        if kind is None:
            raise DataError(f"Cast transformation was passed a value of type class {class_name(value)} which is not "
                            "supported by Connect's data API")
        if kind not in _INPUT:
            raise DataError(f"Cast transformation does not support casting from {kind.name}; supported types are "
                            + _shown((*_OUTPUT, "BYTES")))
        return cast(value if target is Type.STRING else logical_number(schema, value), target)

    def _changed_schema(self, schema: Schema) -> Schema:
        if self._whole:
            return self._with_default(schema, basics(schema, self._whole), self._whole)
        fields = []
        for field in fields_of(schema):
            kind = self._spec.get(field.name)
            if kind is None:
                fields.append(field)
                continue
            fields.append(Field(field.name, self._with_default(field.schema, Schema(kind), kind)))
        return replace(basics(schema, Type.STRUCT, fields), optional=schema.optional)

    def _with_default(self, old: Schema, new: Schema, target: Type) -> Schema:
        default = self._cast(old, default_of(old), target)
        written = None
        if default is not None:
            if new.logical:  # the default no longer has the logical type
                raise JavaError("org.apache.kafka.connect.errors.SchemaBuilderException", "Invalid default value")
            array = typed([default], new)
            written = json.dumps(json.loads(JsonWriter().write(array, new)[0].as_py()), separators=(",", ":"),
                                 ensure_ascii=False)
        return replace(new, optional=old.optional, default=written)

    @override
    def _change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        schema = schema_of(field.metadata)
        if is_json(field.metadata):
            raise NotInColumnsError
        if self._whole:
            if pa.types.is_nested(array.type):
                raise NotInColumnsError
            return cast_column(array, schema, self._whole), described(schema and self.changed_schema(schema))
        columns = self._columns(array, field)
        columns.check_nulls()
        kinds = {f.name: f.schema for f in columns.schema.fields} if columns.schema else {}
        names = list(columns.children)
        for name, target in self._named.items():
            if name in columns.children:
                self._cast_child(columns, name, kinds.get(name), target)
            elif columns.schema is None:
                columns.put(name, pa.nulls(columns.length))  # Java adds the key with null
        if columns.schema is None:
            return columns.build(self._order(names), None)
        changed = self.changed_schema(columns.schema)
        return columns.build([f.name for f in changed.fields], changed)

    @staticmethod
    def _cast_child(columns: Columns, name: str, schema: Schema | None, target: Type) -> None:
        child, its = columns.member(name)
        if its:
            raise NotInColumnsError  # values of several types
        columns.put(name, cast_column(child, schema, target))


CastKey = for_key(Cast)
