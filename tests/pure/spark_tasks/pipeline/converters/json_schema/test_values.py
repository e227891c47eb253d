"""JSON texts that do not match their schema."""

import pyarrow as pa
import pytest

from spark_tasks.data.schema import Schema, Type
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json_columns import read_tape
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
