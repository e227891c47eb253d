"""Random pairs of similar Avro schemas, and a record of the first one."""

from __future__ import annotations

import base64
import io
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import fastavro

_PLAIN = ("int", "long", "float", "double", "string", "bytes", "boolean")
_VALUES: dict[str, Any] = {"null": None, "int": 5, "long": -6, "float": 0.5, "double": 2.5, "string": "grün",
                           "bytes": b"ab", "boolean": True}  # fmt: skip
_DEFAULTS = {**_VALUES, "bytes": "ab", "float": 1.5}


def pairs(seed: int) -> Iterator[dict[str, Any]]:
    """Returns cases without end: the schemas `written` and `wanted`, and `bytes` of a record."""
    for number in itertools.count():
        made = _Maker(random.Random(seed * 1_000_003 + number))
        written = made.record(0)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(written))), made.value(written))
        wanted = made.changed(written)
        yield {"written": written, "wanted": wanted, "bytes": base64.b64encode(out.getvalue()).decode()}


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._names = 0

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def schema(self, depth: int) -> Any:
        kind = self._chance.choice((*_PLAIN, "enum", "fixed", "array", "map", "record", "union", "union"))
        if kind in _PLAIN or depth > 2:
            return self._chance.choice(_PLAIN)
        if kind == "enum":
            return {"type": "enum", "name": self._name("E"), "symbols": ["A", "B", "C"][:self._chance.randint(1, 3)]}
        if kind == "fixed":
            return {"type": "fixed", "name": self._name("F"), "size": self._chance.randint(1, 2)}
        if kind == "array":
            return {"type": "array", "items": self.schema(depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.schema(depth + 1)}
        return self.record(depth + 1) if kind == "record" else self._union(depth + 1)

    def record(self, depth: int) -> dict[str, Any]:
        fields = [{"name": f"f{i}", "type": self.schema(depth)} for i in range(self._chance.randint(1, 3))]
        return {"type": "record", "name": self._name("R"), "fields": fields}

    def _union(self, depth: int) -> list[Any]:
        branches: list[Any] = self._chance.sample(("null", *_PLAIN), self._chance.randint(1, 3))
        return [*branches, self.record(depth)] if self._chance.random() < 0.4 else branches

    def value(self, schema: Any) -> Any:
        if isinstance(schema, list):
            branch = self._chance.choice(schema)
            return (branch if isinstance(branch, str) else branch["name"], self.value(branch))
        if isinstance(schema, str):
            return _VALUES[schema]
        if schema["type"] == "enum":
            return self._chance.choice(schema["symbols"])
        if schema["type"] == "fixed":
            return b"x" * schema["size"]
        if schema["type"] == "array":
            return [self.value(schema["items"]) for _ in range(self._chance.randint(0, 2))]
        if schema["type"] == "map":
            return {"k": self.value(schema["values"])} if self._chance.random() < 0.6 else {}
        return {field["name"]: self.value(field["type"]) for field in schema["fields"]}

    def changed(self, schema: Any) -> Any:
        """Returns the schema with a few changes, most of which readers allow."""
        if self._chance.random() < 0.1 and not isinstance(schema, list):
            branches = ["null", self._same(schema)]
            self._chance.shuffle(branches)
            return branches
        return self._same(schema)

    def _same(self, schema: Any) -> Any:
        if isinstance(schema, list):
            branches = [self._same(branch) for branch in schema]
            self._chance.shuffle(branches)
            return branches[self._chance.random() < 0.1 and len(branches) > 1:] if _distinct(branches) else schema
        if isinstance(schema, str):
            wider = {"int": "long", "long": "double", "float": "double", "string": "bytes"}
            return wider.get(schema, schema) if self._chance.random() < 0.2 else schema
        named = {**schema, **self._other_name(schema)}
        if schema["type"] == "enum":
            return {**named, "symbols": self._chance.sample(["A", "B", "C"], 3)[:self._chance.randint(1, 3)]}
        if schema["type"] in ("array", "map"):
            part = "items" if schema["type"] == "array" else "values"
            return {**schema, part: self.changed(schema[part])}
        if schema["type"] == "fixed":
            return named
        fields = [self._field(field) for field in schema["fields"] if self._chance.random() < 0.9]
        if self._chance.random() < 0.5:
            kind = self._chance.choice(_PLAIN)
            more = {"default": _DEFAULTS[kind]} if self._chance.random() < 0.8 else {}
            fields.append({"name": "more", "type": kind, **more})
        self._chance.shuffle(fields)
        return {**named, "fields": fields}

    def _field(self, field: dict[str, Any]) -> dict[str, Any]:
        kind = self.changed(field["type"])
        if self._chance.random() < 0.1:
            return {"name": f"new_{field['name']}", "type": kind, "aliases": [field["name"]]}
        return {"name": field["name"], "type": kind}

    def _other_name(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "name" not in schema or self._chance.random() > 0.2:
            return {}
        if self._chance.random() < 0.5:
            return {"name": f"New{schema['name']}", "aliases": [schema["name"]]}
        return {"name": f"New{schema['name']}"} if self._chance.random() < 0.5 else {"namespace": "far"}


def _distinct(branches: list[Any]) -> bool:
    kinds = [branch if isinstance(branch, str) else str(branch.get("name")) for branch in branches]
    return len(set(kinds)) == len(kinds)
