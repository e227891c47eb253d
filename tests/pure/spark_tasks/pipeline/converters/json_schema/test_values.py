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


def test_a_map_with_a_null_key_is_a_bad_record():
    """Arrow ended the process."""
    optional = replace(NUMBERS, key=Schema(Type.INT32, optional=True))
    with pytest.raises(BadRowError, match="null key") as error:
        read(optional, "[]", '[{"key":1,"value":2},{"key":null,"value":1}]')
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


def struct(**fields):
    return Schema(Type.STRUCT, fields=tuple(Field(*one) for one in fields.items()))


TEXT, NUMBER = Schema(Type.STRING), Schema(Type.INT64)


def test_members_within_members_count_for_a_union_too():
    """Only the outermost members counted: the first struct was chosen, so the record was bad, or a value lost."""
    first, second = struct(a=struct(x=NUMBER, more=NUMBER)), struct(a=struct(y=NUMBER, deep=struct(z=NUMBER)))
    union = Schema(Type.STRUCT, name=ONE_OF, fields=(Field("0", first.as_optional()), Field("1", second.as_optional())))
    assert read(struct(v=union), '{"v":{"a":{"y":1,"deep":{"z":2}}}}', '{"v":{"a":{"x":3,"more":4}}}') == [
        {"v": {"0": None, "1": {"a": {"y": 1, "deep": {"z": 2}}}}}, {"v": {"0": {"a": {"x": 3, "more": 4}}, "1": None}}]
    loose = struct(a=struct(x=NUMBER.as_optional()).as_optional(), b=NUMBER.as_optional())
    other = struct(a=struct(y=NUMBER.as_optional()).as_optional())
    union = replace(union, fields=(Field("0", loose.as_optional()), Field("1", other.as_optional())))
    found = read(union, '{"a":{"y":1}}', '{"a":{"y":1},"b":2}', '{"a":null}', '{"a":null,"b":2}')
    assert [[name for name, value in row.items() if value is not None] for row in found] == [["1"], ["0"], ["0"], ["0"]]


def test_a_value_that_is_no_text_is_null_like_a_member_that_is_missing():
    """Java does not validate, and does not put null into the struct. The record was bad."""
    schema = struct(zip=TEXT, note=replace(TEXT, default='"x"'))
    assert read(schema, '{"zip":12345,"note":[1]}', '{"zip":"a"}', "{}") == [
        {"zip": None, "note": "x"}, {"zip": "a", "note": "x"}, {"zip": None, "note": "x"}]
    assert read(TEXT, "5", '"a"') == [None, "a"]
    with pytest.raises(BadRowError, match="Invalid null value for required STRING field"):
        read(schema, '{"zip":null}')


@pytest.mark.parametrize(("schema", "bad"), [
    (struct(inside=struct(a=NUMBER)), '{"inside":{}}'),
    (struct(inside=struct(a=TEXT)), '{"inside":{"a":5}}'),
    (struct(inside=Schema(Type.ARRAY, value=TEXT)), '{"inside":[5]}'),
    (struct(inside=Schema(Type.ARRAY, value=struct(a=NUMBER))), '{"inside":[{}]}'),
    (struct(inside=Schema(Type.MAP, key=TEXT, value=struct(a=NUMBER))), '{"inside":{"k":{}}}'),
    (Schema(Type.STRUCT, name=ONE_OF, fields=(Field("0", struct(a=NUMBER, b=NUMBER)),)), '{"a":1}'),
])
def test_what_is_put_into_a_struct_must_be_complete(schema, bad):
    """In Java, Struct.put validates its value. A missing member was null."""
    with pytest.raises(BadRowError, match="Invalid null value for required"):
        read(schema, bad)


def test_structs_in_an_outermost_list_may_lack_members():
    assert read(Schema(Type.ARRAY, value=struct(a=NUMBER)), '[{},{"a":1}]') == [[{"a": None}, {"a": 1}]]
    assert read(struct(inside=struct(a=NUMBER)), "{}") == [{"inside": None}]
