"""Converts JSON Schemas to Connect schemas as Confluent's converter does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_tasks.data.schema import STRING, Field, Schema, Type, with_floats
from spark_tasks.errors import DataError
from spark_tasks.java.json import java_json
from spark_tasks.limits import MAX_DEPTH, nests_deeper
from spark_tasks.pipeline.converters.json_schema import names as n
from spark_tasks.pipeline.converters.json_schema.documents import Documents, Scope, parse
from spark_tasks.pipeline.converters.json_schema.names import JsonSchemaOptions
from spark_tasks.registry.errors import recursive

_CONNECT = {
    "int8": Type.INT8, "int16": Type.INT16, "int32": Type.INT32, "int64": Type.INT64, "float32": Type.FLOAT32,
    "float64": Type.FLOAT64, "bytes": Type.BYTES,
}  # fmt: skip
_MAX_SCHEMAS = 20_000
_CHOICES = ("oneOf", "anyOf")
_NOTES = frozenset({"title", "description", "default"})
_DEMANDS = frozenset({"type", "properties", "items", "enum", "const", "required", "additionalProperties"})


def connect_schema(
    text: str, references: Mapping[str, str], options: JsonSchemaOptions, version: int | None = None
) -> Schema:
    """Returns the Connect schema. `references`: the texts of other schemas by their names in the registry. `version`:
    the schema's version in its subject. Raises DataError for an invalid or recursive schema, or one without a type.
    """
    root = parse(text)
    documents = Documents(root, {name: parse(one) for name, one in references.items()})
    return _Mapping(documents, options).schema(root, documents.root, version=version)


class _Mapping:
    def __init__(self, documents: Documents, options: JsonSchemaOptions) -> None:
        self._documents = documents
        self._options = options
        self._within: list[int] = []  # the id() of the enclosing schemas that were reached by $ref or allOf
        self._scope_of: dict[int, Scope] = {}  # by the id() of a part of a schema that is merged into another one
        self._path: list[str] = []  # of the fields around the definition
        self._unions = self._count = self._depth = 0

    def schema(self, definition: Any, scope: Scope, *, version: int | None = None, optional: bool = False) -> Schema:
        """Returns the Connect schema of a definition. `scope`: that of the definition around it."""
        self._counted()
        self._depth += 1
        try:
            scope = self._documents.within(definition, self._scope_of.get(id(definition), scope))
            return self._schema(definition, scope, version, optional)
        finally:
            self._depth -= 1

    def _counted(self) -> None:
        """Limits the work: allOf can use a schema twice that does so itself, and so on."""
        self._count += 1
        if self._count > _MAX_SCHEMAS or self._depth > MAX_DEPTH:
            raise DataError(f"a JSON schema has more than {_MAX_SCHEMAS} schemas, or is nested more than {MAX_DEPTH} "
                            "levels deep, for example because it contains itself")

    def _schema(self, definition: Any, scope: Scope, version: int | None, optional: bool) -> Schema:
        if not isinstance(definition, Mapping) or not definition:
            raise DataError("a JSON schema allows values of any type, which Arrow does not support")
        if isinstance(definition.get("$ref"), str):
            return self._referred(definition["$ref"], scope, version, optional)
        if isinstance(definition.get("allOf"), list) and not any(key in definition for key in _CHOICES):
            return self._all_of(definition, scope, version, optional)
        if definition.keys() & {"enum", "const"} and definition.get("type") in ("string", "integer", "number"):
            definition = _without_notes(definition)
        choices = _choices(definition)
        if choices is not None:
            kinds = [choice for choice in choices if not _is_null(choice)]
            if len(choices) == 1 and self._options.flatten:
                return self.schema(choices[0], scope)
            if len(choices) == 2 and len(kinds) == 1:
                return self.schema(kinds[0], scope, version=version, optional=True)
            schema = self._union(kinds, len(kinds) < len(choices), scope)
        else:
            schema = self._typed(definition, scope)
        return self._described(schema, definition, version, optional)

    def _all_of(self, definition: Mapping[str, Any], scope: Scope, version: int | None, optional: bool) -> Schema:
        """Returns the schema of what all schemas of allOf demand. As in Java, it is described only by one of them."""
        if self._options.flatten and len(definition["allOf"]) == 1 and not _without_notes(definition).keys() & _DEMANDS:
            return self.schema(definition["allOf"][0], scope, version=version, optional=optional)
        merged = self._merged(definition, scope)
        if _properties(merged):
            return replace(self._object(merged, scope, indexed=False), optional=optional)
        return self.schema(merged, scope, version=version, optional=optional)

    def _described(self, schema: Schema, definition: Mapping[str, Any], version: int | None, optional: bool) -> Schema:
        title, doc, number = definition.get("title"), definition.get("description"), definition.get(n.CONNECT_VERSION)
        parameters = dict(schema.parameters)
        given = definition.get(n.CONNECT_PARAMETERS)
        if isinstance(given, Mapping):
            parameters.update({str(key): str(value) for key, value in given.items()})
        schema = replace(
            schema,
            name=title if schema.name is None and isinstance(title, str) else schema.name,
            version=number if isinstance(number, int) else version,
            doc=doc if isinstance(doc, str) else None,
            parameters=tuple(parameters.items()),
            optional=schema.optional or optional,
        )
        default = definition.get("default")
        if nests_deeper(default):
            raise DataError(f"the default of a JSON schema is nested more than {MAX_DEPTH} levels deep")
        return schema if default is None else replace(schema, default=java_json(with_floats(default, schema)))

    def _referred(self, name: str, scope: Scope, version: int | None, optional: bool) -> Schema:
        target, scope = self._documents.target(name, scope)
        if id(target) in self._within:
            raise recursive(f"the JSON schema {name[:200]}", self._path)
        self._within.append(id(target))
        try:
            return self.schema(target, scope, version=version, optional=optional)
        finally:
            self._within.pop()

    def _merged(self, definition: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
        """Merges the properties of all schemas in allOf. If none of them has properties, uses the first schema with a
        type.
        """
        parts = [self._followed(part, scope) for part in definition["allOf"]]
        rest = {key: value for key, value in _without_notes(definition).items() if key != "allOf"}
        properties = {name: one for part in (*parts, rest) for name, one in _properties(part).items()}
        required = list(dict.fromkeys(name for part in (*parts, rest) for name in _required(part)))
        if properties:
            return {**rest, "type": "object", "properties": properties, "required": required}
        chosen = next((part for part in parts if any(key in part for key in (*_CHOICES, "enum"))), None)
        chosen = chosen or next((part for part in parts if "type" in part or "$ref" in part), {})
        return {**rest, **chosen}

    def _followed(self, definition: Any, scope: Scope) -> Mapping[str, Any]:
        """Returns a schema of allOf after following its references."""
        for _ in range(MAX_DEPTH):
            self._counted()
            if not isinstance(definition, Mapping):
                return {}
            scope = self._documents.within(definition, scope)
            self._scope_of |= dict.fromkeys(map(id, _parts(definition)), scope)
            if isinstance(definition.get("allOf"), list):
                return self._merged_once(definition, scope)
            if not isinstance(definition.get("$ref"), str):
                return definition
            definition, scope = self._documents.target(definition["$ref"], scope)
        raise DataError(f"a JSON schema has more than {MAX_DEPTH} references that refer to each other")

    def _merged_once(self, definition: Mapping[str, Any], scope: Scope) -> Mapping[str, Any]:
        if id(definition) in self._within:
            raise recursive("a JSON schema in allOf", self._path)
        self._within.append(id(definition))
        try:
            return self._merged(definition, scope)
        finally:
            self._within.pop()

    def _typed(self, definition: Mapping[str, Any], scope: Scope) -> Schema:
        kind, connect = definition.get("type"), definition.get(n.CONNECT_TYPE)
        if "const" in definition and kind is None:
            return self._enum([definition["const"]])
        if isinstance(definition.get("enum"), list) and kind in (None, "string"):
            return self._enum(definition["enum"])
        if kind == "boolean":
            return Schema(Type.BOOLEAN)
        if kind in ("integer", "number"):
            if connect is not None and (not isinstance(connect, str) or connect not in _CONNECT):
                raise DataError(f"Unsupported type {connect}")
            return Schema(_CONNECT[connect] if connect else Type.INT64 if kind == "integer" else Type.FLOAT64)
        if kind == "string":
            return Schema(Type.BYTES if connect == "bytes" else Type.STRING)
        if kind == "array" or (kind is None and "items" in definition):
            return self._array(definition, scope)
        if kind == "object" or (kind is None and "properties" in definition):
            return self._object(definition, scope)
        raise DataError(f"a JSON schema has no supported type: {str(definition)[:100]}")

    def _enum(self, values: list[Any]) -> Schema:
        word = self._options.enum
        symbols = [n.NULL if value is None else value if isinstance(value, str) else java_json(value)
                   for value in values]
        definition = {f"{word}.{one}": str(i) if self._options.sums else one for i, one in enumerate(symbols)}
        return Schema(Type.STRING, parameters=((word, ""), *definition.items()))

    def _array(self, definition: Mapping[str, Any], scope: Scope) -> Schema:
        items = definition.get("items")
        if not isinstance(items, Mapping):
            raise DataError("Array schema did not specify the items type")
        if definition.get(n.CONNECT_TYPE) == "map" and isinstance(items.get("properties"), Mapping):
            parts = items["properties"]
            key, value = self.schema(parts.get("key"), scope), self.schema(parts.get("value"), scope)
            return Schema(Type.MAP, key=key, value=value)
        return Schema(Type.ARRAY, value=self.schema(items, scope))

    def _object(self, definition: Mapping[str, Any], scope: Scope, *, indexed: bool = True) -> Schema:
        """`indexed`: whether the fields are in the order of their connect.index."""
        if definition.get(n.CONNECT_TYPE) == "map":
            return Schema(Type.MAP, key=STRING, value=self.schema(definition.get("additionalProperties"), scope))
        properties, required = _properties(definition), _required(definition)
        places = {name: _place(one, i) if indexed else i for i, (name, one) in enumerate(properties.items())}
        fields = []
        for name in sorted(properties, key=lambda name: places[name]):
            self._path.append(name)
            optional = self._options.optional and name not in required
            fields.append(Field(name, self.schema(properties[name], scope, optional=optional)))
            self._path.pop()
        return Schema(Type.STRUCT, fields=tuple(fields))

    def _union(self, choices: list[Any], optional: bool, scope: Scope) -> Schema:
        name, prefix = n.ONE_OF, f"{n.ONE_OF}.field."
        if self._options.sums:
            name, prefix, self._unions = f"connect_union_{self._unions}", "connect_union_field_", self._unions + 1
        fields = tuple(Field(f"{prefix}{i}", self.schema(one, scope, optional=True))
                       for i, one in enumerate(choices))
        parameters = ((n.SUM_UNION, name),) if self._options.sums else ()
        return Schema(Type.STRUCT, optional=optional, name=name, parameters=parameters, fields=fields)


def _choices(definition: Mapping[str, Any]) -> list[Any] | None:
    """Returns the alternatives of a union (oneOf, anyOf or a list of types), or None."""
    for key in _CHOICES:
        if isinstance(definition.get(key), list):
            return list(definition[key])
    if isinstance(definition.get("type"), list):
        bare = _without_notes(definition)
        return [{**{key: one for key, one in bare.items() if key not in ("enum", "const")}, "type": kind}
                for kind in definition["type"]]
    return None


def _without_notes(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns what a schema demands, without what describes it. In Java, a list of types, or a type with an enum, is a
    combination of schemas; the description belongs to the combination, which is not in Connect's schema.
    """
    return {key: one for key, one in definition.items() if key not in _NOTES and not key.startswith("connect.")}


def _properties(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    found = definition.get("properties") or {}
    if not isinstance(found, Mapping):
        raise DataError(f"the properties of a JSON schema are not an object: {str(found)[:100]}")
    return found


def _required(definition: Mapping[str, Any]) -> list[Any]:
    found = definition.get("required")
    return found if isinstance(found, list) else []


def _place(definition: Any, place: int) -> int:
    """Returns the position of a property: its connect.index or, without one, that in the schema."""
    index = definition.get(n.CONNECT_INDEX, place) if isinstance(definition, Mapping) else place
    if not isinstance(index, int):
        raise DataError(f"the {n.CONNECT_INDEX} of a JSON schema is not an integer: {str(index)[:100]}")
    return index


def _parts(definition: Mapping[str, Any]) -> list[Any]:
    """Returns the schemas that a schema consists of."""
    choices = [one for key in _CHOICES if isinstance(definition.get(key), list) for one in definition[key]]
    return [*_properties(definition).values(), *choices, definition.get("items"),
            definition.get("additionalProperties")]


def _is_null(definition: Any) -> bool:
    return isinstance(definition, Mapping) and definition.get("type") == "null"
