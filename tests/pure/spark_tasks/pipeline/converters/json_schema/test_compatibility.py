"""Which records fit a JSON Schema that is not made from their own schema."""

import json

import pytest

from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.json_schema.compatibility import check_fits

MINE = {"type": "object", "properties": {
    "n": {"type": "integer", "connect.type": "int32"}, "text": {"type": "string"},
    "perhaps": {"oneOf": [{"type": "null"}, {"type": "string"}]},
    "inner": {"type": "object", "properties": {"x": {"type": "number"}}},
    "list": {"type": "array", "items": {"type": "integer"}}}}  # fmt: skip


@pytest.mark.parametrize("theirs", [
    MINE, {}, True, {"type": ["object", "null"]}, {"type": "object", "additionalProperties": True},
    {"properties": {"n": {"type": "number"}, "perhaps": {"type": "integer"}, "inner": {"$ref": "#/nowhere"}}},
    {"oneOf": [{"type": "string"}, MINE]}, {"properties": {"text": {"enum": ["a"]}}, "required": ["n", "text"]},
    {"$ref": "#/definitions/a~1b", "definitions": {"a/b": MINE}}, {"$ref": "#"},
])
def test_schemas_that_the_records_fit_are_accepted(theirs):
    check_fits(json.dumps(MINE), json.dumps(theirs), {})


@pytest.mark.parametrize(("theirs", "why"), [
    ({"type": "string"}, "has the type string for records, which the records have as object"),
    ({"properties": {"n": {"type": "string"}}}, "has the type string for n, which the records have as integer"),
    ({"required": ["n", "more"]}, "requires more, which the records do not have"),
    ({"properties": {"n": {}}, "additionalProperties": False}, "has no field text, which the records have"),
    ({"properties": {"inner": {"$ref": "part.json#/parts/one"}}}, "has the type boolean for inner.x, which"),
    ({"properties": {"list": {"items": {"type": ["string", "null"]}}}}, r"has the type null or string for list\[\],"),
])
def test_schemas_that_the_records_do_not_fit_are_refused(theirs, why):
    part = {"parts": {"one": {"$ref": "other.json"}}}
    other = {"properties": {"x": {"type": "boolean"}}}
    references = {"part.json": json.dumps(part), "other.json": json.dumps(other)}
    with pytest.raises(DataError, match=rf"Incompatible schema: the schema to write with {why}"):
        check_fits(json.dumps(MINE), json.dumps(theirs), references)
