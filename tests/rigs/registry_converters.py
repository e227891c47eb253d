"""The converters with a schema registry, and records that have values of all kinds."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type, to_text
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.pipeline.converters.json_schema.converter import JsonSchemaConverter
from spark_tasks.pipeline.converters.protobuf.converter import ProtobufConverter
from tests.rigs.schema_registry import RunningRegistry

RECORD = Schema(Type.STRUCT, name="shop.Order", fields=(
    Field("small", Schema(Type.INT8)), Field("big", Schema(Type.INT64)), Field("text", Schema(Type.STRING)),
    Field("absent", Schema(Type.STRING, optional=True)), Field("ratio", Schema(Type.FLOAT64)),
    Field("single", Schema(Type.FLOAT32)), Field("raw", Schema(Type.BYTES)), Field("flag", Schema(Type.BOOLEAN)),
    Field("price", Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),))),
    Field("day", Schema(Type.INT32, name=DATE, version=1)), Field("at", Schema(Type.INT32, name=TIME, version=1)),
    Field("when", Schema(Type.INT64, name=TIMESTAMP, version=1)),
    Field("tags", Schema(Type.ARRAY, value=Schema(Type.STRING, optional=True))),
    Field("counts", Schema(Type.MAP, key=Schema(Type.STRING), value=Schema(Type.INT64))),
    Field("inner", Schema(Type.STRUCT, name="shop.Inner", optional=True, fields=(
        Field("x", Schema(Type.INT32, optional=True)),))),
))  # fmt: skip
ROW: dict[str, Any] = {
    "small": -7, "big": -(2**63), "text": "grün 🍏", "absent": None, "ratio": float("nan"), "single": 0.5,
    "raw": b"\x00\xff", "flag": True, "price": Decimal("-12.30"), "day": dt.date(1969, 12, 31),
    "at": dt.time(23, 59, 59, 999000), "when": dt.datetime(2026, 11, 22, 1, 2, 3, 4000, tzinfo=dt.UTC),
    "tags": ["a", None], "counts": [("k", 2**53 + 1)], "inner": {"x": None},
}  # fmt: skip


def avro(registry: RunningRegistry, *, is_key: bool = False, **config: str) -> AvroConverter:
    converter = AvroConverter()
    converter.configure({**registry.converter, **config}, is_key=is_key)
    return converter


def json_schema(registry: RunningRegistry, *, is_key: bool = False, **config: str) -> JsonSchemaConverter:
    converter = JsonSchemaConverter()
    converter.configure({**registry.converter, **config}, is_key=is_key)
    return converter


def protobuf(registry: RunningRegistry, *, is_key: bool = False, **config: str) -> ProtobufConverter:
    converter = ProtobufConverter()
    converter.configure({**registry.converter, **config}, is_key=is_key)
    return converter


def column(values: list[Any], schema: Schema) -> tuple[pa.Array, dict[bytes, bytes]]:
    return pa.array(values, to_arrow(schema)), {SCHEMA_KEY: to_text(schema).encode()}


def one_field(name: str, kind: Type) -> Schema:
    return Schema(Type.STRUCT, name="shop.One", fields=(Field(name, Schema(kind)),))
