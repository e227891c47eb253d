"""What the references of JSON Schemas point to."""

import json

import pytest

from spark_tasks.data.schema import Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.json_schema.compatibility import check_fits
from spark_tasks.pipeline.converters.json_schema.converter import JsonSchemaConverter
from spark_tasks.pipeline.converters.json_schema.documents import with_definitions
from spark_tasks.pipeline.converters.json_schema.names import JsonSchemaOptions
from spark_tasks.pipeline.converters.json_schema.to_connect import connect_schema
from spark_tasks.pipeline.converters.registered import Registered
from spark_tasks.registry.client import SchemaText

ITEM, OTHER = {"type": "boolean"}, {"type": "string"}
ORDER = {"$id": "http://shop/order.json"}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


def refers(reference, **more):
    return {**more, "type": "object", "properties": {"a": {"$ref": reference}}}


CASES = [
    (refers("item.json", **ORDER), {"http://shop/item.json": ITEM}),
    (refers("http://shop/item.json", **ORDER), {"item.json": ITEM}),
    (refers("http://shop/item.json", id=ORDER["$id"]), {"item.json": ITEM}),
    (refers("./item.json"), {"item.json": ITEM}),
    (refers("sub/x.json", **ORDER), {"sub/x.json": {"$ref": "item.json"}, "sub/item.json": ITEM, "item.json": OTHER}),
    (refers("#/$defs/X", definitions={"X": ITEM}), {}),
    (refers("#/definitions/X", **{"$defs": {"X": ITEM}}), {}),
    (refers("#/definitions/X", definitions={"Y": OTHER}, **{"$defs": {"X": ITEM}}), {}),
    (refers("#/$defs/x/oneOf/1", **{"$defs": {"x": {"oneOf": [OTHER, ITEM]}}}), {}),
    (refers("#X", **{"$defs": {"x": {"$anchor": "X", **ITEM}}}), {}),
    (refers("#X", **DRAFT_7, definitions={"x": {"$id": "#X", **ITEM}}), {}),
    (refers("item.json#X", **ORDER, **DRAFT_7),
     {"item.json": {**DRAFT_7, "definitions": {"x": {"$id": "#X", **ITEM}}, **OTHER}}),
    (refers("/schemas/item", **ORDER, definitions={"x": {"$id": "/schemas/item", **ITEM}}), {}),
    (refers("http://shop/schemas/item#X", **ORDER, definitions={
        "x": {"$id": "/schemas/item", "definitions": {"y": {"$anchor": "X", **ITEM}}}, "y": {"$anchor": "X", **OTHER}}),
     {}),
    (refers("/b/c", definitions={"x": {"$id": "/b/c", "$ref": "#/definitions/y", "definitions": {"y": ITEM}},
                                 "y": OTHER}), {}),
    (refers("#/definitions/x/anyOf/0", definitions={"x": {"$id": "b/", "anyOf": [{"$ref": "c"}]}}), {"b/c": ITEM}),
]
ONLY_READ = [
    (refers("x.json", **ORDER), {"x.json": {"$id": "sub/x.json", "$ref": "item.json"}, "sub/item.json": ITEM}),
    (refers("sub/x.json", **ORDER), {"sub/x.json": {"$ref": "item.json"}, "item.json": ITEM}),
]


@pytest.mark.parametrize(("definition", "references"), CASES + ONLY_READ)
def test_a_reference_is_relative_to_the_schema_around_it(definition, references):
    """References were compared with names as texts, so that all records of such schemas were bad records."""
    texts = {name: json.dumps(one) for name, one in references.items()}
    found = connect_schema(json.dumps(definition), texts, JsonSchemaOptions())
    assert found.fields[0].schema.type is Type.BOOLEAN
    with pytest.raises(DataError, match="has the type boolean for a"):
        check_fits(json.dumps({"type": "object", "properties": {"a": OTHER}}), json.dumps(definition), texts)


@pytest.mark.parametrize(("definition", "references"), CASES)
def test_validation_follows_the_same_references(definition, references):
    converter = JsonSchemaConverter()
    converter.configure({"schema.registry.url": "http://127.0.0.1:1", "json.fail.invalid.schema": "true"}, is_key=False)
    texts = {name: SchemaText(json.dumps(one), "JSON") for name, one in references.items()}
    read = converter.reader(Registered(SchemaText(json.dumps(definition), "JSON"), texts), None, lambda _: 1)
    assert read([b'{"a":true}'], 0)[0].to_pylist() == [{"a": True}]


def test_references_within_an_embedded_schema_may_be_those_of_the_document():
    """Before draft 2019, implementations differ."""
    x = {"$id": "/b/c", "$ref": "#/definitions/y"}
    found = connect_schema(json.dumps(refers("/b/c", definitions={"x": x, "y": ITEM})), {}, JsonSchemaOptions())
    assert found.fields[0].schema.type is Type.BOOLEAN


@pytest.mark.parametrize("definition", [
    refers("nowhere.json", **ORDER), refers("http://[", **{"$id": "http://]"}), refers("#/x/1", x=[ITEM]),
    refers("#/x/" + "1" * 5000, x=[ITEM]), refers("#/x/-1", x=[ITEM]), refers("#/x/²", x=[ITEM, ITEM, ITEM]),
    refers("#X", enum=[{"$anchor": "X", **ITEM}]), refers("/c", const={"$id": "/c", **ITEM}), refers("#/properties/b"),
    refers("#/x/0", x="text"), refers("a" * 100_000),
])
def test_references_to_nothing_are_refused(definition):
    with pytest.raises(DataError, match=r"which (does not exist|is not among its references in the registry)$"):
        connect_schema(json.dumps(definition), {}, JsonSchemaOptions())


def test_ids_within_ids_do_not_take_forever():
    """Each URI would be as long as all ids around it, here 2 MB."""
    inner = {f"p{n}": {"$id": f"{n}"} for n in range(10_000)}
    for n in range(100):
        inner = {"x": {"$id": f"{'a' * 10_000}{n}/", "properties": inner}}
    text = json.dumps(refers("#/definitions/y", definitions={**inner, "y": ITEM}))
    assert connect_schema(text, {}, JsonSchemaOptions()).fields[0].schema.type is Type.BOOLEAN
    with pytest.raises(DataError, match="more than 20000 ids"):
        connect_schema(json.dumps(refers("x", x=[{"$id": "x"}] * 20_001)), {}, JsonSchemaOptions())


@pytest.mark.parametrize("other", [None, True, [1]])
def test_a_keyword_for_definitions_that_is_none_stays_as_it_is(other):
    """In older drafts, $defs is any unknown keyword."""
    assert with_definitions({"definitions": {"x": 1}, "$defs": other}) == {"definitions": {"x": 1}, "$defs": other}
    assert with_definitions({"$defs": other}) == {"$defs": other}
    assert with_definitions({"definitions": {"x": 1}}) == {"definitions": {"x": 1}, "$defs": {"x": 1}}
    both = {"definitions": {"x": 1, "y": 1}, "$defs": {"x": 2, "z": 2}}
    assert with_definitions(both) == {
        "definitions": {"x": 1, "y": 1, "z": 2}, "$defs": {"x": 2, "y": 1, "z": 2}}
