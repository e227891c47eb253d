"""json.fail.invalid.schema: schemas and their references, none of which is to be trusted."""

import http.server
import json
import math

import pytest

from spark_tasks.errors import ConfigError, DataError
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.converters.json_schema.converter import JsonSchemaConverter
from spark_tasks.pipeline.converters.registered import Registered
from spark_tasks.registry.client import SchemaText
from tests.rigs.listening import listening


def read(definition, payloads, *, validates="true", **references):
    converter = JsonSchemaConverter()
    url = "http://127.0.0.1:1"
    converter.configure({"schema.registry.url": url, "json.fail.invalid.schema": validates}, is_key=False)
    texts = {name: SchemaText(json.dumps(one), "JSON") for name, one in references.items()}
    reader = converter.reader(Registered(SchemaText(json.dumps(definition), "JSON"), texts), None, lambda _: 1)
    return reader([payload.encode() for payload in payloads], 0)[0].to_pylist()


def order(**more):
    return {"type": "object", "properties": {"a": {"type": "string"}}, **more}


@pytest.mark.parametrize("own", [{}, {"$id": "http://shop/schemas/order.json"}, {"$id": "/schemas/order.json"}])
def test_references_are_relative_to_the_id_of_their_schema(own):
    """All records with such a schema used to be bad records."""
    definition = order(**own, properties={"a": {"$ref": "x.json"}, "b": {"$ref": "x.json#/definitions/b"}})
    part = {**own, "type": "string", "definitions": {"b": {"$ref": "y.json"}}}
    references = {"x.json": part, "y.json": {"type": "integer"}}
    assert read(definition, ['{"a":"x","b":2}'], **references) == [{"a": "x", "b": 2}]
    with pytest.raises(BadRowsError, match="does not match its schema") as bad:
        read(definition, ['{"a":"x"}', '{"a":2}', '{"b":"x"}', '{"b":2}'], **references)
    assert [row for row, _ in bad.value.bad] == [1, 2]


@pytest.fixture
def elsewhere():
    """A server, and the paths of the requests that it gets."""
    paths = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *args):
            pass

    with listening(Handler) as server:
        yield f"http://127.0.0.1:{server.server_port}/secret", paths


def test_a_schema_causes_no_requests(elsewhere, tmp_path):
    url, paths = elsewhere
    file = tmp_path / "file.json"
    file.write_text('{"type":"string"}', encoding="utf-8")
    for uri in (url, file.as_uri()):
        for definition in (order(**{"not": {"$ref": uri}}), order(**{"if": {"$ref": uri}})):
            with pytest.raises(DataError, match=f"register {uri} as a reference"):
                read(definition, ['{"a":"x"}'])
    assert not paths


@pytest.mark.parametrize(("more", "words"), [
    ({"minProperties": "x"}, "not of type"), ({"patternProperties": {"(": {}}}, "regex"), ({"$id": "::::"}, "::::"),
    ({"not": {"$ref": "#/nowhere"}}, "nowhere"), ({"$schema": 5}, "not of type"), ({"$id": "http://["}, "IPv6"),
])
def test_an_invalid_schema_is_named_as_such(more, words):
    with pytest.raises(DataError, match=f"a JSON schema is not valid: .*{words}"):
        read(order(**more), ['{"a":"x"}'], **{"x.json": {"type": "string"}})


def test_a_record_without_content_is_the_only_bad_record():
    with pytest.raises(BadRowsError, match="does not match its schema") as bad:
        read(order(), ['{"a":"x"}', "", '{"a":"y"}'])
    assert [row for row, _ in bad.value.bad] == [1]


def test_a_setting_that_would_keep_more_than_heeler_keeps_is_refused():
    """Otherwise members that are not in the schema would be lost silently, although the user wants to keep them."""
    url, key = {"schema.registry.url": "http://127.0.0.1:1"}, "preserve.additional.properties"
    with pytest.raises(ConfigError, match=rf"Invalid value true for configuration {key}: must be false, .*dropped"):
        JsonSchemaConverter().configure({**url, key: "true"}, is_key=False)
    assert JsonSchemaConverter.config_def.validate_all({**url, "converter.type": "value", key: "true"})[key].errors
    JsonSchemaConverter().configure({**url, key: "false"}, is_key=False)


NUMBERS = order(properties={name: {"type": kind, "connect.type": own} for name, kind, own in (
    ("f", "number", "float64"), ("i", "integer", "int32"), ("l", "integer", "int64"), ("s", "integer", "int16"))})
WORDS = {  # what Jackson makes of them, as Confluent's converter sets it up
    "NaN": (math.nan, 0, 0, 0),
    "Infinity": (math.inf, 2**31 - 1, 2**63 - 1, -1), "+Infinity": (math.inf, 2**31 - 1, 2**63 - 1, -1),
    "+INF": (math.inf, 2**31 - 1, 2**63 - 1, -1),
    "-Infinity": (-math.inf, -(2**31), -(2**63), 0), "-INF": (-math.inf, -(2**31), -(2**63), 0),
    "1e400": (math.inf, 0, 0, 0),
}


@pytest.mark.parametrize("word", WORDS)
def test_words_for_numbers_that_json_does_not_have_are_read_as_by_java(word):
    texts = ['{"f":1.5,"i":1,"l":1,"s":1}', f'{{"f":{word} ,"i":{word},"l":{word},"s":{word}}}']
    found = read(NUMBERS, texts, validates="false")
    assert found[0] == {"f": 1.5, "i": 1, "l": 1, "s": 1}
    assert list(map(repr, found[1].values())) == list(map(repr, WORDS[word]))


@pytest.mark.parametrize("wrong", [
    "01", "-01", "00", "00.5", "INF", "+NaN", "-NaN", "nan", "NaNs", "Infinit", "+1", ".5"])
def test_what_java_takes_for_no_number_is_a_bad_record(wrong):
    for text in (f'{{"f":{wrong}}}', f'{{"i": {wrong} }}'):
        with pytest.raises(BadRowsError, match="not valid") as bad:
            read(NUMBERS, ['{"f":1.5}', text, '{"f":-0.5}'], validates="false")
        assert [row for row, _ in bad.value.bad] == [1]


def test_validation_refuses_words_for_numbers():
    with pytest.raises(BadRowsError) as bad:
        read(NUMBERS, ['{"f":1.5}', '{"f":NaN}'])
    assert [row for row, _ in bad.value.bad] == [1]
