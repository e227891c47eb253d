"""Avro schemas to and from Connect's, in the words of Confluent's converter."""

import json
from dataclasses import replace

import fastavro
import pyruhvro
import pytest

from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.avro import names as n
from spark_tasks.pipeline.converters.avro.codec import AvroCodec
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.to_avro import avro_text
from spark_tasks.pipeline.converters.avro.to_connect import connect_schema
from spark_tasks.pipeline.converters.avro.tree import parse
from spark_tasks.pipeline.converters.base import BadRowsError

INT, TEXT = Schema(Type.INT32), Schema(Type.STRING)


def struct(name=None, /, **fields):
    optional = fields.pop("optional", False)
    return Schema(Type.STRUCT, name=name, optional=optional, fields=tuple(Field(*one) for one in fields.items()))


def written(schema, **options):
    return json.loads(avro_text(schema, AvroOptions(**options)))


def test_avro_schemas_equal_those_of_confluents_converter():
    """The text is the one that Confluent's converter registers."""
    schema = struct("shop.Order", id=Schema(Type.INT64), note=TEXT.as_optional(),
                    small=Schema(Type.INT8, default="5"), when=Schema(
                        Type.INT64, name="org.apache.kafka.connect.data.Timestamp", version=1),
                    price=Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),), optional=True))
    assert avro_text(schema, AvroOptions()) == (
        '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
        '{"name":"note","type":["null","string"],"default":null},'
        '{"name":"small","type":{"type":"int","connect.default":5,"connect.type":"int8"},"default":5},'
        '{"name":"when","type":{"type":"long","connect.version":1,'
        '"connect.name":"org.apache.kafka.connect.data.Timestamp","logicalType":"timestamp-millis"}},'
        '{"name":"price","type":["null",{"type":"bytes","scale":2,"precision":64,"connect.version":1,'
        '"connect.parameters":{"scale":"2"},"connect.name":"org.apache.kafka.connect.data.Decimal",'
        '"logicalType":"decimal"}],"default":null}],"connect.name":"shop.Order"}')
    assert "connect." not in avro_text(schema, AvroOptions(metadata=False))


def test_records_without_a_name_get_one_per_distinct_schema():
    """Equal schemas share one name."""
    inner, other = struct(x=INT), struct(y=INT)
    found = written(struct(a=inner, b=other, c=struct(x=INT, optional=True)))
    kinds = {one["name"]: one["type"] for one in found["fields"]}
    assert found["name"] == "ConnectDefault"
    assert kinds["a"]["name"] == "ConnectDefault2"
    assert kinds["b"]["name"] == "ConnectDefault3"
    assert kinds["c"] == ["null", "ConnectDefault2"]


def test_two_schemas_with_one_name_are_refused():
    with pytest.raises(DataError, match=r"two different schemas have the name a\.B"):
        written(struct("a.Top", one=struct("a.B", x=INT), two=struct("a.B", x=TEXT)))


def test_invalid_avro_names_are_refused_or_scrubbed():
    schema = struct("1.näme", **{"a-b": INT})
    with pytest.raises(DataError, match=r"scrub\.invalid\.names"):
        written(schema)
    found = written(schema, scrub=True)
    assert (found["namespace"], found["name"], found["fields"][0]["name"]) == ("x1", "n_C3_A4me", "a_b")
    assert AvroOptions(scrub=True).name("a~b") == "a_7Eb"


def test_avro_types_without_a_connect_equivalent_are_mapped():
    """Enums, fixed types, unions, docs, defaults, and logical types unknown to Connect."""
    text = json.dumps({"type": "record", "name": "R", "namespace": "s", "doc": "a record", "fields": [
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "default": "B", "doc": "an enum"},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "u", "type": ["null", "int", {"type": "record", "name": "V", "fields": []}]},
        {"name": "m", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "i", "type": {"type": "string", "logicalType": "uuid"}}]})
    found = connect_schema(parse(text), AvroOptions(), 3)
    fields = {field.name: field.schema for field in found.fields}
    assert (found.name, found.version) == ("s.R", 3)
    assert dict(found.parameters) == {n.RECORD_DOC: "a record", f"{n.FIELD_DOC}e": "an enum"}
    assert (fields["e"].type, fields["e"].default, fields["e"].name) == (Type.STRING, '"B"', "s.E")
    assert dict(fields["e"].parameters) == {
        n.ENUM: "s.E", f"{n.ENUM}.A": "A", f"{n.ENUM}.B": "B", n.FIELD_DEFAULT: "true"}
    assert (fields["f"].name, dict(fields["f"].parameters)) == ("s.F", {n.FIXED_SIZE: "2"})
    assert (fields["u"].name, fields["u"].optional) == (n.UNION, True)
    assert [field.name for field in fields["u"].fields] == ["int", "V"]
    assert [fields[name].type for name in ("m", "i")] == [Type.INT64, Type.STRING]
    assert [fields[name].name for name in ("m", "i")] == [None, None]


@pytest.mark.parametrize(("kind", "logical", "name"), [
    ("int", "Date", DATE), ("int", "TIME-millis", TIME), ("long", "Timestamp-Millis", TIMESTAMP),
    ("bytes", "DECIMAL", DECIMAL), ("int", "timestamp-millis", None), ("long", "date", None),
])
def test_the_case_of_logical_types_does_not_matter(kind, logical, name):
    """As in Java; other logical types of a type are ignored."""
    assert connect_schema(parse(json.dumps({"type": kind, "logicalType": logical})), AvroOptions()).name == name


@pytest.mark.parametrize(("text", "words"), [
    ("{", "not valid JSON"), ('"nothing"', "an undefined type nothing"), ('{"type":"array"}', "without items"),
    ("null", "a type"),
    ('{"type":"record","name":"L","fields":[{"name":"n","type":["null","L"]}]}', "contains itself"),
    ('{"type":"record","name":"L","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "the same name"),
    ("[" * 5000 + "]" * 5000, "valid JSON|levels deep"),
])
def test_invalid_schemas_are_refused(text, words):
    with pytest.raises(DataError, match=words):
        parse(text)


@pytest.mark.parametrize(("definition", "words"), [
    ({"type": "int", "connect.type": ["int8"]}, "Connect type annotation"),
    ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "not valid: All symbols in an enum must be unique"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 10**30}, "has no Arrow type"),
])
def test_schemas_with_an_invalid_part_are_refused(definition, words):
    node = parse(json.dumps(definition))
    with pytest.raises(DataError, match=words):
        AvroCodec(node), to_arrow(connect_schema(node, AvroOptions()))


def test_odd_properties_and_defaults_are_no_errors():
    """Properties of any type are texts, as in Java; a union without types has no default."""
    odd = {"type": "int", "avro.list": [1], "avro.map": {"a": None}, "avro.flag": True, "avro.none": None}
    definition = {"type": "record", "name": "R", "fields": [{"name": "a", "type": odd}, {
        "name": "u", "type": [], "default": 1}]}
    schema = connect_schema(parse(json.dumps(definition)), AvroOptions())
    parameters = dict(schema.fields[0].schema.parameters)
    assert (parameters["avro.list"], parameters["avro.flag"], parameters["avro.none"]) == ("[1]", "true", "null")
    assert schema.fields[1].schema.default is None


def test_exponentially_nested_schemas_are_refused():
    """Twenty lines name a million types."""
    fields = ["int"]
    for level in range(20):
        fields = [{"type": "record", "name": f"R{level}", "fields": [
            {"name": "a", "type": fields[0]}, {"name": "b", "type": f"R{level - 1}" if level else "int"}]}]
    with pytest.raises(DataError, match="more than 20000 types"):
        parse(json.dumps(fields[0]))


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
PAIR = {"type": "record", "name": "R", "fields": [{"name": "one", "type": ENUM}, {"name": "two", "type": "E"}]}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("definition", "payload", "value"), [
    (ENUM, "_", "C"), (["null", "int"], "_06", None), (["int", "null"], "_06", None),
    (["null", "int", "string"], "_0261", {"b1": None, "b2": "a"}), (["null", "boolean", ENUM], "04_", None),
    ({"type": "array", "items": ENUM}, "02_00", ["C"]), ({"type": "map", "values": ENUM}, "020261_00", [("a", "C")]),
    (PAIR, "_02", {"f0": "C", "f1": "B"}), (PAIR, "02_", {"f0": "B", "f1": "C"}),
])
def test_a_negative_index_of_an_enum_or_union_is_a_bad_record(definition, payload, value, fast):
    """fastavro, like Python, would count from the end."""
    codec = AvroCodec(parse(json.dumps(definition)), fast=fast)

    def with_index(zigzag):
        return bytes.fromhex(payload.replace("_", zigzag))

    if value is not None:
        assert codec.decode([with_index("04")]).to_pylist() == [value]
    negative = [with_index(zigzag) for zigzag in ("01", "03", "05", "ffffffffffffffffff01")]
    with pytest.raises(BadRowsError) as bad:
        codec.decode(negative)
    assert [row for row, _ in bad.value.bad] == [0, 1, 2, 3]


@pytest.mark.parametrize("default", ["NaN", "Infinity", "-1e400", "[NaN]"])
def test_a_default_that_is_no_number_of_json_is_ignored(default):
    """It would be read as 0, and a registry would refuse it."""
    kind = '{"type":"array","items":"double"}' if default.startswith("[") else '"double"'
    text = f'{{"type":"record","name":"R","fields":[{{"name":"x","type":{kind},"default":{default}}}]}}'
    schema = connect_schema(parse(text), AvroOptions())
    assert schema.fields[0].schema.default is None
    assert "default" not in written(schema)["fields"][0]


def test_defaults_that_avro_does_not_have_are_not_written():
    items = Schema(Type.ARRAY, value=Schema(Type.FLOAT64))
    inner = struct("In", x=items, optional=True)
    found = avro_text(struct("R", a=replace(items, default='["NaN"]'), b=replace(inner, default='{"x":["Infinity"]}'),
                             c=Schema(Type.FLOAT64, default='"NaN"')), AvroOptions())
    assert "default" not in found


@pytest.mark.parametrize(("schema", "default"), [
    (Schema(Type.FLOAT64), '"abc"'), (Schema(Type.BYTES), "1"), (Schema(Type.ARRAY, value=INT), "true"),
    (Schema(Type.MAP, key=TEXT, value=INT), '"ab"'), (struct(x=INT), "[]"),
])
def test_a_default_of_another_type_is_an_error_that_names_it(schema, default):
    with pytest.raises(DataError, match=r"the default .* is not a value of the type"):
        written(struct(a=replace(schema, default=default)))


def test_a_lack_of_memory_makes_no_bad_record(monkeypatch):
    """With errors.tolerance=all, the records were lost."""
    def lacking(*_, **__):
        raise MemoryError

    monkeypatch.setattr(fastavro, "schemaless_reader", lacking)
    monkeypatch.setattr(pyruhvro, "deserialize_array", lacking)
    with pytest.raises(MemoryError):
        AvroCodec(parse('"long"')).decode([b"\2"])


def test_a_field_has_the_parameters_of_its_type_if_an_earlier_field_has_this_type():
    """Those of lists and maps do not count, and where null is does not matter."""
    color = Schema(Type.STRING, name="s.Color", parameters=((n.ENUM, "s.Color"), (f"{n.ENUM}.A", "A")))
    schema = struct("s.R", listed=Schema(Type.ARRAY, value=color), first=color, second=color,
                    third=replace(color, optional=True), fourth=replace(color, optional=True, default='"A"'))
    fields = written(schema, enhanced=True)["fields"]
    assert [n.CONNECT_PARAMETERS in field for field in fields] == [False, False, True, True, True]
    assert fields[4]["type"] == ["Color", "null"]
    assert not any(n.CONNECT_PARAMETERS in field for field in written(schema)["fields"])


LISTS = {"type": "record", "name": "R", "fields": [
    {"name": "a", "type": {"type": "array", "items": "int"}},
    {"name": "m", "type": {"type": "map", "values": "string"}}]}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("definition", "payloads", "bad"), [
    ("long", ["02", "0200", "8001", "820001"], [1, 3]), ("string", ["026100", "0261"], [0]),
    (LISTS, ["02020000", "0202000000", "01020202020000", "0102020202000000"], [1, 3]),
    (LISTS, ["00020261026200", "0002026102620000"], [1]), ("string", ["02ff", "02ff00"], [1]),
])
def test_bytes_after_a_value_can_be_found(definition, payloads, bad, fast):
    """Also after lists in several blocks, whose lengths may be there, and numbers with more bytes than they need."""
    codec = AvroCodec(parse(json.dumps(definition)), fast=fast)
    for skip, prefix in ((0, ""), (5, "0000000007")):
        records = [bytes.fromhex(prefix + one) for one in payloads]
        assert codec.with_trailing_data(records, skip, codec.decode(records, skip)) == bad
