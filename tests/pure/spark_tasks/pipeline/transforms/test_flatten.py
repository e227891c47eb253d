"""Flatten: what the defaults of structs become. Kafka Connect's JsonConverter reads no such defaults, so that there are
no recorded results of Java's for them.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.transforms.chain import Stage
from spark_tasks.pipeline.transforms.flatten import Flatten
from tests.rigs.chains import T

CITY, ZIP = {"type": "string", "field": "city"}, {"type": "int32", "optional": True, "field": "zip"}
PRICE = {
    "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1, "parameters": {"scale": "2"},
    "field": "price",
}  # fmt: skip


def struct(*fields, **more):
    return {"type": "struct", "fields": list(fields), **more}


def flattened(schema, *payloads):
    """The fields of the new schema without their types, and the new payloads."""
    converter, flatten = JsonConverter(), Flatten()
    converter.configure({"replace.null.with.default": "false"})
    flatten.configure({})
    texts = [json.dumps({"schema": schema, "payload": payload}).encode() for payload in payloads]
    array, metadata = converter.to_connect("t", pa.array(texts, pa.binary()))
    batch = pa.RecordBatch.from_arrays([array], schema=pa.schema([pa.field("value", array.type, metadata=metadata)]))
    (found,) = Stage("f", T + "Flatten$Value", flatten).apply(batch)
    written = converter.from_connect("t", found.column("value"), found.schema.field("value").metadata)
    read = [json.loads(text) for text in written.to_pylist()]
    fields = {field["field"]: (field["optional"], field.get("default")) for field in read[0]["schema"]["fields"]}
    return fields, [one["payload"] for one in read]


@pytest.mark.parametrize("optional", [True, False])
def test_a_field_gets_the_default_that_its_struct_has_for_it(optional):
    address = struct(CITY, field="a", optional=optional, default={"city": "x"})
    assert flattened(struct(address), {"a": {"city": "y"}}) == ({"a.city": (optional, "x")}, [{"a.city": "y"}])


def test_a_default_of_its_own_counts_more_and_null_is_none():
    address = struct({**CITY, "default": "own"}, ZIP, field="a", optional=True, default={"city": "x", "zip": None})
    fields, _ = flattened(struct(address), {"a": {"city": "y", "zip": 1}})
    assert fields == {"a.city": (True, "own"), "a.zip": (True, None)}


def test_defaults_pass_through_structs_within_structs():
    inner = struct(CITY, field="b", optional=True), struct(CITY, field="c", optional=True, default={"city": "c"})
    outer = struct(*inner, ZIP, field="a", optional=True, default={"b": {"city": "b"}, "c": {"city": "no"}, "zip": 1})
    fields, _ = flattened(struct(outer), {"a": {"b": {"city": "1"}, "c": {"city": "2"}, "zip": 3}})
    assert fields == {"a.b.city": (True, "b"), "a.c.city": (True, "c"), "a.zip": (True, 1)}
    outer = struct(*inner[:1], field="a", optional=True, default={"b": None})
    assert flattened(struct(outer), {"a": {"b": {"city": "1"}}})[0] == {"a.b.city": (True, None)}


def test_the_default_of_the_whole_value_counts():
    value = struct(CITY, struct(PRICE, field="a"), default={"city": "x", "a": {"price": "AN4="}})
    fields, _ = flattened(value, {"city": "y", "a": {"price": "AQ=="}})
    assert fields == {"city": (False, "x"), "a.price": (False, "AN4=")}
