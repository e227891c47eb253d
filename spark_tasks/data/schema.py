"""Connect schemas and their JSON form, which JsonConverter and the metadata of Arrow fields share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from spark_tasks.errors import DataError
from spark_tasks.java.json import java_json
from spark_tasks.limits import MAX_DEPTH, nests_deeper

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
MOMENT_NAMES = frozenset({DATE, TIME, TIMESTAMP})  # their values are java.util.Dates
LOGICAL_NAMES = MOMENT_NAMES | {DECIMAL}


class SchemaBuilderError(DataError):
    """Kafka Connect's SchemaBuilder refuses this."""

    java_class = "org.apache.kafka.connect.errors.SchemaBuilderException"


class Type(Enum):
    """Connect's types. The value of each is its name in JSON."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Schema:
    """A Connect schema. `default`: the default value as JSON, in the form of payloads."""

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: str | None = None
    fields: tuple[Field, ...] = ()  # STRUCT
    key: Schema | None = None  # MAP
    value: Schema | None = None  # MAP and ARRAY

    @property
    def logical(self) -> str | None:
        """The name of the schema's logical type if it is one of Kafka Connect's own, else None."""
        return self.name if self.name in LOGICAL_NAMES else None

    @property
    def scale(self) -> int:
        """The scale of a Decimal. Raises DataError if the schema does not have it."""
        text = dict(self.parameters).get("scale")
        if text is None:
            raise DataError("a Decimal schema must have the parameter 'scale'")
        try:
            return int(text)
        except ValueError:
            raise DataError(f"the parameter 'scale' of a Decimal schema must be an integer, not {text!r}") from None

    def as_optional(self) -> Schema:
        """Returns the same schema, but optional."""
        return self if self.optional else replace(self, optional=True)


BOOLEAN = Schema(Type.BOOLEAN)
STRING = Schema(Type.STRING)
BYTES = Schema(Type.BYTES)
OPTIONAL_STRING = Schema(Type.STRING, optional=True)
OPTIONAL_BYTES = Schema(Type.BYTES, optional=True)


def to_json(schema: Schema) -> dict[str, Any]:
    """Returns the schema as JsonConverter writes it: the same members in the same order."""
    out: dict[str, Any] = {"type": schema.type.value}
    if schema.type is Type.STRUCT:
        out["fields"] = [{**to_json(field.schema), "field": field.name} for field in schema.fields]
    elif schema.type is Type.MAP:
        out["keys"] = to_json(_part(schema.key, "key"))
        out["values"] = None if schema.value is None else to_json(schema.value)
    elif schema.type is Type.ARRAY:
        out["items"] = None if schema.value is None else to_json(schema.value)
    out["optional"] = schema.optional
    optional = (("name", schema.name), ("version", schema.version), ("doc", schema.doc))
    out.update({key: value for key, value in optional if value is not None})
    if schema.parameters:
        out["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        out["default"] = default_json(schema)
    return out


def default_json(schema: Schema) -> Any:
    """Returns the default of a schema that has one as JSON. A Decimal that is a number has all its digits."""
    return with_floats(json.loads(schema.default or "null", parse_float=exact), schema)


def exact(number: str) -> Decimal:
    """Parses a number of JSON with a fraction or an exponent so that it keeps its digits. (For json.loads.) Raises
    ValueError.
    """
    try:
        return Decimal(number)
    except InvalidOperation as error:
        raise ValueError(f"the exponent of {number[:100]} is too large") from error


def with_floats(default: Any, schema: Schema | None) -> Any:
    """Returns the default of a schema, whose numbers were parsed with `exact`, with floats where its values have them:
    everywhere except in Decimals.
    """
    match default:
        case Decimal():
            decimal = schema is not None and schema.name == DECIMAL and schema.type is Type.BYTES
            return default if decimal else float(default)
        case list() if schema is not None and schema.type is Type.MAP:  # of entries, in the form of either converter
            return [_entry(one, schema) for one in default]
        case list():
            return [with_floats(one, schema and schema.value) for one in default]
        case dict():
            parts = {field.name: field.schema for field in schema.fields} if schema is not None else {}
            return {name: with_floats(one, parts.get(name, schema and schema.value)) for name, one in default.items()}
        case _:
            return default


def _entry(entry: Any, schema: Schema) -> Any:
    parts = {"key": schema.key, "value": schema.value}
    if isinstance(entry, dict):
        return {name: with_floats(one, parts.get(name)) for name, one in entry.items()}
    if isinstance(entry, list) and len(entry) == len(parts):
        return [with_floats(one, part) for one, part in zip(entry, parts.values(), strict=True)]
    return with_floats(entry, None)


def _part(schema: Schema | None, what: str) -> Schema:
    if schema is None:
        raise DataError(f"the schema has no {what} type")
    return schema


@lru_cache(maxsize=1000)
def to_text(schema: Schema) -> str:
    """Returns the schema as compact JSON, for an envelope or for the metadata of a field."""
    return java_json(to_json(schema))


def _single(number: Any) -> Any:
    """Returns the double with the same shortest decimal text as the 32-bit float."""
    if not isinstance(number, float):
        return number
    with np.errstate(over="ignore"):  # a default that is too large is infinite, as in Java
        return float(str(np.float32(number)))


@lru_cache(maxsize=1000)
def from_text(text: str | bytes) -> Schema:
    """Parses a schema in JsonConverter's form. Raises DataError with JsonConverter's messages."""
    try:
        described = json.loads(text, parse_float=exact)
    except (ValueError, RecursionError) as error:
        raise DataError(f"a schema is not valid JSON: {error}") from error
    if nests_deeper(described):
        raise DataError(f"a schema is nested more than {MAX_DEPTH} levels deep")
    found = from_json(described)
    if found is None:
        raise DataError("a schema must not be null here")
    return found


def from_json(described: Any) -> Schema | None:
    """Converts a schema in JsonConverter's form as JsonConverter does: ignores unknown members, and most members of a
    wrong type. Raises DataError.
    """
    if described is None:
        return None
    if not isinstance(described, Mapping) or not isinstance(described.get("type"), str):
        raise DataError("Schema must contain 'type' field")
    try:
        kind = Type(described["type"])
    except ValueError:
        raise DataError(f"Unknown schema type: {described['type']}") from None
    version, default = described.get("version"), described.get("default")
    is_integer = isinstance(version, int) and not isinstance(version, bool)
    schema = Schema(
        kind,
        optional=described.get("optional") is True,
        name=_text(described.get("name")),
        version=version if is_integer else None,
        doc=_text(described.get("doc")),
        parameters=_parameters(described.get("parameters")),
        fields=_fields(described.get("fields")) if kind is Type.STRUCT else (),
        key=_inner(described, "keys", "Map schema did not specify the key type") if kind is Type.MAP else None,
        value=_value(kind, described),
    )
    if default is None:
        return schema
    default = with_floats(default, schema)
    return replace(schema, default=java_json(_single(default) if kind is Type.FLOAT32 else default))


def _value(kind: Type, described: Mapping[str, Any]) -> Schema | None:
    if kind is Type.MAP:
        return _inner(described, "values", "Map schema did not specify the value type")
    if kind is Type.ARRAY:
        return _inner(described, "items", "Array schema did not specify the element type")
    return None


def _inner(described: Mapping[str, Any], word: str, otherwise: str) -> Schema:
    found = from_json(described.get(word))
    if found is None:
        raise DataError(otherwise)
    return found


def _fields(described: Any) -> tuple[Field, ...]:
    if not isinstance(described, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields: dict[str, Field] = {}
    for one in described:
        name = one.get("field") if isinstance(one, Mapping) else None
        if not isinstance(name, str) or (schema := from_json(one)) is None:
            raise DataError("Struct schema's field name not specified properly")
        if not name:
            raise SchemaBuilderError("fieldName cannot be null.")
        if name in fields:
            raise SchemaBuilderError(f"Cannot create field because of field name duplication {name}")
        fields[name] = Field(name, schema)
    return tuple(fields.values())


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _parameters(described: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(described, Mapping):
        return ()
    if not all(isinstance(value, str) for value in described.values()):
        raise DataError("Schema parameters must have string values.")
    return tuple(described.items())
