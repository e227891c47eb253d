"""Random cases for transforms, the same for the same seed: a chain with its options, and records to send through it.

A case is {"chain": [{"class", "config", "predicate", "negate"}], "sink", "schemas", "replace_nulls", "records"}; keys and
values of records are JSON texts as JsonConverter reads them, with their schema beside them where "schemas" is true.
"""
# ruff: noqa: E501, PLR0911 - tables of odd values

from __future__ import annotations

import base64
import json
import random
from typing import Any

T = "org.apache.kafka.connect.transforms."
NAMES = ("a", "b", "c", "id", "ts", "name", "s", "ä", "a.b", "payload", "Key")
TEXTS = (
    "", "x", "true", "FALSE", "12", "-7", "300", "70000", "3000000000", "1.5", "1e3", "NaN", "Infinity", " 5 ", "+4", "0x1p3", "5f",
    "häagen", "日本", "😀", 'quo"te', "back\\slash", "line\nbreak", "\u2028", "99999999999999999999", "2024-02-29", "a,b", "null",
    "-0.0", "1e400", "1_000", "1d", ".5", "5.", "0012",
)  # fmt: skip
INTS = (
    0,
    1,
    -1,
    5,
    127,
    128,
    -129,
    255,
    32767,
    32768,
    65536,
    2**31 - 1,
    -(2**31),
    2**31,
    10**12,
    1700000000000,
    2**53,
    2**63 - 1,
    -(2**63),
)
FLOATS = (0.0, 0.5, -1.25, 1e10, 3.0e38, 1e-7, 1234567.125, 1e300, 127.5, -129.5, 2147.5, 9.3e18, 17000000.25)
FORMATS = ("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSS", "yyyyMMdd", "dd/MM/yy", "HH:mm", "EEE, d MMM yyyy hh:mm a", "yyyy-MM-dd HH:mm:ss Z", "yyyy-MM-dd'T'HH:mm:ssXXX", "DDD yyyy", "yyyy")  # fmt: skip
STAMPS = ("2024-02-29", "2024-02-30", "2023-11-14 22:13:20", "2023-11-14T22:13:20.123", "20231114", "14/11/23", "22:13", "Tue, 14 Nov 2023 10:13 PM", "2023-11-14 22:13:20 +0100", "2023-11-14T22:13:20+01:00", "318 2023", "1999", "not a date", "", "2023-1-5", "2024-13-45 99:99:99", "-0001-01-01", "2023-11-14 and more")  # fmt: skip
LOGICAL = {
    "Date": ("int32", (0, 19000, -400, 2932896)),
    "Time": ("int32", (0, 86399999, 12345)),
    "Timestamp": ("int64", (0, 1700000000123, -1, -62135596800000, 253402300799999, 86400000)),
}
LIMITS = {"int8": 2**7, "int16": 2**15, "int32": 2**31, "int64": 2**63}
CASTS = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")


def case(seed: int, number: int, *, records: int | None = None) -> dict[str, Any]:
    """Case `number` of `seed`; with so many records (they have one schema, or one shape)."""
    return _lacking(_Maker(random.Random(f"{seed}:{number}")).case(records), random.Random(f"{seed}:{number}:lacking"))


def _lacking(made: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Some records have no timestamp; those of sources often leave the partition to the partitioner."""
    if rng.random() < 0.25:
        for record in made["records"]:
            if rng.random() < 0.6:
                record["timestamp"] = None
            if not made["sink"] and rng.random() < 0.7:
                record["partition"] = None
    return made


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names: list[str] = list(NAMES)

    def often(self, chance: float) -> bool:
        return self.rng.random() < chance

    def case(self, many: int | None = None) -> dict[str, Any]:
        sink, schemas = self.often(0.6), self.often(0.6)
        schema = self.schema(2, struct=0.8) if schemas else None
        key_schema = self.schema(1, struct=0.8) if schemas else None
        shape = None if schemas else self.shape(2, mapping=0.85)
        if schema and schema["type"] == "struct":
            self.names = [field["field"] for field in schema["fields"]] or list(NAMES)
        elif isinstance(shape, dict):
            self.names = list(shape) or list(NAMES)
        count = self.rng.choice((1, 1, 1, 2, 2, 3, 3, 4, 5))
        chain = [self.step() for _ in range(count)]
        records = [self.record(schema, key_schema, shape) for _ in range(many or self.rng.choice((1, 2, 3)))]
        return {"chain": chain, "sink": sink, "schemas": schemas, "replace_nulls": self.often(0.7), "records": records}

    def record(self, schema: Any, key_schema: Any, shape: Any) -> dict[str, Any]:
        rng = self.rng
        return {
            "topic": rng.choice(("t", "orders", "db.public.users")), "partition": rng.choice((0, 3, 3)),
            "offset": rng.choice((0, 17, 2**40)), "timestamp": rng.choice((0, 1700000000123, 1700000000123, 86399999)),
            "key": self.text(key_schema, self.shape(1, mapping=0.7) if key_schema is None else None), "value": self.text(schema, shape),
            "headers": [[rng.choice(("h", "trace", "ä")), rng.choice(("x", "5", "true", "1.5", None, "[1,2]"))] for _ in range(rng.choice((0, 0, 1, 2, 3)))],
        }  # fmt: skip

    def text(self, schema: Any, shape: Any) -> str | None:
        if self.often(0.08):
            return None
        if schema is None:
            return json.dumps(self.shaped(shape), ensure_ascii=self.often(0.5))
        return json.dumps({"schema": schema, "payload": self.value(schema)}, ensure_ascii=self.often(0.5))

    # schemas and their values

    def schema(self, depth: int, struct: float = 0.3) -> dict[str, Any]:
        rng = self.rng
        if depth and self.often(struct):
            names = rng.sample(NAMES, rng.randint(0 if self.often(0.1) else 1, 6))
            made: dict[str, Any] = {
                "type": "struct",
                "fields": [{**self.schema(depth - 1), "field": name} for name in names],
            }
        elif depth and self.often(0.15):
            made = {"type": "array", "items": self.schema(depth - 1)}
        elif depth and self.often(0.15):
            made = {
                "type": "map",
                "keys": {"type": rng.choice(("string", "string", "int32")), "optional": False},
                "values": self.schema(depth - 1),
            }
        elif self.often(0.25):
            name = rng.choice(("Decimal", *LOGICAL))
            made = {
                "type": "bytes" if name == "Decimal" else LOGICAL[name][0],
                "name": f"org.apache.kafka.connect.data.{name}",
                "version": 1,
            }
            if name == "Decimal":
                made["parameters"] = {"scale": str(rng.choice((0, 2, 5)))}
        else:
            made = {
                "type": rng.choice(
                    (
                        "int8",
                        "int16",
                        "int32",
                        "int64",
                        "int64",
                        "float",
                        "double",
                        "boolean",
                        "string",
                        "string",
                        "string",
                        "bytes",
                    )
                )
            }
        made["optional"] = self.often(0.5)
        plain = "name" not in made
        if plain and self.often(0.15):
            made["name"] = rng.choice(("com.acme.Thing", "n"))
        if plain and self.often(0.1):
            made["version"] = rng.choice((1, 7))
        if self.often(0.1):
            made["doc"] = "What it is"
        if plain and self.often(0.1):
            made["parameters"] = {"p": "1"}
        if made["type"] not in ("struct", "array", "map") and self.often(0.15):
            found = self.value({**made, "optional": False})
            if found is not None:
                made["default"] = found
        return made

    def value(self, schema: dict[str, Any]) -> Any:
        rng, kind, name = self.rng, schema["type"], str(schema.get("name", "")).rpartition(".")[2]
        if (schema["optional"] or "default" in schema) and self.often(0.15):
            return None
        if name in LOGICAL:
            return rng.choice(LOGICAL[name][1])
        if name == "Decimal":
            number = rng.choice((0, 1, -1, 12345, -99999, 2**70, 10**20))
            return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()
        if kind == "struct":
            found = {field["field"]: self.value(field) for field in schema["fields"]}
            return {k: v for k, v in found.items() if v is not None or self.often(0.5)}
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(rng.randint(0, 3))]
        if kind == "map":
            keys = sorted(rng.sample(range(5), rng.randint(0, 2)))
            if schema["keys"]["type"] == "string":
                return {str(key): self.value(schema["values"]) for key in keys}
            return [[key, self.value(schema["values"])] for key in keys]
        if kind in LIMITS:
            return rng.choice([n for n in INTS if -LIMITS[kind] <= n < LIMITS[kind]])
        if kind in ("float", "double"):
            return rng.choice([n for n in FLOATS if kind == "double" or n < 1e38])
        if kind == "boolean":
            return rng.choice((True, False))
        if kind == "bytes":
            return base64.b64encode(rng.choice((b"", b"\x00\xff", b"bytes"))).decode()
        return rng.choice(STAMPS if self.often(0.3) else TEXTS)

    # schemaless: what the members of records mostly are, and values of that kind

    def shape(self, depth: int, mapping: float = 0.3) -> Any:
        rng = self.rng
        if depth and self.often(mapping):
            return {
                name: self.shape(depth - 1) for name in rng.sample(NAMES, rng.randint(0 if self.often(0.1) else 1, 7))
            }
        if depth and self.often(0.12):
            return [self.shape(depth - 1)]
        return rng.choice(("int", "int", "float", "text", "text", "text", "bool", "null"))

    def shaped(self, shape: Any) -> Any:
        rng = self.rng
        if self.often(0.04):
            return self.shaped(rng.choice(("int", "float", "text", "bool", "null")))
        if isinstance(shape, dict):
            return {name: self.shaped(one) for name, one in shape.items() if self.often(0.93)}
        if isinstance(shape, list):
            return [self.shaped(shape[0]) for _ in range(rng.randint(0, 3))]
        if shape == "null" or self.often(0.06):
            return None
        choices: dict[str, Any] = {
            "int": INTS,
            "float": FLOATS,
            "text": STAMPS if self.often(0.3) else TEXTS,
            "bool": (True, False),
        }
        return rng.choice(choices[shape])

    # transforms

    def field(self) -> str:
        return self.rng.choice(self.names) if self.often(0.85) else self.rng.choice((*NAMES, "missing"))

    def fields(self, low: int = 1) -> str:
        return ",".join(self.field() for _ in range(self.rng.randint(low, 3)))

    def step(self) -> dict[str, Any]:
        rng = self.rng
        name = rng.choice(list(TRANSFORMS))
        config: dict[str, Any] = TRANSFORMS[name](self)
        part = rng.choice(("$Value", "$Value", "$Value", "$Key")) if name in KEY_AND_VALUE else ""
        if name in REPLACES_NULLS and self.often(0.4):
            config["replace.null.with.default"] = rng.choice(("true", "false"))
        made: dict[str, Any] = {"class": f"{T}{name}{part}", "config": config}
        if self.often(0.25) or (name == "Filter" and self.often(0.8)):
            predicate = rng.choice(("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches"))
            of: dict[str, str] = {
                "HasHeaderKey": {"name": "h"},
                "TopicNameMatches": {"pattern": rng.choice(("t", "o.*", "db\\..*", ".*"))},
            }.get(predicate, {})
            made["predicate"] = {"class": f"{T}predicates.{predicate}", "config": of}
            made["negate"] = self.often(0.4)
        return made

    def cast(self) -> dict[str, Any]:
        kind = [self.rng.choice(CASTS) for _ in range(3)]
        if self.often(0.2):
            return {"spec": kind[0]}
        if self.often(0.03):
            return {"spec": self.rng.choice(("a:nope", "a:b:c", "int8,a:int8", "a:bytes", "", "a:struct"))}
        return {"spec": ",".join(f"{self.field()}:{one}" for one in kind[: self.rng.randint(1, 3)])}

    def header_from(self) -> dict[str, Any]:
        fields = self.fields()
        if self.often(0.02):
            return {"fields": "", "headers": "", "operation": "copy"}
        count = fields.count(",") + 1 + (1 if self.often(0.03) else 0)
        return {
            "fields": fields,
            "headers": ",".join(f"h{i}" for i in range(count)),
            "operation": self.rng.choice(("copy", "move")),
        }

    def insert_field(self) -> dict[str, Any]:
        mark = lambda: self.rng.choice(("", "", "!", "?"))  # noqa: E731
        found = {
            f"{what}.field": self.rng.choice((self.field(), f"new_{what}")) + mark()
            for what in ("topic", "partition", "timestamp", "static", "offset")
            if self.often(0.35 if what != "offset" else 0.15)
        }
        if "static.field" in found and self.often(0.97):
            found["static.value"] = self.rng.choice(("fixed", "ü", ""))
        return found

    def mask(self) -> dict[str, Any]:
        return {
            "fields": self.fields(),
            **({"replacement": self.rng.choice(("***", "7", "-1.5", "", "300"))} if self.often(0.4) else {}),
        }

    def replace(self) -> dict[str, Any]:
        found = {}
        if self.often(0.5):
            found["exclude"] = self.fields()
        if self.often(0.3):
            found["include"] = self.fields()
        if self.often(0.6):
            found["renames"] = ",".join(
                f"{self.field()}:{self.rng.choice(('new', 'b', 'other'))}" for _ in range(self.rng.randint(1, 2))
            )
        return found

    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = {"schema.name": self.rng.choice(("com.acme.New", "x"))} if self.often(0.7) else {}
        return {**found, **({"schema.version": str(self.rng.choice((1, 42)))} if self.often(0.6) else {})}

    def timestamp(self) -> dict[str, Any]:
        found = {"target.type": self.rng.choice(("string", "unix", "Date", "Time", "Timestamp"))}
        if self.often(0.75):
            found["field"] = self.field()
        if found["target.type"] == "string" or self.often(0.6):
            found["format"] = self.rng.choice(FORMATS)
        if self.often(0.4):
            found["unix.precision"] = self.rng.choice(("seconds", "milliseconds", "microseconds", "nanoseconds"))
        return found

    def path(self) -> dict[str, Any]:
        if self.often(0.5):
            return {"field": self.field()}
        other = self.rng.choice(NAMES)
        path = self.rng.choice(
            (
                f"{self.field()}.{other}",
                f"`{self.field()}`",
                self.field(),
                f"`a.b`.{other}",
                "`a",
                "a.",
                "",
                f"{self.field()}.{other}.{self.rng.choice(NAMES)}",
            )
        )
        return {"field": path, "field.syntax.version": self.rng.choice(("V2", "V2", "v2", "V1", "V3"))}

    def router(self) -> dict[str, Any]:
        return {
            "regex": self.rng.choice(("t", "(.*)", "db\\.(\\w+)\\.(?<table>.*)", "o(.+)s", "(")),
            "replacement": self.rng.choice(("x-$0", "$1", "plain", "\\$a", "${table}", "$9")),
        }

    def time_router(self) -> dict[str, Any]:
        found = (
            {
                "topic.format": self.rng.choice(
                    ("${topic}-${timestamp}", "x${timestamp}y", "${topic}", "${timestamp}/${topic}")
                )
            }
            if self.often(0.5)
            else {}
        )
        return {
            **found,
            **(
                {"timestamp.format": self.rng.choice(("yyyy", "yyyy-MM-dd", "HHmmss", "yyyyMMddHH", "w", "EEE"))}
                if self.often(0.6)
                else {}
            ),
        }


TRANSFORMS: dict[str, Any] = {
    "Cast": _Maker.cast,
    "DropHeaders": lambda m: {"headers": m.rng.choice(("h", "trace,h", "none", ""))},
    "ExtractField": _Maker.path,
    "Filter": lambda _: {},
    "Flatten": lambda m: {"delimiter": m.rng.choice(("_", ".", ""))} if m.often(0.5) else {},
    "HeaderFrom": _Maker.header_from,
    "HoistField": lambda m: {"field": m.rng.choice(("hoisted", "a", "ü"))},
    "InsertField": _Maker.insert_field,
    "InsertHeader": lambda m: {"header": m.rng.choice(("new", "h")), "value.literal": m.rng.choice(("x", "5", "1.50", "true", "{}", "[1,2.5]", "2020-01-01", '"q"'))},
    "MaskField": _Maker.mask,
    "RegexRouter": _Maker.router,
    "ReplaceField": _Maker.replace,
    "SetSchemaMetadata": _Maker.metadata,
    "TimestampConverter": _Maker.timestamp,
    "TimestampRouter": _Maker.time_router,
    "ValueToKey": lambda m: {"fields": m.fields()},
}  # fmt: skip
KEY_AND_VALUE = {
    "Cast",
    "ExtractField",
    "Flatten",
    "HeaderFrom",
    "HoistField",
    "InsertField",
    "MaskField",
    "ReplaceField",
    "SetSchemaMetadata",
    "TimestampConverter",
}
REPLACES_NULLS = KEY_AND_VALUE - {"Flatten", "HoistField"} | {"ValueToKey"}
