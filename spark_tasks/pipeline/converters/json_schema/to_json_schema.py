"""Converts Connect schemas to JSON Schemas as Confluent's converter does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from spark_tasks.data.schema import DECIMAL, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.java.json import java_json
from spark_tasks.pipeline.converters.json_schema import names as n
from spark_tasks.pipeline.converters.json_schema.names import JsonSchemaOptions

_NUMBERS = {
    Type.INT8: ("integer", "int8"), Type.INT16: ("integer", "int16"), Type.INT32: ("integer", "int32"),
    Type.INT64: ("integer", "int64"), Type.FLOAT32: ("number", "float32"), Type.FLOAT64: ("number", "float64"),
}  # fmt: skip
_NULL = {"type": "null"}


def json_schema_text(schema: Schema, options: JsonSchemaOptions) -> str:
    """Returns the JSON Schema as text. Raises DataError."""
    return java_json(_described(schema, options), to_bytes=False)


def _described(
    schema: Schema, options: JsonSchemaOptions, index: int | None = None, *, plain: bool = False
) -> dict[str, Any]:
    """Returns the JSON Schema. `index`: that of the field with this schema. `plain`: as if it were not optional."""
    at = {} if index is None else {n.CONNECT_INDEX: index}
    if n.is_union(schema):
        choices = [_described(replace(field.schema, optional=False), options, i, plain=True)
                   for i, field in enumerate(schema.fields)]
        return {"oneOf": [dict(_NULL), *choices] if schema.optional else choices, **at}
    definition: dict[str, Any] = {}
    if schema.name is not None:
        definition["title"] = schema.name
    if schema.doc is not None:
        definition["description"] = schema.doc
    if schema.default is not None:
        definition["default"] = json.loads(schema.default)
    definition |= _typed(schema, options)
    if schema.version is not None:
        definition[n.CONNECT_VERSION] = schema.version
    parameters = {key: value for key, value in schema.parameters if not key.startswith(n.NAMESPACE)}
    if parameters:
        definition[n.CONNECT_PARAMETERS] = parameters
    if schema.optional and not plain:
        return {"oneOf": [dict(_NULL), definition], **at}
    return {**definition, **at}


def _typed(schema: Schema, options: JsonSchemaOptions) -> dict[str, Any]:
    if schema.type in _NUMBERS:
        kind, connect = _NUMBERS[schema.type]
        return {"type": kind, n.CONNECT_TYPE: connect}
    match schema.type:
        case Type.BOOLEAN:
            return {"type": "boolean"}
        case Type.STRING:
            return _text(schema, options)
        case Type.BYTES:
            numeric = schema.name == DECIMAL and options.numeric
            return {"type": "number" if numeric else "string", n.CONNECT_TYPE: "bytes"}
        case Type.ARRAY:
            return {"type": "array", "items": _described(_part(schema.value), options)}
        case Type.MAP:
            return _map(schema, options)
        case _:
            return _struct(schema, options)


def _struct(schema: Schema, options: JsonSchemaOptions) -> dict[str, Any]:
    properties = {field.name: _described(field.schema, options, i) for i, field in enumerate(schema.fields)}
    found: dict[str, Any] = {"type": "object", "properties": properties}
    return found if options.additional else {**found, "additionalProperties": False}


def _text(schema: Schema, options: JsonSchemaOptions) -> dict[str, Any]:
    parameters, word = dict(schema.parameters), f"{options.enum}."
    if n.ENUM not in parameters and n.SUM_ENUM not in parameters:
        return {"type": "string"}
    symbols = [key.removeprefix(word) for key in parameters if key.startswith(word)]
    return {"enum": [None if symbol == n.NULL else symbol for symbol in symbols]}


def _map(schema: Schema, options: JsonSchemaOptions) -> dict[str, Any]:
    key, value = _part(schema.key), _part(schema.value)
    if n.has_text_keys(schema):
        return {"type": "object", "additionalProperties": _described(value, options), n.CONNECT_TYPE: "map"}
    entry = {"type": "object",
             "properties": {"key": _described(key, options, 0), "value": _described(value, options, 1)}}
    return {"type": "array", "items": entry, n.CONNECT_TYPE: "map"}


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("a schema has no element, key or value type")
    return schema
