"""Avro: both libraries agree, schemas and values round-trip, and hostile bytes affect only their own record."""

import base64
import dataclasses
import io
import itertools
import json
import math
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spark_tasks.data.arrow_types import PRECISION, to_arrow
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from spark_tasks.java.json import java_json
from spark_tasks.pipeline.converters.avro import columns
from spark_tasks.pipeline.converters.avro import names as n
from spark_tasks.pipeline.converters.avro.codec import AvroCodec
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.to_avro import avro_text
from spark_tasks.pipeline.converters.avro.to_connect import connect_schema
from spark_tasks.pipeline.converters.avro.tree import parse
from spark_tasks.pipeline.converters.base import BadRowsError

OPTIONS = AvroOptions(enhanced=True)
WORDS = st.text("abcXYZ_", min_size=1, max_size=6)
TEXTS = st.text(max_size=8)
FLOATS = st.floats(width=32)
PLAIN = {
    Type.INT8: st.integers(-128, 127), Type.INT16: st.integers(-(2**15), 2**15 - 1),
    Type.INT32: st.integers(-(2**31), 2**31 - 1), Type.INT64: st.integers(-(2**63), 2**63 - 1),
    Type.FLOAT32: FLOATS, Type.FLOAT64: st.floats(), Type.BOOLEAN: st.booleans(), Type.STRING: TEXTS,
    Type.BYTES: st.binary(max_size=6),
}
LOGICAL = [
    (Schema(Type.INT32, name=DATE, version=1), st.integers(-20_000, 40_000)),
    (Schema(Type.INT32, name=TIME, version=1), st.integers(0, 86_399_999)),
    (Schema(Type.INT64, name=TIMESTAMP, version=1), st.integers(-(10**13), 10**13)),
]


def decimals(scale, precision):
    parameters = (("scale", str(scale)), *(((PRECISION, str(precision)),) if precision else ()))
    digits = precision or 38
    values = st.integers(-(10**digits) + 1, 10**digits - 1).map(
        lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)))
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters), values


@st.composite
def leaves(draw):
    which = draw(st.integers(0, 3))
    if which == 0:
        return draw(st.sampled_from(LOGICAL))
    if which == 1:
        return decimals(draw(st.integers(0, 10)), draw(st.sampled_from([None, 10, 20, 50])))
    if which == 2 and draw(st.booleans()):
        symbols = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
        parameters = ((n.ENUM, ""), *((f"{n.ENUM}.{one}", one) for one in symbols))
        return Schema(Type.STRING, name="e", parameters=parameters), st.sampled_from(symbols)
    kind = draw(st.sampled_from(list(PLAIN)))
    schema, values = Schema(kind), PLAIN[kind]
    if draw(st.booleans()):
        value = draw(values)
        odd = isinstance(value, float) and not math.isfinite(value)
        shown = base64.b64encode(value).decode() if isinstance(value, bytes) else value
        if not odd and kind is not Type.FLOAT32:
            schema = Schema(kind, default=java_json(shown), doc=draw(st.none() | TEXTS))
    return schema, values


def optional(draw, pair):
    schema, values = pair
    return (schema.as_optional(), st.none() | values) if draw(st.booleans()) else pair


@st.composite
def containers(draw, inner):
    schema, values = optional(draw, draw(inner))
    match draw(st.integers(0, 3)):
        case 0:
            return Schema(Type.ARRAY, value=schema), st.lists(values, max_size=3)
        case 1:
            keys = st.dictionaries(TEXTS, values, max_size=3).map(lambda found: list(found.items()))
            return Schema(Type.MAP, key=Schema(Type.STRING), value=schema), keys
        case 2:
            pairs = st.dictionaries(PLAIN[Type.INT32], values, max_size=3).map(lambda found: list(found.items()))
            return Schema(Type.MAP, name="m", key=Schema(Type.INT32), value=schema), pairs
    return draw(structs(inner))


@st.composite
def structs(draw, inner):
    names = draw(st.lists(WORDS, max_size=4, unique=True))
    parts = [optional(draw, draw(inner)) for _ in names]
    fields = tuple(Field(name, schema) for name, (schema, _) in zip(names, parts, strict=True))
    schema = Schema(Type.STRUCT, name="s", fields=fields)
    values = st.fixed_dictionaries({name: values for name, (_, values) in zip(names, parts, strict=True)})
    return schema, values


PAIRS = structs(st.recursive(leaves(), containers, max_leaves=6))


def named(schema, names):
    """The schema with a name of its own for each named type: what `names` makes of the letter of its kind."""
    changes = {
        "fields": tuple(Field(field.name, named(field.schema, names)) for field in schema.fields),
        "key": schema.key and named(schema.key, names), "value": schema.value and named(schema.value, names),
    }
    if schema.name in ("e", "m", "s"):
        changes["name"] = names(schema.name)
    if schema.name == "e":
        changes["parameters"] = ((n.ENUM, changes["name"]), *schema.parameters[1:])
    return dataclasses.replace(schema, **changes)


@st.composite
def records(draw, pairs=PAIRS, name="{letter}.N{number}"):
    """A schema and some values of it, of these pairs. `name`: of its named types."""
    schema, values = draw(pairs)
    numbers = itertools.count()
    with_names = named(schema, lambda letter: name.format(letter=letter, number=next(numbers)))
    return with_names, draw(st.lists(values, max_size=5))


def without_defaults(options=OPTIONS):
    return AvroOptions(enhanced=options.enhanced, ignore_defaults=True)


def arrow(values, schema):
    """Of values in which moments are numbers."""
    kind = to_arrow(schema)
    plain = _plain(kind)
    return pa.array(values, plain).cast(kind)


def _plain(kind):
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_plain(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def same(one, other):
    """NaN is like NaN; the order of a map's entries is Java's after a trip."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and one and isinstance(one[0], tuple):
        return same(dict(one), dict(other))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


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
