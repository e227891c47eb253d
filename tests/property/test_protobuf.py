"""Protobuf: both libraries agree, schemas and values round-trip, and hostile bytes affect only their own record."""

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_tasks.data.schema import Field, Schema, Type
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.converters.protobuf import columns, indexes
from spark_tasks.pipeline.converters.protobuf import names as n
from spark_tasks.pipeline.converters.protobuf.codec import ProtobufCodec
from spark_tasks.pipeline.converters.protobuf.names import ProtobufOptions
from spark_tasks.pipeline.converters.protobuf.to_connect import connect_schema
from spark_tasks.pipeline.converters.protobuf.to_protobuf import protobuf_file
from spark_tasks.pipeline.converters.protobuf.tree import Schemas
from tests.rigs.connect_values import LOGICAL, PLAIN, arrow, decimals, optional
from tests.rigs.connect_values import records as avro_records

WORDS = st.text("abcxyz", min_size=1, max_size=6).filter(lambda word: word not in ("key", "value"))
KEYS = st.sampled_from([Type.STRING, Type.INT32, Type.INT64, Type.BOOLEAN])


@st.composite
def leaves(draw):
    match draw(st.integers(0, 4)):
        case 0:
            return draw(st.sampled_from(LOGICAL))
        case 1:
            return decimals(draw(st.integers(0, 10)), draw(st.sampled_from([None, 10, 20, 50])))
        case 2:
            prefix = f"S{draw(st.uuids()).hex}"  # in Protobuf, the symbols of all enums of a message have to differ
            symbols = [f"{prefix}{i}" for i in range(draw(st.integers(1, 3)))]
            said = ((n.ENUM, "E"), *((f"{n.ENUM}.{one}", str(i)) for i, one in enumerate(symbols)))
            return Schema(Type.STRING, name="e", parameters=said), st.sampled_from(symbols)
        case 3:
            kind = draw(st.sampled_from(["sint64", "fixed64", "sfixed64", "uint64"]))
            return Schema(Type.INT64, parameters=((n.KIND, kind),)), PLAIN[Type.INT64]
    kind = draw(st.sampled_from(list(PLAIN)))
    return Schema(kind), PLAIN[kind]


@st.composite
def containers(draw, inner):
    schema, values = draw(inner)
    if schema.type in (Type.ARRAY, Type.MAP):
        return schema, values
    match draw(st.integers(0, 2)):
        case 0:
            return Schema(Type.ARRAY, value=schema), st.lists(values, max_size=3)
        case 1:
            key = draw(KEYS)
            pairs = st.dictionaries(PLAIN[key], values, max_size=3).map(lambda found: list(found.items()))
            return Schema(Type.MAP, name="m", key=Schema(key), value=schema), pairs
    return draw(structs(inner))


@st.composite
def unions(draw, inner):
    parts = [draw(inner) for _ in range(draw(st.integers(1, 3)))]
    parts = [(schema, values) for schema, values in parts if schema.type not in (Type.ARRAY, Type.MAP)]
    names = [f"u{i}{draw(WORDS)}" for i in range(len(parts))]
    if not parts:
        return None
    fields = tuple(Field(name, schema.as_optional()) for name, (schema, _) in zip(names, parts, strict=True))
    one = st.one_of(*(values.map(lambda value, name=name: {**dict.fromkeys(names), name: value})
                      for name, (_, values) in zip(names, parts, strict=True)))
    return Schema(Type.STRUCT, optional=True, name=f"{n.UNION}.one", fields=fields), st.none() | one


@st.composite
def structs(draw, inner):
    names = draw(st.lists(WORDS, max_size=4, unique=True))
    parts = [optional(draw, draw(inner)) for _ in names]
    union = draw(unions(inner)) if draw(st.booleans()) else None
    if union is not None:  # which comes first, as in what is read
        names, parts = ["one_0", *names], [union, *parts]
    fields = tuple(Field(name, schema) for name, (schema, _) in zip(names, parts, strict=True))
    return Schema(Type.STRUCT, name="s", fields=fields), st.fixed_dictionaries(
        {name: values for name, (_, values) in zip(names, parts, strict=True)})


PAIRS = structs(st.recursive(leaves(), containers, max_leaves=6))


def records():
    return avro_records(PAIRS, "shop.{letter}{number}")


def said(value, schema, options):
    """What Protobuf can say of a value: no lists or maps that are null, and null only where there is a word for it."""
    if schema.type is Type.MAP:
        return sorted(((key, said(one, schema.value, options)) for key, one in value or ()), key=repr)
    if schema.type is Type.ARRAY:
        return [said(one, schema.value, options) for one in value or ()]
    if value is None:
        return None if _may_be_null(schema, options) else EMPTY[schema.type]
    if schema.type is Type.STRUCT:
        absent = n.is_union(schema)  # of its members all but one are null; within that one it is as elsewhere
        return {field.name: None if absent and value[field.name] is None else
                said(value[field.name], field.schema, options) for field in schema.fields}
    return value


EMPTY = {Type.INT8: 0, Type.INT16: 0, Type.INT32: 0, Type.INT64: 0, Type.FLOAT32: 0.0, Type.FLOAT64: 0.0,
         Type.BOOLEAN: False, Type.STRING: "", Type.BYTES: b""}  # fmt: skip


def _may_be_null(schema, options):
    message = schema.type is Type.STRUCT or schema.logical is not None
    return message or options.optional or (options.wrapper and not n.is_enum(schema))


def first_symbols(value, schema):
    """An enum that is absent is its first symbol."""
    if n.is_enum(schema) and value == "":
        return next(key.removeprefix(f"{n.ENUM}.") for key, number in schema.parameters if number == "0")
    if isinstance(value, dict):
        return {field.name: first_symbols(value[field.name], field.schema) for field in schema.fields}
    if schema.type is Type.ARRAY:
        return [first_symbols(one, schema.value) for one in value]
    if schema.type is Type.MAP:
        return [(key, first_symbols(one, schema.value)) for key, one in value]
    return value


def own(schema, options):
    files, text, name = protobuf_file(schema, options)
    schemas = Schemas(files)
    return schemas.message(schemas.index(name)), text


def a_text_in_a_message_of_a_union():
    inner = Schema(Type.STRUCT, optional=True, name="i", fields=(Field("a", Schema(Type.STRING, optional=True)),))
    union = Schema(Type.STRUCT, optional=True, name=f"{n.UNION}.one", fields=(Field("u0a", inner),))
    return Schema(Type.STRUCT, name="s", fields=(Field("one_0", union),)), [{"one_0": {"u0a": {"a": None}}}]


@example(a_text_in_a_message_of_a_union(), ProtobufOptions())
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(records(), st.sampled_from([ProtobufOptions(optional=True), ProtobufOptions(), ProtobufOptions(wrapper=True)]))
def test_values_round_trip_and_both_libraries_agree(record, options):
    schema, rows = record
    message, _ = own(schema, options)
    array = arrow(rows, schema)
    wire = columns.from_connect(array, schema, message, options)
    fast, slow = ProtobufCodec(message), ProtobufCodec(message, fast=False)
    written = fast.encode(wire)
    assert written == slow.encode(wire)
    decoded = fast.decode(written)
    decoded.validate(full=True)
    assert repr(decoded.to_pylist()) == repr(slow.decode(written).to_pylist()) == repr(wire.to_pylist())
    back = columns.to_connect(decoded, message, connect_schema(message, options), options)
    back.validate(full=True)
    expected = [first_symbols(said(row, schema, options), schema) for row in array.to_pylist()]
    assert repr([said(row, schema, ProtobufOptions(optional=True)) for row in back.to_pylist()]) == repr(expected)


@given(records(), st.sampled_from([
    ProtobufOptions(optional=True), ProtobufOptions(), ProtobufOptions(sums=True, indexes=False),
]))
def test_a_schema_that_was_read_is_written_unchanged(record, options):
    """Numbers, kinds and names stay: what is read from a topic can be written to another one with its schema."""
    schema, _ = record
    message, _ = own(schema, options)
    read = connect_schema(message, options)
    again, _ = own(read, options)
    assert _shape(again) == _shape(message)
    assert connect_schema(again, options) == read


def _shape(message):
    return [(one.name, one.number, one.kind, one.repeated, one.oneof, one.meta, one.message and _shape(one.message))
            for one in message.members]


@given(records(), st.data())
def test_hostile_bytes_affect_only_their_own_record(record, data):
    """Both libraries read the same values, and every record that Google's can read is read."""
    schema, rows = record
    message, _ = own(schema, ProtobufOptions())
    fast, slow = ProtobufCodec(message), ProtobufCodec(message, fast=False)
    payloads = fast.encode(columns.from_connect(arrow(rows, schema), schema, message, ProtobufOptions())).to_pylist()
    for _ in range(data.draw(st.integers(1, 3))):
        base = bytearray(data.draw(st.sampled_from([b"", *payloads])))
        at = data.draw(st.integers(0, len(base)))
        base[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=8) | st.sampled_from([b"\xff" * 9 + b"\x01", b"\x7b" * 1000, b"\xff" * 20]))
        payloads.append(bytes(base))
    results = []
    for codec in (fast, slow):
        bad = {}
        try:
            codec.decode(pa.array(payloads, pa.binary()))
        except BadRowsError as error:
            bad = dict(error.bad)
        good = [row for row in range(len(payloads)) if row not in bad]
        found = codec.decode(pa.array([payloads[row] for row in good], pa.binary()))
        results.append(dict(zip(good, map(repr, found.to_pylist()), strict=True)))
    assert results[1].items() <= results[0].items()


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5).map(tuple), st.binary(max_size=5))
def test_message_indexes_round_trip(index, payload):
    found = indexes.read([b"12345" + indexes.written(index) + payload], 5)
    assert (found.indexes, found.payloads.to_pylist()) == ([index], [payload])


@given(st.lists(st.binary(max_size=12), max_size=5))
def test_any_bytes_before_a_message_are_an_index_or_a_bad_record(payloads):
    try:
        found = indexes.read(payloads, 0)
    except BadRowsError as error:
        bad = {row for row, _ in error.bad}
        found = indexes.read([one for row, one in enumerate(payloads) if row not in bad], 0)
    assert len(found.codes) == len(found.payloads) <= len(payloads)


@pytest.mark.parametrize("payload", [b"", b"\x02", b"\x01\x00", b"\x80" * 5 + b"\x00", b"\xfe\xff\xff\xff\x0f"])
def test_invalid_message_indexes_are_bad_records(payload):
    with pytest.raises(BadRowsError, match="Error deserializing Protobuf message"):
        indexes.read([b"\0", payload], 0)
