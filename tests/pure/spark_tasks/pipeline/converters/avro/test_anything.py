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
    """Among values of other types, a float is a double, and NaN is a text, as in JsonConverter."""
    payloads = [payload(wrap(value)) for value in ({"double": math.inf}, {"float": -math.inf}, other)]
    found, metadata = anything.read(payloads, 0)
    written = anything.write(found, metadata).to_pylist()
    assert written == [payloads[0], payload(wrap({"double": -math.inf})), payloads[2]]
    found, metadata = anything.read([payload(wrap({"double": math.nan})), payloads[2]], 0)
    nan = {"double": math.nan} if "double" in other else {"string": "NaN"}
    assert anything.write(found, metadata).to_pylist() == [payload(wrap(nan)), payloads[2]]


def mapped(**values):
    return {"map": [{"key": {"string": name}, "value": value} for name, value in values.items()]}


@pytest.mark.parametrize("value", [
    {"int": 5}, {"long": 5}, {"float": 0.1}, {"double": 0.1}, {"double": math.nan}, {"float": math.nan},
    {"double": -0.0}, {"string": "5"}, {"boolean": True},
])
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"array": [value, {}, value]},
                                  lambda value: {"array": [{"array": []}, {"array": [value]}]},
                                  lambda value: mapped(a={"string": "x"}, b=value, c={"array": [mapped(d=value)]})])
def test_values_keep_their_types(wrap, value):
    """Integers became longs, floats doubles, and NaN a text."""
    payloads = [payload(wrap(value)), payload({}), payload(wrap(value))]
    found, metadata = anything.read(payloads, 0)
    assert metadata == {}
    assert anything.write(found, metadata).to_pylist() == payloads


def test_bytes_are_bytes():
    """They were a text. To write them without a schema is an error in Java."""
    found, metadata = anything.read([payload({"bytes": b"\xff"}), payload({"bytes": b""})], 0)
    assert (found, metadata) == (pa.array([b"\xff", b""]), {})


def test_values_of_several_types_do_not_change_the_types_of_others():
    """What a column cannot have is a value of JSON: an integer becomes a long there, and bytes are Base64."""
    rows = [mapped(a={"int": 1}, b={"int": 1}, c={"bytes": b"1"}, d={"bytes": b"1"}, e={"int": 1}),
            mapped(a={"int": 2}, b={"long": 2}, c={"bytes": b"2"}, d={"string": "x"}, e={}), mapped(a={"int": 3})]
    found, metadata = anything.read([payload(row) for row in rows], 0)
    assert metadata == {}
    assert {field.name: field.type for field in found.type} == {
        "a": pa.int32(), "b": pa.int64(), "c": pa.binary(), "d": pa.string(), "e": pa.string()}
    assert to_python(found, metadata) == [{"a": 1, "b": 1, "c": b"1", "d": "MQ==", "e": 1},
                                          {"a": 2, "b": 2, "c": b"2", "d": "x", "e": None}, {"a": 3}]


def test_maps_with_thousands_of_keys_are_not_columns():
    value = mapped(**{f"k{n}": {"int": n} for n in range(1001)})
    for payloads in ([payload(value)], [payload({"array": [value, {"int": 5}]})]):
        found, _ = anything.read(payloads, 0)
        assert "struct" not in str(found.type)


def test_keys_that_are_no_texts_become_texts():
    entries = [{"key": key, "value": {"int": n}} for n, key in enumerate(({"int": 7}, {"boolean": True}, {}))]
    found, metadata = anything.read([payload({"map": entries})], 0)
    assert to_python(found, metadata) == [{"7": 0, "true": 1, "null": 2}]


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
