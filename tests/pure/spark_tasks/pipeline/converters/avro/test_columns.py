"""Connect values as Avro's values: unions, whose fields belong to branches."""

import io
import json

import fastavro
import pyarrow as pa
import pytest

from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.schema import Field, Schema, Type
from spark_tasks.pipeline.converters.avro import columns
from spark_tasks.pipeline.converters.avro import names as n
from spark_tasks.pipeline.converters.avro.codec import AvroCodec
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.to_avro import avro_text
from spark_tasks.pipeline.converters.avro.to_connect import connect_schema
from spark_tasks.pipeline.converters.avro.tree import parse
from spark_tasks.pipeline.converters.base import BadRowError

INT, LONG, TEXT = (Schema(kind, optional=True) for kind in (Type.INT32, Type.INT64, Type.STRING))
COLOR = Schema(Type.STRING, name="ns.Color", optional=True, parameters=(
    (n.ENUM, "ns.Color"), (f"{n.ENUM}.RED", "RED")))
SUM = {"parameters": ((n.SUM_UNION, "connect_union_0"),)}


def union(*, optional=True, name=n.UNION, parameters=(), **fields):
    return Schema(Type.STRUCT, name=name, optional=optional, parameters=parameters,
                  fields=tuple(Field(*one) for one in fields.items()))


def record(name, **fields):
    return Schema(Type.STRUCT, name=name, optional=True, fields=tuple(Field(*one) for one in fields.items()))


def written(schema, values, text=None, **options):
    """The values that a reader finds, each with its branch. `text`: of the schema to write with."""
    settings = AvroOptions(**options)
    text = text or avro_text(schema, settings)
    node = parse(text)
    wire = columns.from_connect(pa.array(values, to_arrow(schema)), schema, node, settings)
    read = fastavro.parse_schema(json.loads(text))
    return [fastavro.schemaless_reader(io.BytesIO(one), read, None, return_record_name=True)
            for one in AvroCodec(node).encode(wire).to_pylist()]


def test_an_enum_of_a_union_is_its_text():
    schema = union(Color=COLOR, long=LONG)
    assert written(schema, [{"Color": "RED"}, {"long": 1}, None, {}]) == ["RED", 1, None, None]


@pytest.mark.parametrize("names", [("Color", "long"), ("ns.Color", "long"), ("x", "y")])
def test_a_union_is_written_with_whatever_names_its_fields_have(names):
    """Java takes the value of the first field that is not null."""
    schema = union(**dict(zip(names, (COLOR, LONG), strict=True)))
    assert written(schema, [{names[0]: "RED"}, {names[1]: 1}], enhanced=True) == ["RED", 1]


def test_a_record_of_a_union_with_a_scrubbed_name_is_written():
    schema = union(**{"My-Rec": record("ns.My-Rec", a=INT), "long": LONG})
    assert written(schema, [{"My-Rec": {"a": 5}}, {"long": 1}], scrub=True) == [("ns.My_Rec", {"a": 5}), 1]


def test_generalized_unions_are_written_whether_null_was_last_or_first():
    """Its fields are numbered by the branches that were read."""
    read = connect_schema(parse('["int","long","null"]'), AvroOptions(sums=True))
    found = written(read, [{"connect_union_field_0": 7}, {"connect_union_field_1": 2**40}, None], sums=True)
    assert found == [7, 2**40, None]
    read = connect_schema(parse('["string","long","null"]'), AvroOptions(sums=True))
    assert written(read, [{"connect_union_field_1": 5}, {"connect_union_field_0": "a"}], sums=True) == [5, "a"]


@pytest.mark.parametrize("optional", [True, False])
def test_unions_of_one_type_are_written(optional):
    assert written(union(a=LONG, optional=optional), [{"a": 5}]) == [5]
    assert written(union(a=record("R", x=INT), optional=optional), [{"a": {"x": 1}}]) in (
        [{"x": 1}], [("R", {"x": 1})])


def test_fields_of_a_union_find_their_branches_in_another_schema():
    other = json.dumps(["null", {"type": "record", "name": "ns.B", "fields": [{"name": "a", "type": "int"}]}, "string",
                        {"type": "record", "name": "ns.A", "fields": [{"name": "a", "type": "int"}]}])
    schema = union(A=record("ns.A", a=INT), B=record("ns.B", a=INT), text=TEXT)
    values = [{"A": {"a": 1}}, {"B": {"a": 2}}, {"text": "x"}]
    assert written(schema, values, other) == [("ns.A", {"a": 1}), ("ns.B", {"a": 2}), "x"]
    assert written(union(A=LONG), [{"A": 5}], '"long"') == [5]


def test_of_two_values_of_a_union_the_first_is_written():
    assert written(union(a=INT, b=TEXT), [{"a": 1, "b": "x"}], '["null","string","int"]') == [1]


@pytest.mark.parametrize("other", ['["null","string"]', '["null","string","long"]', '["string","long"]', '"string"'])
def test_a_value_of_a_union_without_a_branch_is_a_bad_record(other):
    """It was written as null."""
    schema = union(text=TEXT, number=INT)
    assert written(schema, [{"text": "a"}], other) == ["a"]
    with pytest.raises(BadRowError, match="has no branch for number") as bad:
        written(schema, [{"text": "a"}, {"number": 1}], other)
    assert bad.value.row == 1


def test_maps_in_unions_are_written():
    pairs = Schema(Type.MAP, key=Schema(Type.INT32), value=Schema(Type.INT32), optional=True)
    listed = Schema(Type.ARRAY, value=Schema(Type.INT32), optional=True)
    assert written(union(map=pairs, long=LONG), [{"map": [(1, 2)]}]) == [[{"key": 1, "value": 2}]]
    found = written(union(array=listed, long=LONG), [{"array": [3]}, {"long": 1}])
    assert found == [[3], 1]


def test_a_union_without_a_value_is_a_bad_record_unless_it_is_optional():
    with pytest.raises(BadRowError, match="a union has no value"):
        written(union(a=INT, b=TEXT, optional=False), [{"a": 1}, {}])
