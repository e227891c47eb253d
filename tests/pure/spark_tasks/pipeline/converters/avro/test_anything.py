"""Schemaless values in Avro."""

import io
import json
import math

import fastavro
import pyarrow as pa
import pytest

from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.avro import anything, tree
from spark_tasks.pipeline.converters.avro.to_avro import ANYTHING
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.converters.python_values import to_python

_LIST, _IN_MAP = b"\0" * 7 + b"\2\2", b"\0" * 8 + b"\2\2" + b"\0" * 6 + b"\2\2a\0\0"  # each is followed by its item


def payload(value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ANYTHING), value)
    return out.getvalue()


@pytest.mark.parametrize("start", [_LIST, _IN_MAP])
@pytest.mark.parametrize("levels", [101, 500, 10_000])
def test_values_within_values_are_one_bad_record(levels, start):
    """Thousands of levels used to overflow the stack of the process, which ended it."""
    value = payload({"int": 7})
    hostile = start * levels + b"\0" * (9 + 2 * levels)
    with pytest.raises(BadRowsError, match="nested more than 100 levels deep") as bad:
        anything.read([value, hostile, value], 0)
    assert [row for row, _ in bad.value.bad] == [1]


@pytest.mark.parametrize("levels", [120, 900])
def test_types_that_use_each_other_by_name_are_not_nested_without_limit(levels):
    """Their text is not nested at all."""
    types = [{"type": "record", "name": f"R{n}", "fields": [{"name": "r", "type": f"R{n - 1}" if n else "int"}]}
             for n in range(levels)]
    with pytest.raises(DataError, match="nested more than 100 levels deep"):
        tree.parse(f'"R{levels - 1}"', [json.dumps(types)])
    assert tree.parse('"R90"', [json.dumps(types[:91])])


def test_values_of_nearly_100_levels_are_read():
    value, expected = {"long": 2**62}, 2**62
    for _ in range(49):
        value = {"array": [{"map": [{"key": {"string": "k"}, "value": value}]}]}
        expected = [{"k": expected}]
    found, metadata = anything.read([payload(value)], 0)
    assert to_python(found, metadata) == [expected]
    assert anything.write(found, metadata) == pa.array([payload(value)])


@pytest.mark.parametrize("other", [{"double": 1.5}, {"string": "x"}])
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"array": [value]},
                                  lambda value: {"map": [{"key": {"string": "k"}, "value": value}]}])
def test_numbers_that_json_does_not_have_are_values(wrap, other):
    """Infinities stay what they are. NaN becomes a text, as in JsonConverter; it used to be a bad record."""
    payloads = [payload(wrap(value)) for value in ({"double": math.inf}, {"float": -math.inf}, other)]
    found, metadata = anything.read(payloads, 0)
    written = anything.write(found, metadata).to_pylist()
    assert written == [payloads[0], payload(wrap({"double": -math.inf})), payloads[2]]
    found, metadata = anything.read([payload(wrap({"double": math.nan})), payloads[2]], 0)
    assert anything.write(found, metadata).to_pylist() == [payload(wrap({"string": "NaN"})), payloads[2]]


@pytest.mark.parametrize("index", ["01", "03"])
@pytest.mark.parametrize("place", range(9))
def test_a_negative_index_of_a_union_is_a_bad_record(index, place):
    hostile = b"\0" * place + bytes.fromhex(index) + b"\0" * 20
    with pytest.raises(BadRowsError):
        anything.read([hostile], 0)


def test_a_lack_of_memory_makes_no_bad_record(monkeypatch):
    """With errors.tolerance=all, the records were lost."""
    def lacking(*_, **__):
        raise MemoryError

    value = payload({"int": 7})
    monkeypatch.setattr(fastavro, "schemaless_reader", lacking)
    with pytest.raises(MemoryError):
        anything.read([value], 0)


@pytest.mark.parametrize(("kind", "name"), [
    (pa.int8(), "int"), (pa.int16(), "int"), (pa.int32(), "int"), (pa.int64(), "long"), (pa.float32(), "float"),
    (pa.float64(), "double"),
])
def test_a_number_without_a_schema_keeps_its_type(kind, name):
    """A partition that InsertField inserts was a long, and a float a double."""
    found = anything.write(pa.array([{"n": [5]}], pa.struct([("n", pa.list_(kind))])), {})
    entry = {"key": {"string": "n"}, "value": {"array": [{name: 5}]}}
    assert found.to_pylist() == [payload({"map": [entry]})]


@pytest.mark.parametrize(("kind", "value"), [(pa.binary(), b"x"), (pa.decimal128(5, 2), 1), (pa.date32(), 1)])
def test_a_value_of_another_class_is_refused(kind, value):
    with pytest.raises(DataError, match="Unknown Java type for schemaless data: class"):
        anything.write(pa.array([value], kind), {})
