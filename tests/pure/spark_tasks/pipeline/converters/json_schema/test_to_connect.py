"""JSON Schemas as Connect schemas: allOf across documents, and schemas that are invalid."""

import json

import pytest

from spark_tasks.data.schema import Field, Schema, Type, from_text, to_text
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.json_schema.names import JsonSchemaOptions
from spark_tasks.pipeline.converters.json_schema.to_connect import connect_schema

X = {"definitions": {"X": {"type": "boolean"}}}
LOCAL = {"$ref": "#/definitions/X"}


DEEP = json.loads("[" * 390 + "1" + "]" * 390)


def connect(definition, **references):
    texts = {name: json.dumps(one) for name, one in references.items()}
    return connect_schema(json.dumps(definition), texts, JsonSchemaOptions())


def test_local_references_of_a_schema_in_allof_stay_in_their_document():
    """They were looked up in the document with allOf, so that all records with such a schema were bad records."""
    base = {**X, "properties": {"x": LOCAL}, "allOf": [{"properties": {"y": LOCAL}}, {"$ref": "more"}]}
    more = {"definitions": {"X": {"type": "integer"}}, "properties": {"z": LOCAL}}
    own = {"definitions": {"X": {"type": "string"}}, "allOf": [{"$ref": "base"}], "properties": {"own": LOCAL}}
    found = connect(own, base=base, more=more)
    assert {field.name: field.schema.type for field in found.fields} == {
        "x": Type.BOOLEAN, "y": Type.BOOLEAN, "z": Type.INT64, "own": Type.STRING}


@pytest.mark.parametrize("part", [
    {"type": "array", "items": LOCAL}, {"oneOf": [LOCAL, {"type": "integer"}]},
    {"type": "object", "connect.type": "map", "additionalProperties": LOCAL},
])
def test_so_do_those_of_lists_unions_and_maps(part):
    schema = connect({"properties": {"a": {"allOf": [{"$ref": "base"}]}}, "type": "object"}, base={**X, **part})
    inner = schema.fields[0].schema
    assert (inner.value or inner.fields[0].schema).type is Type.BOOLEAN


def test_schemas_that_use_each_other_twice_do_not_take_forever():
    """Forty of them would be merged 2^40 times."""
    parts = {f"A{n}": {"allOf": [{"$ref": f"#/definitions/A{n + 1}"}] * 2} for n in range(40)}
    definitions = {**parts, "A40": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}}
    with pytest.raises(DataError, match="more than 20000 schemas"):
        connect({"definitions": definitions, "allOf": [{"$ref": "#/definitions/A0"}]})


@pytest.mark.parametrize(("more", "words"), [
    ({"properties": "a"}, "properties of a JSON schema are not an object: a"),
    ({"properties": {"a": {"type": "string", "connect.index": "1"}}}, "connect.index of a JSON schema is not an int"),
    ({"properties": {"a": {"type": "string", "connect.index": 1e999}}}, "connect.index"),
    ({"properties": {"a": {"type": "integer", "connect.type": ["int8"]}}}, "Unsupported type"),
    ({"properties": {"a": {"allOf": [{"$ref": "#"}]}}}, "contains itself"),
    ({"properties": {"a": {"type": "string", "default": DEEP}}}, "default .* is nested more than 100 levels deep"),
    ({"allOf": [{"properties": 5}]}, "properties of a JSON schema are not an object: 5"),
])
def test_invalid_schemas_are_refused(more, words):
    with pytest.raises(DataError, match=words):
        connect({"type": "object", **more})


def test_required_without_a_list_requires_nothing():
    """As in the third draft, where it is a boolean of each property."""
    assert connect({"type": "object", "required": True, "properties": {"a": {"type": "string"}}}).fields[0].name == "a"


NOTES = {"title": "T", "description": "d", "default": 5, "connect.type": "int32", "connect.version": 3}
ENUM = (("io.confluent.connect.json.Enum", ""), ("io.confluent.connect.json.Enum.a", "a"))


@pytest.mark.parametrize(("definition", "schema"), [
    ({"type": ["integer", "null"]}, Schema(Type.INT64, optional=True)),
    ({"type": ["string", "null"], "enum": ["a", None]}, Schema(Type.STRING, optional=True)),
    ({"type": "string", "enum": ["a"]}, Schema(Type.STRING, parameters=ENUM)),
    ({"type": "integer", "enum": [1, 2]}, Schema(Type.INT64)), ({"type": "string", "const": "a"}, Schema(Type.STRING)),
    ({"allOf": [{"type": "integer", "title": "X"}]}, Schema(Type.INT64, name="X")),
    ({"allOf": [{"enum": ["a"], "title": "X"}, {"type": "string"}]}, Schema(Type.STRING, name="X", parameters=ENUM)),
    ({"allOf": [{"properties": {"a": {"type": "string"}}, "title": "X"}, {"properties": {}}]},
     Schema(Type.STRUCT, fields=(Field("a", Schema(Type.STRING)),))),
])
def test_what_describes_a_combination_of_schemas_is_not_in_the_schema(definition, schema):
    """In Java it belongs to the combination. A default, such as that of a list of types, was set here."""
    assert connect({**definition, **NOTES}) == schema


def test_what_describes_a_single_type_is_in_the_schema():
    found = connect({"type": "integer", **NOTES})
    assert (found.type, found.name, found.doc, found.default, found.version) == (Type.INT32, "T", "d", "5", 3)
    assert connect({"enum": ["a"], "title": "T"}).name == "T"


def test_merged_properties_are_in_the_order_of_their_schemas():
    """Their connect.index is that within their own schema."""
    parts = [{"properties": {"z": {"type": "string", "connect.index": 1}, "y": {"type": "string", "connect.index": 0}}},
             {"properties": {"x": {"type": "string", "connect.index": 0}}}]
    assert [field.name for field in connect({"allOf": parts}).fields] == ["z", "y", "x"]
    assert [field.name for field in connect({"allOf": parts[:1]}).fields] == ["y", "z"]


LONG = "12345678901234567890.123"


def price(more=""):
    """The text of a schema of decimals."""
    return ('{"type":"number","title":"org.apache.kafka.connect.data.Decimal","connect.type":"bytes",'
            f'"connect.version":1,"connect.parameters":{{"scale":"3"}}{more}}}')


PARTS = f'{{"a":{price()},"b":{{"type":"number"}}}}'
ENTRY = f'{{"type":"object","properties":{{"key":{{"type":"number"}},"value":{price()}}}}}'


@pytest.mark.parametrize(("definition", "default"), [
    (price(f',"default":{LONG}'), LONG), (price(f',"default":-{LONG}'), f"-{LONG}"),
    (price(',"default":1.50'), "1.50"), (price(',"default":12345678901234567890'), "12345678901234567890"),
    ('{"type":"integer","default":9223372036854775807}', "9223372036854775807"),
    ('{"type":"integer","default":-9223372036854775807}', "-9223372036854775807"),
    ('{"type":"number","default":1.50}', "1.5"), ('{"type":"number","default":0.1}', "0.1"),
    (f'{{"type":"array","items":{price()},"default":[{LONG}]}}', f"[{LONG}]"),
    (f'{{"type":"object","properties":{PARTS},"default":{{"a":{LONG},"b":1.50}}}}', f'{{"a":{LONG},"b":1.5}}'),
    (f'{{"type":"object","connect.type":"map","additionalProperties":{price()},"default":{{"k":{LONG}}}}}',
     f'{{"k":{LONG}}}'),
    (f'{{"type":"array","connect.type":"map","items":{ENTRY},"default":[{{"key":1.50,"value":{LONG}}}]}}',
     f'[{{"key":1.5,"value":{LONG}}}]'),
])  # fmt: skip
def test_defaults_keep_all_digits(definition, default):
    """Also in the metadata of a column, from which writers have them. Floats are doubles, as in Java."""
    schema = connect_schema(definition, {}, JsonSchemaOptions())
    assert schema.default == default
    assert from_text(to_text(schema)) == schema


def test_a_default_beyond_all_exponents_is_no_crash():
    """Java's numbers have no such exponent, either."""
    assert connect_schema('{"type":"number","default":1e400}', {}, JsonSchemaOptions()).default == '"Infinity"'
    for parse in (lambda text: connect_schema(text, {}, JsonSchemaOptions()), from_text):
        with pytest.raises(DataError, match="exponent of 1e99999999999999999999 is too large"):
            parse('{"type":"number","default":1e99999999999999999999}')


def test_symbols_of_enums_that_are_numbers_are_as_they_are_written():
    found = connect_schema('{"enum":[1.50,12345678901234567890.123,1]}', {}, JsonSchemaOptions())
    assert [name.rpartition("Enum.")[2] for name, _ in found.parameters[1:]] == ["1.50", LONG, "1"]
