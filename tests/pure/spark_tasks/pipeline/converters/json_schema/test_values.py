"""JSON texts as values of their schemas, and texts that do not match them."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_tasks.data.schema import Field, Schema, Type
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json_columns import read_tape
from spark_tasks.pipeline.converters.json_schema.names import ONE_OF
from spark_tasks.pipeline.converters.json_schema.values import ConfluentReader

NUMBERS = Schema(Type.MAP, key=Schema(Type.INT32), value=Schema(Type.INT32))


def read(schema, *payloads):
    tape = read_tape(pa.array([payload.encode() for payload in payloads]))
    return ConfluentReader(tape, may_lack=True).build(schema, tape.roots).to_pylist()


@pytest.mark.parametrize("bad", ['{"key":1}', '{"value":1}', "{}", "[1,2]", "5", '{"key":1,"value":2,"more":3}'])
def test_an_invalid_entry_of_a_map_is_one_bad_record(bad):
    """The error used to name the first record, or one that there was not."""
    entries = '[{"key":1,"value":2},{"value":4,"key":3}]'
    assert read(NUMBERS, entries, "[]", entries) == [[(1, 2), (3, 4)], [], [(1, 2), (3, 4)]]
    with pytest.raises(BadRowError, match="invalid map entry") as error:
        read(NUMBERS, entries, "[]", entries, f'[{{"key":1,"value":2}},{bad}]', entries)
    assert error.value.row == 3
    with pytest.raises(BadRowError, match="invalid map entry") as error:
        read(NUMBERS, "[]", f"[{bad}]")
    assert error.value.row == 1


def test_a_struct_may_have_thousands_of_fields_and_other_members():
    """All records with more than a thousand were bad records."""
    wide = Schema(Type.STRUCT, fields=tuple(Field(f"f{i}", Schema(Type.INT32)) for i in range(1500)))
    values = {f"f{i}": i for i in range(1500)}
    assert read(wide, json.dumps(values | {f"x{i}": i for i in range(1500)})) == [values]


def test_a_value_of_a_union_has_the_first_simple_type_or_else_the_struct_with_most_members():
    """A map after a struct was not considered."""
    small, large = (Schema(Type.STRUCT, optional=True, fields=tuple(Field(name, Schema(Type.INT32)) for name in names))
                    for names in ("a", "ab"))
    counts = Schema(Type.MAP, key=Schema(Type.STRING), value=Schema(Type.INT32), optional=True)
    union = Schema(Type.STRUCT, name=ONE_OF, fields=(Field("0", small), Field("1", large)))
    assert read(union, '{"a":1}', '{"a":1,"b":2}') == [{"0": {"a": 1}, "1": None}, {"0": None, "1": {"a": 1, "b": 2}}]
    with_map = replace(union, fields=(*union.fields, Field("2", counts)))
    assert read(with_map, '{"a":1}') == [{"0": None, "1": None, "2": [("a", 1)]}]
