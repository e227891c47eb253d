"""Converts Connect schemas to Avro schemas as Confluent's converter does, with the same members in the same order, so
that a registry that compares texts recognizes them.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import replace
from typing import Any

from spark_tasks.data.arrow_types import PRECISION
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.java.json import java_json
from spark_tasks.pipeline.converters.avro import names as n
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.tree import NAMED

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOGICAL = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_NULL = "null"

ANYTHING: dict[str, Any] = {
    "type": "record", "name": "Anything", "namespace": n.NAMESPACE, "fields": [
        *({"name": name, "type": [_NULL, name], "default": None}
          for name in ("boolean", "bytes", "double", "float", "int", "long", "string")),
        {"name": "array", "type": [_NULL, {"type": "array", "items": "Anything"}], "default": None},
        {"name": "map", "default": None, "type": [_NULL, {"type": "array", "items": {
            "type": "record", "name": n.MAP_ENTRY,
            "fields": [{"name": "key", "type": "Anything"}, {"name": "value", "type": "Anything"}],
        }}]},
    ],
}  # fmt: skip
"""The schema of schemaless values: a record in which one field, the value, is not null."""


def avro_text(schema: Schema | None, options: AvroOptions) -> str:
    """Returns the Avro schema as text. Raises DataError for a schema without equivalent in Avro."""
    if schema is None:
        return java_json(ANYTHING)
    return java_json(_Mapping(options).schema(schema), to_bytes=False)


class _Mapping:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._defined: dict[str, Any] = {}  # the schemas of named types that are already defined
        self._field_names: set[str] = set()  # the names of the schemas of fields
        self._unnamed = 0
        self._nameless: dict[Schema, str] = {}  # the names that records without a name get

    def schema(self, schema: Schema, *, plain: bool = False, space: str | None = None) -> Any:
        """Returns the Avro schema as JSON. `plain`: as if it were not optional. `space`: the enclosing namespace."""
        if n.is_union(schema):
            branches = [self.schema(field.schema, plain=True, space=space) for field in schema.fields]
            return [_NULL, *branches] if schema.optional else branches
        definition = self._one(schema, space)
        if plain or not schema.optional:
            return definition
        with_default = schema.default is not None and schema.type is not Type.STRUCT
        return [definition, _NULL] if with_default else [_NULL, definition]

    def _one(self, schema: Schema, space: str | None) -> Any:
        definition = self._bare(schema, space)
        if isinstance(definition, str):  # the name of a type that is already defined
            return definition
        self._annotate(definition, schema)
        return definition["type"] if set(definition) == {"type"} else definition

    def _bare(self, schema: Schema, space: str | None) -> Any:
        match schema.type:
            case Type.STRUCT:
                return self._struct(schema, space)
            case Type.ARRAY:
                return {"type": "array", "items": self.schema(_part(schema.value), space=space)}
            case Type.MAP:
                return self._map(schema, space)
            case Type.STRING if n.is_enum(schema) and (self._options.enhanced or self._options.sums):
                return self._enum(schema, space)
            case Type.BYTES if n.is_fixed(schema):
                named, full = self._named(schema.name, space)
                return self._once({"type": "fixed", **named, "size": _size(schema)}, full, schema, space)
        return {"type": n.AVRO_NAMES[schema.type]}

    def _once(self, definition: dict[str, Any], full: str, schema: Schema, space: str | None) -> Any:
        """Returns the definition of a named type for its first use, and its name for later uses."""
        if full not in self._defined:
            self._defined[full] = _core(schema)
            return definition
        if self._defined[full] != _core(schema):
            raise DataError(f"two different schemas have the name {full}: Avro allows one definition of a name")
        namespace, _, name = full.rpartition(".")
        return name if namespace in ("", space) else full

    def _named(self, full: str | None, space: str | None) -> tuple[dict[str, str], str]:
        """Returns the members name and namespace (without namespace if it is the enclosing one), and the full name."""
        if full is not None:
            namespace, name = self._options.split(full)
        else:
            self._unnamed += 1
            namespace, name = n.NAMESPACE, n.DEFAULT_NAME + (str(self._unnamed) if self._unnamed > 1 else "")
        for part in (*(namespace or "").split("."), name) if namespace else (name,):
            if not _NAME.fullmatch(part):
                raise DataError(f"{full} is not a valid name in Avro; scrub.invalid.names=true changes such names")
        definition = {"name": name}
        if namespace != space:
            definition["namespace"] = namespace or ""
        return definition, f"{namespace}.{name}" if namespace else name

    def _struct(self, schema: Schema, space: str | None) -> Any:
        alike = replace(schema, optional=False)
        known = self._nameless.get(alike) if schema.name is None else None
        named, full = self._named(known or schema.name, space)
        if schema.name is None:
            self._nameless[alike] = full
        parameters = dict(schema.parameters)
        doc = parameters.get(n.CONNECT_RECORD_DOC if self._options.discard else n.RECORD_DOC)
        described = {"doc": doc} if doc is not None else {}
        definition: dict[str, Any] = {"type": "record", **named, **described, "fields": []}
        once = self._once(definition, full, schema, space)
        if once is not definition:
            return once
        inner = full.rpartition(".")[0] or None
        for field in schema.fields:
            name = self._options.name(field.name)
            if not _NAME.fullmatch(name):
                raise DataError(f"{field.name} is not a valid field name in Avro; scrub.invalid.names=true changes it")
            field_doc = None if self._options.discard else parameters.get(n.FIELD_DOC + field.name)
            definition["fields"].append(self._field(name, field.schema, field_doc, inner))
        if len({field["name"] for field in definition["fields"]}) != len(definition["fields"]):
            raise DataError(f"two fields of {full} have the same name after scrub.invalid.names")
        return definition

    def _field(self, name: str, schema: Schema, doc: str | None, space: str | None) -> dict[str, Any]:
        seen = schema.name is not None and self._options.full_name(schema.name) in self._field_names
        if schema.name is not None:
            self._field_names.add(self._options.full_name(schema.name))
        kind = self.schema(schema, space=space)
        doc = schema.doc if self._options.discard else doc
        definition: dict[str, Any] = {"name": name, "type": kind, **({"doc": doc} if doc is not None else {})}
        if schema.default is not None:
            default = self._default_of(schema)
            if not _is_odd(default):
                definition["default"] = default
        elif schema.optional:
            definition["default"] = None
        parameters, kinds = self._parameters(schema), kind if isinstance(kind, list) else [kind]
        if self._options.metadata and seen and parameters and any(map(_is_named, kinds)):
            definition[n.CONNECT_PARAMETERS] = parameters
        return definition

    def _map(self, schema: Schema, space: str | None) -> dict[str, Any]:
        key, value = _part(schema.key), _part(schema.value)
        if key.type is Type.STRING and (not key.optional or self._options.optional_keys):
            return {"type": "map", "values": self.schema(value, space=space)}
        named, full = self._named(schema.name or f"{n.NAMESPACE}.{n.MAP_ENTRY}", space)
        inner = full.rpartition(".")[0] or None
        entry = {"type": "record", **named,
                 "fields": [self._field("key", key, None, inner), self._field("value", value, None, inner)]}
        if schema.name is not None:
            entry[n.INTERNAL_TYPE] = n.MAP_ENTRY
        return {"type": "array", "items": self._once(entry, full, schema, space)}

    def _enum(self, schema: Schema, space: str | None) -> Any:
        parameters, word = dict(schema.parameters), self._options.enum
        if word not in parameters:
            return {"type": "string"}
        named, full = self._named(parameters[word], space)
        symbols = [key.removeprefix(f"{word}.") for key in parameters if key.startswith(f"{word}.")]
        short = (schema.name or n.DEFAULT_NAME).rpartition(".")[2]
        doc = parameters.get(n.CONNECT_ENUM_DOC if self._options.discard else n.ENUM_DOC + short)
        definition: dict[str, Any] = {"type": "enum", **named, **({"doc": doc} if doc is not None else {}),
                                "symbols": symbols}
        default = None if self._options.discard else parameters.get(n.ENUM_DEFAULT + short)
        if default is not None:
            definition["default"] = default
        return self._once(definition, full, schema, space)

    def _annotate(self, definition: dict[str, Any], schema: Schema) -> None:
        """Adds the properties of Avro's logical types and the connect.* properties."""
        parameters = dict(schema.parameters)
        decimal = schema.name == DECIMAL and schema.type is Type.BYTES
        precision = int(parameters.get(PRECISION, n.DEFAULT_PRECISION))
        if decimal:
            definition["scale"], definition["precision"] = schema.scale, precision
        if self._options.metadata:
            self._add_metadata(definition, schema)
        if decimal:
            definition["logicalType"] = "decimal"
        elif schema.name in _LOGICAL:
            definition["logicalType"] = _LOGICAL[schema.name]
        definition.update({key: value for key, value in schema.parameters if key.startswith("avro")})

    def _add_metadata(self, definition: dict[str, Any], schema: Schema) -> None:
        if schema.doc is not None:
            definition[n.CONNECT_DOC] = schema.doc
        if schema.version is not None:
            definition[n.CONNECT_VERSION] = schema.version
        parameters = self._parameters(schema)
        if parameters:
            definition[n.CONNECT_PARAMETERS] = parameters
        flagged = not self._options.discard and n.FIELD_DEFAULT in dict(schema.parameters)
        if schema.default is not None and not flagged:
            default = self._default_of(schema)
            if not _is_odd(default):
                definition[n.CONNECT_DEFAULT] = default
        if schema.name is not None:
            definition[n.CONNECT_NAME] = schema.name
        if schema.type in (Type.INT8, Type.INT16):
            definition[n.CONNECT_TYPE] = schema.type.value

    def _parameters(self, schema: Schema) -> dict[str, str]:
        return {key: value for key, value in schema.parameters if self._options.discard or key != n.FIELD_DEFAULT}

    def _default_of(self, schema: Schema) -> Any:
        """Returns the default of a schema that has one, as a default in Avro. Raises DataError."""
        try:
            return self._default(schema, json.loads(schema.default or "null"))
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(f"the default {str(schema.default)[:100]} is not a value of the type {schema.type.value}: "
                            f"{error}") from error

    def _default(self, schema: Schema, value: Any) -> Any:
        """Converts a default from a payload of JsonConverter."""
        if value is None:
            return None
        match schema.type:
            case Type.BYTES:
                return base64.b64decode(value).decode("latin-1")
            case Type.FLOAT32 | Type.FLOAT64:
                return float(value)
            case Type.ARRAY:
                return [self._default(_part(schema.value), item) for item in value]
            case Type.MAP:
                return self._default_map(_part(schema.key), _part(schema.value), value)
            case Type.STRUCT:
                definition = {field.name: self._default(field.schema, value.get(field.name)) for field in schema.fields}
                if n.is_union(schema):
                    return next(iter(definition.values()), None)
                return {self._options.name(name): one for name, one in definition.items()}
            case _:
                return value

    def _default_map(self, key: Schema, part: Schema, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._default(part, one) for name, one in value.items()}
        return [[self._default(key, a), self._default(part, b)] for a, b in value]


_PRIMITIVES = frozenset(n.AVRO_NAMES.values()) | {_NULL}


def _is_named(definition: Any) -> bool:
    """Returns whether a type, or the name of one that is already defined, is a record, an enum or a fixed."""
    return definition not in _PRIMITIVES if isinstance(definition, str) else definition["type"] in NAMED


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("a schema has no element, key or value type")
    return schema


def _size(schema: Schema) -> int:
    return int(dict(schema.parameters)[n.FIXED_SIZE])


def _core(schema: Schema) -> tuple[Any, ...]:
    """Returns the parts of a schema that all uses of a named type must have in common."""
    words = (n.SUM_ENUM, n.ENUM, n.FIXED_SIZE)
    return schema.type, schema.fields, schema.key, schema.value, tuple(
        one for one in schema.parameters if one[0].startswith(words))


def _is_odd(default: Any) -> bool:
    """Returns whether a default is or contains a number that JSON does not have: NaN or an infinity."""
    if isinstance(default, list | dict):
        return any(map(_is_odd, default.values() if isinstance(default, dict) else default))
    return isinstance(default, float) and not math.isfinite(default)
