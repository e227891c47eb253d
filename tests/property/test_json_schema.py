"""JSON Schema: schemas and values round-trip, and an error names a bad record."""

import dataclasses
import json
import math
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_tasks.data.schema import DECIMAL, STRING, Field, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.avro import names as avro_names
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json_columns import read_tape
from spark_tasks.pipeline.converters.json_schema.names import ENUM, JsonSchemaOptions
from spark_tasks.pipeline.converters.json_schema.to_connect import connect_schema
from spark_tasks.pipeline.converters.json_schema.to_json_schema import json_schema_text
from spark_tasks.pipeline.converters.json_schema.values import ConfluentReader, ConfluentWriter
from spark_tasks.pipeline.converters.json_typed import TypedReader
from tests.rigs.connect_values import arrow, records, same

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
        written = ConfluentWriter(numeric_decimals=numeric).write(array, schema)
        tape = read_tape(written.cast(pa.binary()))
        back = ConfluentReader(tape, may_lack=True).build(schema, tape.roots)
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
        [found] = ConfluentReader(tape, may_lack=True).build(schema, tape.roots).to_pylist()
        assert (found["n"], found["m"][0][1]) == (Decimal(number), Decimal(number))


ODD = st.sampled_from([None, True, -1, 2**40, 10**8, 1.5, "!", "AQ==", [], {}, [1], [[1]], [{"key": 1}], {"a": 1}])


@st.composite
def damaged(draw, value):
    """A JSON value in which some values are others, of any type."""
    if not draw(st.integers(0, 5)):
        return draw(ODD)
    if isinstance(value, dict):
        return {key: draw(damaged(one)) for key, one in value.items()}
    return [draw(damaged(one)) for one in value] if isinstance(value, list) else value


@pytest.mark.timeout(900)  # of the thorough profile
@settings(deadline=None)
@given(records(), st.data())
def test_an_error_names_a_bad_record(pair, data):
    """In both JSON formats. The pipeline takes the record that an error names for bad without another attempt."""
    schema, values = pair
    schema = changed(schema, default=None)
    texts = [json.loads(text) for text in ConfluentWriter().write(arrow(values, schema), schema).to_pylist()]
    payloads = [json.dumps(data.draw(damaged(one)) if data.draw(st.booleans()) else one).encode() for one in texts]
    for reader in (partial(TypedReader, replace_nulls=False), partial(ConfluentReader, may_lack=True)):
        alone = {row for row, payload in enumerate(payloads) if _error(reader, schema, [payload])}
        error = _error(reader, schema, payloads)
        assert (error is None) == (not alone)
        if isinstance(error, BadRowError):
            assert {row for row, _ in getattr(error, "bad", [(error.row, error)])} <= alone


def _error(reader, schema, payloads):
    tape = read_tape(pa.array(payloads, pa.binary()))
    try:
        reader(tape).build(schema, tape.roots)
    except DataError as error:
        return error
    return None
