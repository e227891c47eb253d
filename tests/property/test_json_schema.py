"""JSON Schema: schemas and values round-trip."""

import dataclasses
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings

from spark_tasks.data.schema import DECIMAL, STRING, Field, Schema, Type
from spark_tasks.pipeline.converters.avro import names as avro_names
from spark_tasks.pipeline.converters.json_columns import read_tape
from spark_tasks.pipeline.converters.json_schema.names import ENUM, JsonSchemaOptions
from spark_tasks.pipeline.converters.json_schema.to_connect import connect_schema
from spark_tasks.pipeline.converters.json_schema.to_json_schema import json_schema_text
from spark_tasks.pipeline.converters.json_schema.values import Reader, Writer
from tests.property.test_avro import arrow, records, same

OPTIONS = JsonSchemaOptions()


def changed(schema: Schema, **changes):
    """The schema with its enums in JSON Schema's words, and these changes everywhere."""
    inner = {
        "fields": tuple(Field(field.name, changed(field.schema, **changes)) for field in schema.fields),
        "key": schema.key and changed(schema.key, **changes),
        "value": schema.value and changed(schema.value, **changes),
        "parameters": tuple(
            (key.replace(avro_names.ENUM, ENUM), "" if key == avro_names.ENUM else value)
            for key, value in schema.parameters),
    }
    return dataclasses.replace(schema, **inner, **changes)


def as_json(value):
    """What JSON and its readers in Java leave of a number: no sign of zero, no NaN and no infinity."""
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else 0.0
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    return tuple(map(as_json, value)) if isinstance(value, tuple) else value


@pytest.mark.timeout(900)  # of the thorough profile
@settings(max_examples=settings().max_examples // 3, deadline=None)
@given(records())
def test_schemas_and_values_round_trip(pair):
    schema, values = pair
    described = changed(schema)
    assert connect_schema(json_schema_text(described, OPTIONS), {}, OPTIONS) == described
    schema = changed(schema, default=None)
    array = arrow(values, schema)
    for numeric in (False, True):
        written = Writer(numeric_decimals=numeric).write(array, schema)
        tape = read_tape(written.cast(pa.binary()))
        back = Reader(tape, may_lack=True).build(schema, tape.roots)
        back.validate(full=True)
        assert back.type == array.type
        assert same(back.to_pylist(), as_json(array.to_pylist()))


@pytest.mark.parametrize("number", [
    "9223372036854775808", "-009223372036854775809", "12345678901234567890.123", "0.1", "1.5e3", "-0"])
def test_decimals_keep_all_digits_in_rewritten_texts(number):
    """Texts with escapes in names are rewritten before they are read in columns."""
    decimal = Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", "3"),))
    schema = Schema(Type.STRUCT, fields=(Field("n", decimal), Field("m", Schema(Type.MAP, key=STRING, value=decimal))))
    for name in ("a", "\\ud800\\udc00"):
        tape = read_tape(pa.array([f'{{"n":{number},"m":{{"{name}":{number}}}}}'.encode()], pa.binary()))
        [found] = Reader(tape, may_lack=True).build(schema, tape.roots).to_pylist()
        assert (found["n"], found["m"][0][1]) == (Decimal(number), Decimal(number))
