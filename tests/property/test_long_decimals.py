"""Decimals without a precision: up to 76 digits in every format, in both directions, and 38 as before."""

import base64
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.data.arrow_types import EXACT, PRECISION, to_arrow
from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import DECIMAL, STRING, Field, Schema, Type, to_text
from spark_tasks.pipeline.converters.avro import columns as avro_columns
from spark_tasks.pipeline.converters.avro.codec import AvroCodec
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.to_avro import avro_text
from spark_tasks.pipeline.converters.avro.to_connect import connect_schema as avro_schema
from spark_tasks.pipeline.converters.avro.tree import parse
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.json_columns import read_tape
from spark_tasks.pipeline.converters.json_schema.values import ConfluentReader, ConfluentWriter
from spark_tasks.pipeline.converters.protobuf import columns as protobuf_columns
from spark_tasks.pipeline.converters.protobuf.codec import ProtobufCodec
from spark_tasks.pipeline.converters.protobuf.names import ProtobufOptions
from spark_tasks.pipeline.converters.protobuf.to_connect import connect_schema as protobuf_schema
from spark_tasks.pipeline.converters.protobuf.to_protobuf import protobuf_file
from spark_tasks.pipeline.converters.protobuf.tree import Schemas
from spark_tasks.pipeline.handover import from_json, to_json

SCALE = 3


def money(**more: str) -> Schema:
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", str(SCALE)), *more.items()))


def record(decimal: Schema) -> Schema:
    """A schema with the decimal as a field, and as a part of everything that has parts."""
    inner = Schema(Type.STRUCT, name="Inner", optional=True, fields=(Field("d", decimal.as_optional()),))
    return Schema(Type.STRUCT, name="Order", fields=(
        Field("one", decimal.as_optional()), Field("list", Schema(Type.ARRAY, value=decimal)),
        Field("map", Schema(Type.MAP, key=STRING, value=decimal)), Field("inner", inner),
    ))  # fmt: skip


NARROW, WIDE = record(money()), record(money(**{PRECISION: "76"}))


def filled(number: Decimal) -> dict:
    return {"one": number, "list": [number, Decimal("0.001")], "map": [("k", number)], "inner": {"d": number}}


def avro(array, schema):
    node = parse(avro_text(NARROW, AvroOptions()))
    return AvroCodec(node).encode(avro_columns.from_connect(array, schema, node, AvroOptions()))


def from_avro(payloads):
    node = parse(avro_text(NARROW, AvroOptions()))
    return avro_columns.to_connect(AvroCodec(node).decode(payloads.to_pylist()), node, avro_schema(node, AvroOptions()))


PROTOBUF = ProtobufOptions(optional=True)


def message():
    files, _, name = protobuf_file(NARROW, PROTOBUF)
    schemas = Schemas(files)
    return schemas.message(schemas.index(name))


def protobuf(array, schema):
    own = message()
    return ProtobufCodec(own).encode(protobuf_columns.from_connect(array, schema, own, PROTOBUF))


def from_protobuf(payloads):
    own = message()
    wire = ProtobufCodec(own).decode(payloads)
    return protobuf_columns.to_connect(wire, own, protobuf_schema(own, PROTOBUF), PROTOBUF)


def json_schema(array, schema):
    return ConfluentWriter().write(array, schema).cast(pa.binary())


def from_json_schema(payloads):
    tape = read_tape(payloads)
    return ConfluentReader(tape, may_lack=True).read(NARROW, tape.roots)


def json_converter(form):
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true", "decimal.format": form}, is_key=False)
    return (lambda array, schema: converter.from_connect("t", array, {SCHEMA_KEY: to_text(schema).encode()}),
            lambda payloads: converter.to_connect("t", payloads)[0])


def handed_over(array, schema):
    return to_json(array, {SCHEMA_KEY: to_text(schema).encode()})[0]


FORMATS = {
    "avro": (avro, from_avro), "protobuf": (protobuf, from_protobuf), "JSON Schema": (json_schema, from_json_schema),
    "JSON": json_converter("BASE64"), "JSON numbers": json_converter("NUMERIC"),
    "handover": (handed_over, lambda payloads: from_json(payloads, to_text(NARROW))[0]),
}  # fmt: skip
LENGTHS = st.sampled_from([1, 20, 37, 38, 39, 45, 75, 76])
DIGITS = st.builds(lambda sign, length, number: sign * (number % 10 ** (length - 1) + 10 ** (length - 1)),
                   st.sampled_from([1, -1]), LENGTHS, st.integers(0, 10**76))


def scaled(number: int) -> Decimal:
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -SCALE))


@pytest.mark.parametrize("form", FORMATS)
@given(numbers=st.lists((DIGITS | st.just(0)).map(scaled), min_size=1, max_size=4))
def test_decimals_of_up_to_76_digits_round_trip(form, numbers):
    """Those of more than 38 were bad records unless their schema had a precision other than 64."""
    write, read = FORMATS[form]
    rows = [filled(number) for number in numbers]
    written = write(pa.array(rows, to_arrow(WIDE)), NARROW)
    found = read(written)
    found.validate(full=True)
    assert found.to_pylist() == rows
    usual = all(len(number.as_tuple().digits) <= 38 for number in numbers)
    assert pa.types.is_decimal128(found.type.field("one").type) == usual
    assert write(found, NARROW) == written
    if usual:
        assert write(pa.array(rows, to_arrow(NARROW)), NARROW) == written


def said(number: Decimal) -> list[bytes]:
    """What a number may be in a payload: bytes, Base64 or a JSON number."""
    raw = int(number.scaleb(SCALE, EXACT)).to_bytes(32, "big", signed=True)
    return [raw, base64.b64encode(raw), str(number).encode()]


@pytest.mark.parametrize("form", FORMATS)
def test_a_decimal_of_77_digits_is_one_bad_record(form):
    """Arrow has no type for it, so its bytes replace those of a number with as many bytes."""
    write, read = FORMATS[form]
    rows = [filled(scaled(number)) for number in (1, 10**75 + 7, 10**40)]
    payloads = write(pa.array(rows, to_arrow(WIDE)), NARROW).to_pylist()
    there, instead = (said(scaled(number)) for number in (10**75 + 7, 10**76 + 7))
    longer = [payloads[1], payloads[2]]
    for a, b in zip(there, instead, strict=True):
        longer[0] = longer[0].replace(a, b)
    assert longer[0] != payloads[1]
    with pytest.raises(BadRowError, match=r"76 digits|precision") as error:
        read(pa.array([payloads[0], *longer], pa.binary()))
    assert error.value.row == 1
    assert read(pa.array([payloads[0], payloads[2]], pa.binary())).to_pylist() == [rows[0], rows[2]]
