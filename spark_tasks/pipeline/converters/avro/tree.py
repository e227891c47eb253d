"""Parses Avro schemas to trees with resolved names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark_tasks.errors import DataError
from spark_tasks.limits import MAX_DEPTH, nests_deeper
from spark_tasks.registry.errors import recursive

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "enum", "fixed"})
_STRUCTURE = frozenset({"type", "name", "namespace", "aliases", "doc", "fields", "items", "values", "symbols", "size",
                        "default"})  # fmt: skip
NO_DEFAULT = object()
_MAX_TYPES = 20_000


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record. `default`: JSON, or NO_DEFAULT."""

    name: str
    node: Node
    default: Any = NO_DEFAULT
    doc: str | None = None
    props: Mapping[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A type. `kind`: a primitive, record, enum, fixed, array, map or union. `name`, `aliases`: full names of a named
    type. `inner`: the items of an array, the values of a map, or the branches of a union. `props`: the attributes that
    Avro does not define.
    """

    kind: str
    name: str | None = None
    props: Mapping[str, Any] = field(default_factory=dict)
    doc: str | None = None
    members: tuple[AvroField, ...] = ()
    inner: tuple[Node, ...] = ()
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    aliases: tuple[str, ...] = ()

    @property
    def logical(self) -> str | None:
        """The logicalType attribute, which may be unknown to Avro."""
        definition = self.props.get("logicalType")
        return definition if isinstance(definition, str) else None

    @property
    def optional_of(self) -> Node | None:
        """The other type in a union of null and one other type; None for all other nodes."""
        if self.kind != "union" or len(self.inner) != 2:
            return None
        others = [branch for branch in self.inner if branch.kind != "null"]
        return others[0] if len(others) == 1 else None


def parse(text: str, references: Iterable[str] = ()) -> Node:
    """Returns the tree of a schema. `references`: the texts of the schemas that it uses; each follows those that it
    uses itself. Raises DataError for an invalid schema, and for one that Arrow does not support, such as a recursive
    record.
    """
    names: dict[str, Node | None] = {}
    for one in references:
        _Parser(names).node(_json(one), "")
    node = _Parser(names).node(_json(text), "")
    try:
        size, depth = _measured(node, {})
    except RecursionError:  # types that use each other by name
        size, depth = 0, MAX_DEPTH + 1
    if size > _MAX_TYPES:
        raise DataError(f"an Avro schema has more than {_MAX_TYPES} types, counting each use of a named type")
    if depth > MAX_DEPTH:
        raise _too_deep()
    return node


def _measured(node: Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Returns the number of types, counting each use of a named type, as each use becomes a column, and their depth."""
    if id(node) not in known:
        inner = [_measured(child, known) for child in (*node.inner, *(member.node for member in node.members))]
        known[id(node)] = 1 + sum(size for size, _ in inner), 1 + max((depth for _, depth in inner), default=0)
    return known[id(node)]


def _json(text: str) -> Any:
    try:
        definition = json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        definition = text.strip()  # the name of a primitive type without quotes
        if definition not in PRIMITIVES:
            raise DataError("an Avro schema is not valid JSON") from None
    if nests_deeper(definition, 4 * MAX_DEPTH):
        raise _too_deep()
    return definition


def _too_deep() -> DataError:
    return DataError(f"an Avro schema is nested more than {MAX_DEPTH} levels deep")


class _Parser:
    def __init__(self, names: dict[str, Node | None]) -> None:
        self._names = names  # None during the definition of the type
        self._depth = 0
        self._path: list[str] = []  # of the fields around the type

    def node(self, definition: Any, namespace: str) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _too_deep()
        try:
            return self._node(definition, namespace)
        finally:
            self._depth -= 1

    def _node(self, definition: Any, namespace: str) -> Node:
        if isinstance(definition, str):
            return self._by_name(definition, namespace)
        if isinstance(definition, list):
            return Node("union", inner=tuple(self.node(branch, namespace) for branch in definition))
        if not isinstance(definition, Mapping) or "type" not in definition:
            raise DataError(f"an Avro schema has {str(definition)[:100]!r} where a type is expected")
        kind = definition["type"]
        if not isinstance(kind, str):
            return self.node(kind, namespace)  # {"type": {…}}, which some tools write
        props = {key: value for key, value in definition.items() if key not in _STRUCTURE}
        if kind in PRIMITIVES:
            return Node(kind, props=props)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            if part not in definition:
                raise DataError(f"an Avro schema has an {kind} without {part}")
            return Node(kind, props=props, inner=(self.node(definition[part], namespace),))
        if kind in NAMED or kind == "error":
            return self._named(definition, "record" if kind == "error" else kind, namespace, props)
        return self._by_name(kind, namespace)

    def _by_name(self, definition: str, namespace: str) -> Node:
        if definition in PRIMITIVES:
            return Node(definition)
        full = definition if "." in definition or not namespace else f"{namespace}.{definition}"
        full = full if full in self._names else definition
        if full not in self._names:
            raise DataError(f"an Avro schema uses an undefined type {definition}; if another schema defines it, "
            "register that one as a reference")
        node = self._names[full]
        if node is None:
            raise recursive(f"the Avro record {full}", self._path)
        return node

    def _named(self, definition: Mapping[str, Any], kind: str, namespace: str, props: dict[str, Any]) -> Node:
        name = definition.get("name")
        if not isinstance(name, str) or not name:
            raise DataError(f"an Avro schema has a {kind} without a name")
        if "." in name:
            namespace, _, _ = name.rpartition(".")
            full = name
        else:
            namespace = str(definition.get("namespace") or "") if "namespace" in definition else namespace
            full = f"{namespace}.{name}" if namespace else name
        self._names[full] = None
        doc = definition.get("doc")
        aliases = tuple(one if "." in one or not namespace else f"{namespace}.{one}"
                        for one in _texts(definition, "aliases"))
        common = Node(kind, full, props, doc if isinstance(doc, str) else None, aliases=aliases)
        if kind == "record":
            node = replace(common, members=self._members(definition.get("fields"), full, namespace))
        elif kind == "enum":
            symbols = definition.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
                raise DataError(f"the Avro enum {full} has no list of symbols")
            default = definition.get("default")
            node = replace(common, symbols=tuple(symbols), default_symbol=default if default in symbols else None)
        else:
            size = definition.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise DataError(f"the Avro fixed {full} has no size")
            node = replace(common, size=size)
        self._names[full] = node
        return node

    def _members(self, definition: Any, record: str, namespace: str) -> tuple[AvroField, ...]:
        if not isinstance(definition, list):
            raise DataError(f"the Avro record {record} has no list of fields")
        members = []
        for one in definition:
            if not isinstance(one, Mapping) or not isinstance(one.get("name"), str) or "type" not in one:
                raise DataError(f"the Avro record {record} has a field without name or type")
            doc = one.get("doc")
            props = {key: value for key, value in one.items() if key not in (*_STRUCTURE, "order")}
            self._path.append(one["name"])
            node = self.node(one["type"], namespace)
            self._path.pop()
            members.append(AvroField(
                one["name"], node, one.get("default", NO_DEFAULT),
                doc if isinstance(doc, str) else None, props, _texts(one, "aliases"),
            ))  # fmt: skip
        if len({member.name for member in members}) != len(members):
            raise DataError(f"the Avro record {record} has two fields with the same name")
        return tuple(members)


def _texts(definition: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Returns the strings in a list, and nothing if there is none."""
    listed = definition.get(key)
    return tuple(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else ()
