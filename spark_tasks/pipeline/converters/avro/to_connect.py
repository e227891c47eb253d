"""Converts Avro schemas to Connect schemas as Confluent's converter does."""

from __future__ import annotations

import base64
import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_tasks.data.arrow_types import PRECISION
from spark_tasks.data.schema import DATE, DECIMAL, STRING, TIME, TIMESTAMP, Field, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.java.json import java_json
from spark_tasks.pipeline.converters.avro import names as n
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.tree import NO_DEFAULT, AvroField, Node

_logger = logging.getLogger(__name__)

_PLAIN = {
    "boolean": Type.BOOLEAN, "double": Type.FLOAT64, "float": Type.FLOAT32, "string": Type.STRING, "long": Type.INT64,
    "int": Type.INT32, "bytes": Type.BYTES, "fixed": Type.BYTES, "enum": Type.STRING,
}  # fmt: skip
_SMALL = {"int8": Type.INT8, "int16": Type.INT16}
_INT_NAMES = {"date": DATE, "time-millis": TIME}


def connect_schema(node: Node, options: AvroOptions, version: int | None = None) -> Schema:
    """Returns the Connect schema of the node. `version`: the version in the subject, for a schema without its own
    version. Raises DataError.
    """
    return _Mapping(options).schema(node, version=version)


def is_map_entry(node: Node) -> bool:
    """Returns whether an array of this type is a map whose keys are not strings."""
    named = node.name == f"{n.NAMESPACE}.{n.MAP_ENTRY}" or node.props.get(n.INTERNAL_TYPE) == n.MAP_ENTRY
    return node.kind == "record" and named


def union_member(node: Node, index: int, options: AvroOptions) -> str:
    """Returns the name of a branch's field in the struct of a union."""
    if options.sums:
        return f"connect_union_field_{index}"
    if node.name is not None:
        return node.name if options.enhanced else options.split(node.name.rpartition(".")[2])[1]
    return node.kind


class _Mapping:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._unions = 0

    def schema(
        self, node: Node, *, optional: bool = False, default: Any = NO_DEFAULT, doc: str | None = None,
        version: int | None = None,
    ) -> Schema:  # fmt: skip
        """Returns the Connect schema of a node. `default`, `doc`: those of the field with this type."""
        if node.kind == "union":
            only = node.inner[0] if len(node.inner) == 1 and self._options.flatten else node.optional_of
            if only is not None:
                return self.schema(only, optional=len(node.inner) == 2, doc=doc)
        schema = self._bare(node)
        parameters = dict(schema.parameters)
        schema = self._described(schema, node, doc, version, parameters)
        more = node.props.get(n.CONNECT_PARAMETERS)
        if self._options.metadata and more is not None:
            if not isinstance(more, Mapping) or not all(isinstance(value, str) for value in more.values()):
                raise DataError(f"Expected a JSON object of strings for schema parameters but found: {more}")
            parameters.update(more)
        parameters.update({key: _java_text(one) for key, one in node.props.items() if key.startswith("avro")})
        connect_default = node.props.get(n.CONNECT_DEFAULT)
        if default is NO_DEFAULT:
            default = NO_DEFAULT if connect_default is None else connect_default
        elif not self._options.discard and self._options.metadata and connect_default is None:
            parameters[n.FIELD_DEFAULT] = "true"
        schema = replace(schema, parameters=tuple(parameters.items()), name=self._name(schema, node))
        return replace(schema, default=self._default(schema, node, default), optional=optional or schema.optional)

    def _bare(self, node: Node) -> Schema:
        """Returns a schema with the type, its logical name and parameters, and its inner schemas."""
        kind = node.kind
        if kind in ("bytes", "fixed"):
            return _bytes(node)
        if kind == "int":
            return _int(node)
        if kind == "long" and (node.logical or "").lower() == "timestamp-millis":
            return Schema(Type.INT64, name=TIMESTAMP, version=1)
        if kind in ("enum", "array", "map", "record", "union"):
            schema: Schema = getattr(self, f"_{kind}")(node)
            return schema
        if kind in _PLAIN:
            return Schema(_PLAIN[kind])
        raise DataError("Standalone null schemas are not supported by this converter")

    def _map(self, node: Node) -> Schema:
        return Schema(Type.MAP, key=STRING, value=self.schema(node.inner[0]))

    def _array(self, node: Node) -> Schema:
        items = node.inner[0]
        if not is_map_entry(items):
            return Schema(Type.ARRAY, value=self.schema(items))
        members = {member.name: member.node for member in items.members}
        if set(members) != {"key", "value"}:
            raise DataError("Found map encoded as array of key-value pairs, but array elements do not match the "
                            "expected format.")
        return Schema(Type.MAP, key=self.schema(members["key"]), value=self.schema(members["value"]))

    def _record(self, node: Node) -> Schema:
        keeps = self._options.metadata and not self._options.discard
        parameters = {n.RECORD_DOC: node.doc} if keeps and node.doc is not None else {}
        fields = []
        for member in node.members:
            if keeps and member.doc is not None:
                parameters[n.FIELD_DOC + member.name] = member.doc
            inner = self.schema(member.node, default=member.default, doc=member.doc)
            fields.append(Field(member.name, self._with_parameters(inner, member)))
        return Schema(Type.STRUCT, parameters=tuple(parameters.items()), fields=tuple(fields))

    def _with_parameters(self, schema: Schema, member: AvroField) -> Schema:
        """Returns the schema with a field's parameters, which may differ from those of the field's named type."""
        more = member.props.get(n.CONNECT_PARAMETERS)
        if not self._options.metadata or not isinstance(more, Mapping):
            return schema
        merged = {**dict(schema.parameters), **{key: _java_text(value) for key, value in more.items()}}
        return replace(schema, parameters=tuple(merged.items()))

    def _enum(self, node: Node) -> Schema:
        parameters, short = {}, (node.name or "").rpartition(".")[2]
        if self._options.metadata:
            if node.doc is not None:
                parameters[n.CONNECT_ENUM_DOC if self._options.discard else n.ENUM_DOC + short] = node.doc
            if not self._options.discard and node.default_symbol is not None:
                parameters[n.ENUM_DEFAULT + short] = node.default_symbol
        word = self._options.enum
        parameters[word] = node.name or ""
        for index, symbol in enumerate(node.symbols):
            parameters[f"{word}.{symbol}"] = str(index) if self._options.sums else symbol
        return Schema(Type.STRING, parameters=tuple(parameters.items()))

    def _union(self, node: Node) -> Schema:
        name = n.UNION
        if self._options.sums:
            name, self._unions = f"connect_union_{self._unions}", self._unions + 1
        fields = []
        for index, branch in enumerate(node.inner):
            if branch.kind != "null":
                fields.append(Field(union_member(branch, index, self._options), self.schema(branch, optional=True)))
        if len({field.name for field in fields}) != len(fields):
            raise DataError("Multiple union schemas map to the Connect union field name")
        parameters = ((n.SUM_UNION, name),) if self._options.sums else ()
        optional = len(fields) < len(node.inner)
        return Schema(Type.STRUCT, optional=optional, name=name, parameters=parameters, fields=tuple(fields))

    def _described(
        self, schema: Schema, node: Node, doc: str | None, version: int | None, parameters: dict[str, str]
    ) -> Schema:
        connect_doc = node.props.get(n.CONNECT_DOC)
        connect_doc = connect_doc if isinstance(connect_doc, str) else None
        if self._options.discard:
            schema_doc = doc if doc is not None else node.doc if node.doc is not None else connect_doc
            if self._options.metadata and node.doc is not None:
                parameters[n.CONNECT_RECORD_DOC] = node.doc
        else:
            schema_doc = connect_doc if self._options.metadata else None
        number = node.props.get(n.CONNECT_VERSION)
        if number is not None and (not isinstance(number, int | float) or isinstance(number, bool)):
            raise DataError(f"Invalid Connect version found: {number}")
        if number is not None and schema.version is not None and int(number) != schema.version:
            raise DataError(f"Mismatched versions: the schema has version {schema.version}, but {n.CONNECT_VERSION} is "
                            f"{int(number)}")
        chosen = schema.version if schema.version is not None else int(number) if number is not None else version
        return replace(schema, doc=schema_doc, version=chosen)

    def _name(self, schema: Schema, node: Node) -> str | None:
        connect_name = node.props.get(n.CONNECT_NAME)
        if connect_name is not None and not isinstance(connect_name, str):
            raise DataError(f"Invalid schema name: {connect_name}")
        name = connect_name
        if name is None and not (node.kind == "fixed" and schema.name == DECIMAL):
            name = node.name
        if name is None or name.startswith(n.DEFAULT_FULL_NAME):
            return schema.name
        if schema.name is not None and schema.name != name:
            raise DataError(f"Mismatched names: the schema of a {schema.name} has the name {name}")
        return name

    def _default(self, schema: Schema, node: Node, default: Any) -> str | None:
        """Returns a default as in Schema.default, or None if it is not of the type."""
        if default is NO_DEFAULT or default is None:
            return None
        try:
            value = self._default_value(schema, node, default)
        except (TypeError, ValueError, KeyError, DataError) as error:
            _logger.warning("Ignoring an invalid default of the Avro schema %s: %s", node.name or node.kind, error)
            return None
        return None if value is None else java_json(value)

    def _default_value(self, schema: Schema, node: Node, value: Any) -> Any:
        """Converts a default from Avro to a payload of JsonConverter."""
        inner = node.optional_of
        if inner is not None or (node.kind == "union" and len(node.inner) == 1):
            return None if value is None else self._default_value(schema, inner or node.inner[0], value)
        if node.kind in ("bytes", "fixed"):
            return base64.b64encode(_required(value, str).encode("latin-1")).decode()
        if node.kind == "array":
            return self._default_items(schema, node.inner[0], _required(value, list))
        if node.kind == "map":
            part = _required(schema.value, Schema)
            items = _required(value, dict).items()
            return {key: self._default_value(part, node.inner[0], one) for key, one in items}
        if node.kind == "record":
            return self._default_record(schema, node, _required(value, dict))
        if node.kind == "union":
            if not node.inner or node.inner[0].kind == "null":
                return None
            first = schema.fields[0]
            return {first.name: self._default_value(first.schema, node.inner[0], value)}
        return _plain_default(node.kind, value)

    def _default_items(self, schema: Schema, node: Node, items: list[Any]) -> list[Any]:
        part = _required(schema.value, Schema)
        if schema.type is Type.MAP:
            members = {member.name: member.node for member in node.members}
            pairs = [item if isinstance(item, list) else [item["key"], item["value"]] for item in items]
            key = _required(schema.key, Schema)
            return [[self._default_value(key, members["key"], a), self._default_value(part, members["value"], b)]
                    for a, b in pairs]
        return [self._default_value(part, node, item) for item in items]

    def _default_record(self, schema: Schema, node: Node, default: dict[str, Any]) -> dict[str, Any]:
        fields = {field.name: field.schema for field in schema.fields}
        out = {}
        for member in node.members:
            value = default.get(member.name, None if member.default is NO_DEFAULT else member.default)
            out[member.name] = None if value is None else self._default_value(fields[member.name], member.node, value)
        return out


def _bytes(node: Node) -> Schema:
    parameters = {}
    decimal = (node.logical or "").lower() == "decimal"
    if decimal:
        scale, precision = node.props.get("scale"), node.props.get("precision")
        parameters["scale"] = str(int(scale)) if isinstance(scale, int | float) else "0"
        if precision is not None:
            if not isinstance(precision, int | float):
                raise DataError("the precision of an Avro decimal must be an integer")
            if int(precision) != n.DEFAULT_PRECISION:
                parameters[PRECISION] = str(int(precision))
    if node.kind == "fixed":
        parameters[n.FIXED_SIZE] = str(node.size)
    pairs = tuple(parameters.items())
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=pairs) if decimal else Schema(
        Type.BYTES, parameters=pairs)  # fmt: skip


def _int(node: Node) -> Schema:
    if node.logical is not None:
        name = _INT_NAMES.get(node.logical.lower())
        return Schema(Type.INT32, name=name, version=1 if name else None)
    kind = node.props.get(n.CONNECT_TYPE)
    if kind is None:
        return Schema(Type.INT32)
    if not isinstance(kind, str) or kind not in _SMALL:
        raise DataError(f"Connect type annotation for Avro int field is {kind}")
    return Schema(_SMALL[kind])


def _required(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"a default of {kind.__name__} cannot be {str(value)[:100]}")
    return value


_PYTHON: Mapping[str, Any] = {
    "boolean": bool, "int": int, "long": int, "float": (int, float), "double": (int, float), "string": str, "enum": str
}


def _plain_default(kind: str, value: Any) -> Any:
    if not isinstance(value, _PYTHON[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise TypeError(f"{str(value)[:100]} is not a valid {kind}")
    if kind not in ("float", "double"):
        return value
    if not math.isfinite(value):  # Java cannot read a schema with NaN, and a default cannot hold an infinity
        raise ValueError(f"{value} is not a number of JSON")
    return float(value)


def _java_text(value: Any) -> str:
    """Returns what Java's toString() returns for a JSON value."""
    if value is None or isinstance(value, bool):
        return java_json(value)
    return str(value)
