"""Records of a schema registry that are damaged on purpose, and how a sink reads a batch with such records.

Run as a program, it reads records that declare enormous lengths and counts, and prints how many megabytes that took.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from typing import Any

import pyarrow as pa

from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.pipeline.converters.base import BadRowsError, Converter, MixedSchemasError
from spark_tasks.pipeline.converters.json_schema.converter import JsonSchemaConverter
from spark_tasks.pipeline.converters.protobuf.converter import ProtobufConverter
from tests.rigs.guid_registry import GuidRegistry, guid_registry

CONVERTERS: dict[str, type[Converter]] = {
    "AVRO": AvroConverter, "JSON": JsonSchemaConverter, "PROTOBUF": ProtobufConverter}
LONG = [2**62, 2**63 - 1, -(2**63), 2**32, 2**31, -(2**31), 10**9, 10**7, -1, 65, 1]


def varint(number: int) -> bytes:
    value, out = number % 2**64, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def zigzag(number: int) -> bytes:
    return varint((number << 1) ^ (number >> 63))


def _avro(*fields: tuple[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": kind} for n, kind in fields]})


_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
_PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "confluent/type/decimal.proto";
import "google/type/date.proto"; import "google/type/timeofday.proto"; import "google/protobuf/wrappers.proto";
message First { int64 a = 1; }
message R { int64 a = 1; string s = 2; repeated int64 l = 3; map<string, string> m = 4; Inner r = 5;
  repeated bool p = 6; bytes b = 7; oneof o { int32 x = 8; string y = 9; } double d = 10;
  google.protobuf.Timestamp t = 11; confluent.type.Decimal c = 12;
  google.type.Date day = 13; google.type.TimeOfDay at = 14; E e = 15;
  google.protobuf.StringValue w = 16; repeated Inner rs = 17;
  message Inner { string s = 1; repeated string l = 2; } enum E { A = 0; B = 1; } }"""
_PROTO_2 = """syntax = "proto2"; message R { required int64 a = 1; optional string s = 2 [default = "x"];
  optional group G = 3 { optional int32 z = 1; } }"""
_JSON_DECIMAL = {"type": "number", "title": "org.apache.kafka.connect.data.Decimal", "connect.type": "bytes",
                 "connect.version": 1, "connect.parameters": {"scale": "2"}}
_JSON = {"type": "object", "properties": {
    "a": {"type": "integer"}, "s": {"type": "string"}, "d": _JSON_DECIMAL, "f": {"type": "number"},
    "l": {"type": "array", "items": {"type": "integer"}}, "b": {"type": "string", "connect.type": "bytes"},
    "m": {"type": "object", "connect.type": "map", "additionalProperties": {"type": "number"}},
    "day": {"type": "integer", "title": "org.apache.kafka.connect.data.Date", "connect.type": "int32"},
    "k": {"type": "array", "connect.type": "map", "items": {"type": "object", "properties": {
        "key": {"type": "integer"}, "value": {"type": "string"}}}},
    "u": {"oneOf": [{"type": "integer"}, {"type": "object", "properties": {"z": {"type": "string"}}}]}}}  # fmt: skip
# by name: the kind of the schema, its text, the converter's settings, and payloads that can be read
SCHEMAS: dict[str, tuple[str, str, dict[str, str], list[bytes]]] = {
    "avro": ("AVRO", _avro(
        ("a", "long"), ("s", "string"), ("l", {"type": "array", "items": "long"}), ("b", "bytes"), ("d", "double"),
        ("m", {"type": "map", "values": ["null", "string"]}),
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]})), {},
        [zigzag(1) + b"\2x\2\5\0\2y" + b"\0" * 8 + b"\2\2k\2\2v\0\2", zigzag(-1) + b"\0" * 3 + b"\xff" * 8 + b"\0\0"]),
    "avro with unions": ("AVRO", _avro(
        ("u", ["null", "long", "string", {"type": "array", "items": "string"}]),
        ("f", {"type": "fixed", "name": "F", "size": 3}), ("c", ["null", _DECIMAL]),
        ("t", {"type": "long", "logicalType": "timestamp-millis"}), ("day", {"type": "int", "logicalType": "date"}),
        ("l", {"type": "array", "items": ["null", "string"]})), {},
        [b"\0abc\0\0\0\0", b"\4\2xabc\2\2\7\2\2\2\0\0", b"\6\2\2x\0abc\0\0\0\0"]),
    "protobuf": ("PROTOBUF", _PROTO, {}, [
        b"\2\2", b"\2\2\x08\5\x12\1x\x1a\2\1\2\x22\6\x0a\1k\x12\1v", b"\2\2\x2a\3\x0a\1y\x42\0", b"\0\x08\5",
        b"\4\2\0\x0a\1s",
        b"\2\2\x5a\2\x08\5\x62\7\x0a\1\5\x10\3\x18\0\x6a\7\x08\xe8\x0f\x10\2\x18\3\x72\2\x08\5\x78\1"]),
    "protobuf of version 2": ("PROTOBUF", _PROTO_2.replace("optional group G = 3 { optional int32 z = 1; }", ""), {},
                              [b"\0\x08\5", b"\0\x08\5\x12\1y"]),
    "json": ("JSON", json.dumps(_JSON), {}, [
        b'{"a":1}', b'{"s":"gr\xc3\xbcn","l":[1,2],"m":{"k":1.5},"u":{"z":"q"},"d":1.25,"f":0.1,"b":"AQ==","day":1}',
        b'{"k":[{"key":1,"value":"x"}],"u":5}']),
    "json that is validated": ("JSON", json.dumps(_JSON), {"json.fail.invalid.schema": "true"}, [
        b'{"a":1}', b'{"s":"x","l":[1,2],"m":{"k":1.5},"u":{"z":"q"},"f":0.1}']),
}  # fmt: skip
PIECES: dict[str, list[bytes]] = {  # what may stand somewhere in a damaged payload, by the kind of the schema
    "AVRO": [*map(zigzag, LONG), *(zigzag(-abs(n)) + zigzag(n) for n in LONG), b"\xff" * 11, b"\xed\xa0\x80"],
    "PROTOBUF": [*map(varint, LONG), *(varint(number << 3 | kind) for number in (1, 2, 3, 4, 5, 9, 12, 17) for kind in (
        0, 1, 2, 3, 4, 5, 7)), *(varint(17 << 3 | 2) + varint(n) for n in LONG), b"\xff" * 11, b"\x0b" * 3000],
    "JSON": [b"NaN", b"-Infinity", b'"\\ud800"', b"\xff", b"\xed\xa0\x80", b'{"a":1,"a":2}', b"[" * 10_000,
             b"1e999999999", b"-1e-999999999", b"9" * 900, b"9" * 5000, b'"\\u0000"', b'{"z":', b"]}",
             b"[" * 900 + b"]" * 900,
             b"[" * 99 + b"]" * 99, b'"\\uD83D\\uDE00"', b'"' + b"=" * 5 + b'"', b'{"' + b"k" * 60_000 + b'":1}',
             b"null", b"true", b'""', b'{"\\ud800":1}', b'{"\\ud800\\udc00":NaN}',
             b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}"],
}  # fmt: skip


def reader(registry: GuidRegistry, name: str) -> tuple[Converter, bytes, list[bytes]]:
    """A converter, what is before each payload with the named schema, and payloads that can be read."""
    kind, text, config, good = SCHEMAS[name]
    registry.schemas.append({"schema": text, "schemaType": kind})
    converter = CONVERTERS[kind]()
    converter.configure({"schema.registry.url": registry.url, "max.retries": "0", **config}, is_key=False)
    return converter, b"\0" + len(registry.schemas).to_bytes(4, "big"), good


def read_apart(converter: Converter, records: list[bytes | None]) -> tuple[dict[int, Any], dict[int, Exception]]:
    """The values of the records that can be read, and the errors of the others, by row."""
    values: dict[int, Any] = {}
    errors: dict[int, Exception] = {}
    waiting = [list(range(len(records)))]
    while waiting:
        rows = waiting.pop()
        try:
            column, _ = converter.to_connect("t", pa.array([records[row] for row in rows], pa.binary()))
        except MixedSchemasError as mixed:
            waiting += [[rows[row] for row in part] for part in mixed.rows_by_schema()]
        except BadRowsError as error:
            bad = {rows[row]: one for row, one in error.bad}
            errors |= bad
            waiting.append([row for row in rows if row not in bad])
        except DataError as error:
            middle = len(rows) // 2
            waiting += [rows[:middle], rows[middle:]] if middle else []
            errors |= {} if middle else {rows[0]: error}
        else:
            column.validate(full=True)
            values |= {row: _value(column.slice(place, 1)) for place, row in enumerate(rows)}
        waiting = [rows for rows in waiting if rows]
    return values, errors


def _value(one: pa.Array) -> Any:
    try:
        return one.to_pylist()[0]
    except (OverflowError, ValueError):  # Python has no such date
        return re.sub(r"decimal\d+\(\d+", "decimal(", one.to_string(window=100, container_window=100))


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    with guid_registry() as running:
        for each in SCHEMAS:
            converter, head, sound = reader(running, each)
            read_apart(converter, [head + one for one in sound])
            before = _megabytes()
            pieces = PIECES[SCHEMAS[each][0]]
            read_apart(converter, [head + one[:at] + piece + one[at:] for one in sound for piece in pieces
                                   for at in range(0, len(one) + 1, 1 + len(one) // 8)])
            sys.stdout.write(f"{each}\t{_megabytes() - before:.0f}\n")
