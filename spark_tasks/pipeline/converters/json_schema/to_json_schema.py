"""Converts Connect schemas to JSON Schemas as Confluent's converter does, with the same members in the same order, so
that a registry that compares texts recognizes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from spark_tasks.data.schema import DECIMAL, Field, Schema, Type, default_json
from spark_tasks.errors import DataError
from spark_tasks.java.double import java_double
from spark_tasks.java.hash import capacity_for, copied, hash_order
from spark_tasks.java.json import java_json
from spark_tasks.pipeline.converters.json_defaults import with_numbers
from spark_tasks.pipeline.converters.json_schema import names as n
from spark_tasks.pipeline.converters.json_schema.names import JsonSchemaOptions

_NUMBERS = {
    Type.INT8: ("integer", "int8"), Type.INT16: ("integer", "int16"), Type.INT32: ("integer", "int32"),
    Type.INT64: ("integer", "int64"), Type.FLOAT32: ("number", "float32"), Type.FLOAT64: ("number", "float64"),
}  # fmt: skip
_NULL = {"type": "null"}


def json_schema_text(schema: Schema, options: JsonSchemaOptions) -> str:
    """Returns the JSON Schema as text. Raises DataError."""
    return java_json(_described(with_numbers(schema) if options.numeric else schema, options), to_bytes=False)


def _described(
    schema: Schema, options: JsonSchemaOptions, index: int | None = None, *, plain: bool = False
) -> dict[str, Any]:
    """Returns the JSON Schema. `index`: that of the field with this schema. `plain`: as if it were not optional."""
    at = {} if index is None else {n.CONNECT_INDEX: index}
    if n.is_union(schema):
        choices = [_described(replace(field.schema, optional=False), options, i, plain=True)
                   for i, field in enumerate(schema.fields)]
        choices = [dict(_NULL), *choices] if schema.optional else choices
        return {**at, "oneOf": choices}
    if schema.optional and not plain:
        return {**at, "oneOf": [dict(_NULL), _described(schema, options, plain=True)]}
    definition, connect, parts = _typed(schema, options)
    if schema.name is not None:
        definition["title"] = schema.name
    if schema.doc is not None:
        definition["description"] = schema.doc
    if schema.default is not None:
        definition["default"] = _default(default_json(schema))
    more: dict[str, Any] = {} if connect is None else {n.CONNECT_TYPE: connect}
    if schema.version is not None:
        more[n.CONNECT_VERSION] = schema.version
    parameters = {key: value for key, value in schema.parameters if not key.startswith(n.NAMESPACE)}
    if parameters:
        order = hash_order(hash_order(parameters), capacity_for(len(parameters)))
        more[n.CONNECT_PARAMETERS] = {key: parameters[key] for key in order}
    more |= at
    return definition | {key: more[key] for key in copied(hash_order(more))} | parts


def _typed(schema: Schema, options: JsonSchemaOptions) -> tuple[dict[str, Any], str | None, dict[str, Any]]:
    """Returns the members that come first, Connect's type (None: it follows from the type in JSON), and the members
    that come last.
    """
    if schema.type in _NUMBERS:
        kind, connect = _NUMBERS[schema.type]
        return {"type": kind}, connect, {}
    match schema.type:
        case Type.BOOLEAN:
            return {}, None, {"type": "boolean"}
        case Type.STRING:
            symbols = _symbols(schema, options)
            return {"type": "string"} if symbols is None else {"enum": symbols}, None, {}
        case Type.BYTES:
            numeric = schema.name == DECIMAL and options.numeric
            return {"type": "number" if numeric else "string"}, "bytes", {}
        case Type.ARRAY:
            return {"type": "array"}, None, {"items": _described(_part(schema.value), options)}
        case Type.MAP if n.has_text_keys(schema):
            return {"type": "object"}, "map", {"additionalProperties": _described(_part(schema.value), options)}
        case Type.MAP:
            fields = (Field("key", _part(schema.key)), Field("value", _part(schema.value)))
            return {"type": "array"}, "map", {"items": {"type": "object", **_properties(fields, options)}}
        case _:
            closed = {} if options.additional else {"additionalProperties": False}
            return {"type": "object", **closed}, None, _properties(schema.fields, options)


def _properties(fields: Sequence[Field], options: JsonSchemaOptions) -> dict[str, Any]:
    properties = {field.name: _described(field.schema, options, i) for i, field in enumerate(fields)}
    return {"properties": {name: properties[name] for name in hash_order(properties)}} if properties else {}


def _symbols(schema: Schema, options: JsonSchemaOptions) -> list[str | None] | None:
    """Returns the symbols of an enum, or None for another text."""
    parameters, word = dict(schema.parameters), f"{options.enum}."
    if n.ENUM not in parameters and n.SUM_ENUM not in parameters:
        return None
    null = "\0"  # its hash is that of null
    ordered = hash_order(null if key == word + n.NULL else key.removeprefix(word)
                         for key in parameters if key.startswith(word))
    return [None if symbol == null else symbol for symbol in ordered]


def _default(value: Any) -> Any:
    """Returns a default as Java writes it: first with org.json, which ends numbers with their last digit, then with
    Jackson.
    """
    match value:
        case dict():
            return {key: _default(value[key]) for key in hash_order(value)}
        case list():
            return [_default(item) for item in value]
        case float() | Decimal() if math.isfinite(value):
            text = java_double(value) if isinstance(value, float) else str(value)
            shortened = text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text
            return Decimal(shortened) if value else 0
        case _:
            return value


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("a schema has no element, key or value type")
    return schema
