"""Asks Java for the JSON Schemas of Connect schemas. `python -m tests.golden.json_schema.record` writes golden.jsonl.gz
anew.

`python -m tests.golden.json_schema.record --cases 9000 --seed 7` compares so many new schemas and writes nothing; the
exit status is 1 where heeler differs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heeler.embedded_kafka.jars import KAFKA_VERSION, JarSet
from tests.golden.beside_java import Recording
from tests.golden.json_schema.ours import difference

_JARS = JarSet("JSON Schema 1.14.6", (
    ("com.github.erosb", "everit-json-schema", "1.14.6"),
    ("org.apache.kafka", "connect-json", KAFKA_VERSION), ("org.slf4j", "slf4j-simple", "1.7.36"),
))  # fmt: skip
_OWN, _SUM = "io.confluent.connect.json", "org.apache.kafka.connect.data"
_NAMES = ["id", "name", "amount", "größe", "a b", "x_1", "createdAt", "customer", "note", "AaBB", "BBAa", "😀", "price"]
_PLAIN = {"int8": [5, 0], "int16": [-3], "int32": [7], "int64": [2**40], "float": [1.5, 2.0], "boolean": [True, False],
          "double": [0.1, -0.0, 3.0, 1e10, 1.5e-7, 123456789.25], "string": ["x", "", 'a"b</c>\u0007é😀'],
          "bytes": ["AQI="]}  # fmt: skip
_LOGICAL = [("int32", "Date", 19000), ("int32", "Time", 1000), ("int64", "Timestamp", 10**12),
            ("bytes", "Decimal", "MDk="), ("bytes", "Decimal", "AZA=")]  # fmt: skip
_SYMBOLS = ["RED", "GREEN", "<NULL>", "ü", *map(str, range(30))]
_NESTED = ["struct", "struct", "array", "map", "union"]


def schemas(seed: int) -> Iterator[dict[str, Any]]:
    """Random schemas, and the options to describe them with."""
    chance = random.Random(seed)
    while True:
        numeric, additional, sums = (chance.random() < 0.5 for _ in range(3))
        yield {"schema": _Schemas(chance).schema(2), "numeric": numeric, "additional": additional, "sums": sums}


class _Schemas:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def schema(self, depth: int) -> dict[str, Any]:
        kind = self._chance.choice(["plain", "plain", "logical", "enum", *(_NESTED if depth else ())])
        found = {**getattr(self, f"_{kind}")(depth - 1), "optional": self._maybe(0.3)}
        if kind == "union":
            return found
        if self._maybe(0.3) and "name" not in found:
            found |= {"name": "shop.Thing", "version": self._chance.randint(1, 3)}
        if self._maybe(0.3):
            found["doc"] = "what it is"
        if self._maybe(0.3):
            more = dict.fromkeys(self._chance.sample(_NAMES, self._chance.randint(1, 6)), "1")
            found["parameters"] = {**found.get("parameters", {}), **more}
        return found

    def _maybe(self, often: float) -> bool:
        return self._chance.random() < often

    def _plain(self, _: int) -> dict[str, Any]:
        kind = self._chance.choice(sorted(_PLAIN))
        return {"type": kind, **({"default": self._chance.choice(_PLAIN[kind])} if self._maybe(0.4) else {})}

    def _logical(self, _: int) -> dict[str, Any]:
        kind, name, default = self._chance.choice(_LOGICAL)
        found = {"type": kind, "name": f"{_SUM}.{name}", "version": 1}
        if name == "Decimal":
            found["parameters"] = {"scale": "2"}
        return {**found, **({"default": default} if self._maybe(0.4) else {})}

    def _enum(self, _: int) -> dict[str, Any]:
        word = self._chance.choice([f"{_OWN}.Enum", f"{_SUM}.Enum"])
        symbols = self._chance.sample(_SYMBOLS, self._chance.choice([1, 3, 7, 20]))
        return {"type": "string", "parameters": {word: "", **{f"{word}.{one}": one for one in symbols}}}

    def _array(self, depth: int) -> dict[str, Any]:
        items = self.schema(depth)
        plain = items["type"] == "int64" and "name" not in items
        return {"type": "array", "items": items, **({"default": [1, 2]} if plain else {})}

    def _map(self, depth: int) -> dict[str, Any]:
        key = {"type": self._chance.choice(["string", "int32"]), "optional": self._maybe(0.2)}
        return {"type": "map", "keys": key, "values": self.schema(depth)}

    def _struct(self, depth: int) -> dict[str, Any]:
        names = self._chance.sample(_NAMES, self._chance.randint(1, 6))
        more = [f"f{i}" for i in range(20)] if self._maybe(0.1) else []
        return {"type": "struct", "fields": [{**self.schema(depth), "field": name} for name in (*names, *more)]}

    def _union(self, depth: int) -> dict[str, Any]:
        fields = [{**one, "optional": True} for one in self._struct(depth)["fields"][:4]]
        name = {"name": f"{_OWN}.OneOf"} if self._maybe(0.5) else {"parameters": {f"{_SUM}.Union": "u"}}
        return {"type": "struct", "fields": fields, **name}


if __name__ == "__main__":
    sys.exit(Recording(Path(__file__).parent, _JARS, schemas, difference, "schemas").main())
