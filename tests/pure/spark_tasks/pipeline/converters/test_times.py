"""The range of Time, in all formats in which it is a number."""

import datetime as dt
import json

import pyarrow as pa
import pytest

from spark_tasks.data.schema import TIME, Field, Schema, Type, to_text
from spark_tasks.pipeline.converters.avro import columns
from spark_tasks.pipeline.converters.avro.codec import wire_type
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.to_connect import connect_schema
from spark_tasks.pipeline.converters.avro.tree import parse
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.json_columns import read_tape
from spark_tasks.pipeline.converters.json_schema.values import ConfluentReader

CLOCK = Schema(Type.INT32, name=TIME, version=1)
ROW = Schema(Type.STRUCT, fields=(Field("at", CLOCK.as_optional()),))


def by_json(numbers):
    converter = JsonConverter()
    converter.configure({"schema.content": to_text(ROW)}, is_key=False)
    return converter.to_connect("t", pa.array([json.dumps({"at": number}).encode() for number in numbers]))[0]


def by_json_schema(numbers):
    tape = read_tape(pa.array([json.dumps({"at": number}).encode() for number in numbers]))
    return ConfluentReader(tape, may_lack=True).build(ROW, tape.roots)


def by_avro(numbers):
    node = parse(json.dumps({"type": "record", "name": "R", "fields": [
        {"name": "at", "type": ["null", {"type": "int", "logicalType": "time-millis"}]}]}))
    wire = pa.array([{"f0": number} for number in numbers], wire_type(node))
    return columns.to_connect(wire, node, connect_schema(node, AvroOptions()))


@pytest.mark.parametrize("read", [by_json, by_json_schema, by_avro])
@pytest.mark.parametrize("wrong", [-1, 86_400_001, 2**31 - 1, -(2**31)])
def test_a_time_that_is_not_within_a_day_is_a_bad_record(read, wrong):
    """It used to become another time."""
    with pytest.raises(BadRowError, match=f"field at: Time values must use number of .* not {wrong}") as bad:
        read([None, 0, 5, wrong, 7])
    assert bad.value.row == 3
    good = [None, dt.time(0), dt.time(23, 59, 59, 999_000), dt.time(0)]
    assert [one["at"] for one in read([None, 0, 86_399_999, 86_400_000]).to_pylist()] == good
