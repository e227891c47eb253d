"""Avro: both libraries agree, schemas and values round-trip, and hostile bytes affect only their own record."""

import io
import json
from decimal import Decimal

import fastavro
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spark_tasks.data.schema import Type
from spark_tasks.pipeline.converters.avro import columns
from spark_tasks.pipeline.converters.avro.codec import AvroCodec
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.to_avro import avro_text
from spark_tasks.pipeline.converters.avro.to_connect import connect_schema
from spark_tasks.pipeline.converters.avro.tree import parse
from spark_tasks.pipeline.converters.base import BadRowsError
from tests.rigs.connect_values import arrow, records, same

OPTIONS = AvroOptions(enhanced=True)


def without_defaults(options=OPTIONS):
    return AvroOptions(enhanced=options.enhanced, ignore_defaults=True)


@pytest.mark.timeout(900)  # of the thorough profile
@settings(max_examples=settings().max_examples // 3, deadline=None)  # one takes a quarter of a second
@given(records())
def test_schemas_and_values_round_trip(pair):
    schema, values = pair
    assume(not any(map(is_list_of_nothing, parts_of(schema))))  # refused, as hostile bytes say how many there are
    text = avro_text(schema, OPTIONS)
    judge = fastavro.parse_schema(json.loads(text))
    node = parse(text)
    assert connect_schema(node, OPTIONS) == schema
    assert avro_text(connect_schema(node, OPTIONS), OPTIONS) == text
    array = arrow(values, schema)
    wire = columns.from_connect(array, schema, node, without_defaults())
    wire.validate(full=True)
    quick, slow = AvroCodec(node), AvroCodec(node, fast=False)
    written = quick.encode(wire).to_pylist()
    assert [maps_apart(one, judge) for one in written] == [maps_apart(one, judge) for one in
                                                           slow.encode(wire).to_pylist()]
    prefixed = [b"\0\xff\xff\xff\xff" + one for one in written]
    for decoded in (quick.decode(written), slow.decode(written), quick.decode(prefixed, 5), slow.decode(prefixed, 5)):
        back = columns.to_connect(decoded, node, schema)
        back.validate(full=True)
        assert back.type == array.type
        assert same(back.to_pylist(), array.to_pylist())


def parts_of(schema):
    yield schema
    for inner in (schema.key, schema.value, *(field.schema for field in schema.fields)):
        yield from parts_of(inner) if inner else ()


def is_list_of_nothing(schema):
    return schema.type is Type.ARRAY and not schema.value.optional and is_nothing(schema.value)


def is_nothing(schema):
    return schema.type is Type.STRUCT and all(
        is_nothing(field.schema) and not field.schema.optional for field in schema.fields)


def maps_apart(payload, judge):
    """What fastavro itself reads, by the whole schema; two orders of a map's entries are the same."""
    return repr(sorted_maps(fastavro.schemaless_reader(io.BytesIO(payload), judge, None)))


def sorted_maps(value):
    if isinstance(value, dict):
        return {key: sorted_maps(value[key]) for key in sorted(value)}
    return [sorted_maps(one) for one in value] if isinstance(value, list) else value


HOSTILE = {
    "fast": {"type": "record", "name": "R", "fields": [
        {"name": "i", "type": "int"}, {"name": "s", "type": "string"},
        {"name": "a", "type": {"type": "array", "items": ["null", "string"]}}, {"name": "b", "type": "boolean"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "m", "type": {"type": "map", "values": "long"}}, {"name": "d", "type": "double"},
        {"name": "y", "type": {"type": "array", "items": ["bytes", "null"]}}]},
    "slow": {"type": "record", "name": "R", "fields": [
        {"name": "u", "type": ["null", "int", "bytes", {"type": "fixed", "name": "F", "size": 2}]},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}}]},
}  # fmt: skip
GOOD = {"fast": {"i": 1, "s": "abc", "a": ["x", None], "b": True, "e": "B", "m": {"k": 1}, "d": 1.5,
                 "y": [b"\xff", None]},
        "slow": {"u": ("F", b"ab"), "d": Decimal("1.5")}}


@settings(deadline=None)
@pytest.mark.parametrize("which", list(HOSTILE))
@given(data=st.data())
def test_hostile_bytes_affect_only_their_own_record(which, data):
    """Both libraries refuse the same records, and read the same values from all others."""
    node = parse(json.dumps(HOSTILE[which]))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(HOSTILE[which]), GOOD[which])
    good = out.getvalue()
    changes = st.tuples(st.integers(0, len(good) - 1), st.integers(0, 255))
    payloads = []
    for kind in data.draw(st.lists(st.integers(0, 3), max_size=80)):
        payload = bytearray(good)
        for place, byte in data.draw(st.lists(changes, max_size=3)) if kind == 0 else ():
            payload[place] = byte
        cut = data.draw(st.integers(0, len(good))) if kind == 1 else len(good)
        payloads.append(bytes(payload[:cut]))
    seen = []
    for codec in (AvroCodec(node), AvroCodec(node, fast=False)):
        try:
            seen.append((codec.decode(payloads).to_pylist(), []))
        except BadRowsError as error:
            bad = [row for row, _ in error.bad]
            left = [one for row, one in enumerate(payloads) if row not in bad]
            seen.append((codec.decode(left).to_pylist(), bad))
    assert repr(seen[0]) == repr(seen[1])


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**32, 2**62, -(2**63)])
@pytest.mark.parametrize("wrap", [
    lambda kind: kind, lambda kind: ["null", kind], lambda kind: {"type": "array", "items": kind},
    lambda kind: {"type": "map", "values": kind},
    lambda kind: {"type": "record", "name": "I", "fields": [{"name": "n", "type": kind}]},
])
def test_a_number_that_is_not_an_int_is_one_bad_record(number, wrap):
    """The high bits used to be cut off."""
    def definition(kind):
        return {"type": "record", "name": "R", "fields": [{"name": "a", "type": wrap(kind)}]}

    def payload(value):
        out = io.BytesIO()
        inner = {"array": [value], "map": {"k": value}, "record": {"n": value}}
        kind = wrap("long")
        chosen = inner[kind["type"]] if isinstance(kind, dict) else value
        fastavro.schemaless_writer(out, fastavro.parse_schema(definition("long")), {"a": chosen})
        return out.getvalue()

    node = parse(json.dumps(definition("int")))
    payloads = [payload(value) for value in (1, 2**31 - 1, number, -(2**31))]
    for codec in (AvroCodec(node), AvroCodec(node, fast=False)):
        with pytest.raises(BadRowsError, match="too large to fit") as bad:
            codec.decode(payloads)
        assert [row for row, _ in bad.value.bad] == [2]
        good = codec.decode([payloads[0], payloads[1], payloads[3]]).to_pylist()
        assert all(str(value) in repr(one) for value, one in zip((1, 2**31 - 1, -(2**31)), good, strict=True))
