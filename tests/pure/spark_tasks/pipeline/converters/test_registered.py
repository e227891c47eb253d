"""What the converters with a schema registry have in common: with which schema records are written and read."""

import json

import pyarrow as pa
import pytest

from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import Field, Schema, Type, to_text
from spark_tasks.errors import ConfigError
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.converters.json_schema.converter import JsonSchemaConverter
from spark_tasks.pipeline.converters.protobuf.converter import ProtobufConverter
from spark_tasks.registry.errors import UnknownSchemaError
from spark_tasks.registry.wire import framed
from tests.rigs.guid_registry import guid_registry

FAST = {"max.retries": "0", "retries.wait.ms": "0"}
CONVERTERS = {"AVRO": AvroConverter, "JSON": JsonSchemaConverter, "PROTOBUF": ProtobufConverter}
KINDS = pytest.mark.parametrize("kind", list(CONVERTERS))


@pytest.fixture
def registry():
    with guid_registry() as running:
        yield running


def made(kind, registry, **config):
    converter = CONVERTERS[kind]()
    converter.configure({"schema.registry.url": registry.url, **FAST, **config}, is_key=False)
    return converter


def register(registry, subject, kind, text, **properties):
    """Adds a version to the subject, with these properties in its metadata. Returns its id."""
    registry.schemas.append({"schema": text, "schemaType": kind, "metadata": {"properties": properties}})
    registry.subjects.setdefault(subject, []).append(len(registry.schemas))
    return len(registry.schemas)


def schema_text(kind, *fields):
    """A schema of records `R` with fields that are whole numbers of 64 bits."""
    if kind == "PROTOBUF":
        members = "".join(f"optional int64 {name} = {number};" for number, name in enumerate(fields, 1))
        return f'syntax = "proto3"; message R {{ {members} }}'
    if kind == "JSON":
        return json.dumps({"title": "R", "type": "object", "properties": {
            name: {"oneOf": [{"type": "null"}, {"type": "integer"}]} for name in fields}})
    return json.dumps({"type": "record", "name": "R", "fields": [
        {"name": name, "type": ["null", "long"], "default": None} for name in fields]})


def column(*names):
    """A record with these fields, which are 1."""
    number = Schema(Type.INT64, optional=True)
    schema = Schema(Type.STRUCT, name="R", fields=tuple(Field(name, number) for name in names))
    row = dict.fromkeys(names, 1)
    return pa.array([row], pa.struct([(name, pa.int64()) for name in names])), {SCHEMA_KEY: to_text(schema).encode()}


METADATA = "use.latest.with.metadata"
WORDS = {"auto.register.schemas": "false", METADATA: "application.version=v1"}


def versions(registry, kind):
    """Three versions of a subject; the second one is the last one of v1."""
    return [register(registry, "t-value", kind, schema_text(kind, *fields), **properties) for fields, properties in (
        (["a"], {"application.version": "v1", "team": "x"}),
        (["a", "b"], {"application.version": "v1", "team": "y"}),
        (["a", "b", "c"], {"application.version": "v2"}))]


@KINDS
def test_records_are_written_by_the_latest_schema_with_the_metadata(registry, kind):
    _, second, _ = versions(registry, kind)
    converter = made(kind, registry, **WORDS)
    [written] = converter.from_connect("t", *column("a", "b")).to_pylist()
    assert written[1:5] == second.to_bytes(4, "big")
    assert converter.to_connect("t", pa.array([written]))[0].to_pylist() == [{"a": 1, "b": 1}]


@KINDS
def test_records_are_read_as_those_of_the_latest_schema_with_the_metadata(registry, kind):
    """Also those that were written with a later one."""
    versions(registry, kind)
    writer = made(kind, registry)
    written = [writer.from_connect("other", *column(*names)).to_pylist()[0] for names in (["a"], ["a", "b", "c"])]
    reader = made(kind, registry, **WORDS)
    found = [reader.to_connect("t", pa.array([one]))[0].to_pylist() for one in written]
    assert found == [[{"a": 1, "b": None}], [{"a": 1, "b": 1}]]
    both = made(kind, registry, **{**WORDS, METADATA: "application.version=v1,team=x", "use.latest.version": "true"})
    assert [both.to_connect("t", pa.array([one]))[0].to_pylist() for one in written] == [[{"a": 1}], [{"a": 1}]]


@pytest.mark.parametrize(("config", "version"), [
    ({"auto.register.schemas": "true", "use.schema.id": "3"}, 4), ({"use.schema.id": "3"}, 3),
    ({"use.latest.version": "true"}, 2), ({"use.latest.version": "true", METADATA: ""}, 3),
])
def test_the_order_of_the_settings_that_choose_a_schema(registry, config, version):
    """As in Java: registration, use.schema.id, use.latest.with.metadata, use.latest.version."""
    versions(registry, "AVRO")
    found = made("AVRO", registry, **{**WORDS, "id.compatibility.strict": "false", **config}).from_connect(
        "t", *column("a", "b", "c", "d") if version == 4 else column("a", "b"))
    assert found[0].as_py()[1:5] == version.to_bytes(4, "big")


@KINDS
def test_a_schema_with_metadata_need_not_have_all_fields_of_the_records(registry, kind):
    """As in Java, latest.compatibility.strict concerns only use.latest.version."""
    versions(registry, kind)
    written = made(kind, registry, **WORDS).from_connect("t", *column("a", "z"))
    reader = made(kind, registry, **WORDS, **{"latest.compatibility.strict": "true"})
    assert reader.to_connect("t", written)[0].to_pylist() == [{"a": 1, "b": None}]


@pytest.mark.parametrize(("words", "name", "value"), [
    ("a/b=ü&=1", "a/b", "ü&=1"), ("'a=x,y'", "a", "x,y"), ("'a=it''s'", "a", "it's"), ("a=", "a", ""),
    ("a b= c,d=100%25", "a b", " c"),
])
def test_properties_may_have_any_characters(registry, words, name, value):
    """They have to arrive as they are; what has a comma is in single quotes."""
    schema_id = register(registry, "t-value", "AVRO", schema_text("AVRO", "a"), **{name: value, "d": "100%25"})
    register(registry, "t-value", "AVRO", schema_text("AVRO", "a", "b"))
    written = made("AVRO", registry, **{**WORDS, METADATA: words}).from_connect("t", *column("a"))
    assert written[0].as_py()[1:5] == schema_id.to_bytes(4, "big")


def test_without_a_schema_with_the_metadata_records_are_bad(registry):
    first, *_ = versions(registry, "AVRO")
    converter = made("AVRO", registry, **{**WORDS, METADATA: "application.version=v3"})
    for convert in (lambda: converter.from_connect("t", *column("a")),
                    lambda: converter.to_connect("t", framed(first, pa.array([b"\2\2"])))):
        with pytest.raises(BadRowsError, match=r"subject t-value, metadata application\.version=v3") as bad:
            convert()
        assert isinstance(bad.value.bad[0][1], UnknownSchemaError)
    asked = [path for path in registry.requests if "/metadata" in path]
    assert len(asked) == 1, "it is missing for a moment"


def test_the_latest_schema_with_metadata_is_asked_once(registry):
    versions(registry, "AVRO")
    converter = made("AVRO", registry, **WORDS)
    for _ in range(3):
        converter.to_connect("t", converter.from_connect("t", *column("a")))
    assert len([path for path in registry.requests if "/metadata" in path]) == 1
    kept_apart = made("AVRO", registry, **{**WORDS, METADATA: "team=x"})
    assert kept_apart.from_connect("t", *column("a"))[0].as_py()[1:5] == (1).to_bytes(4, "big")


def test_a_registry_without_metadata_fails_the_task(registry, monkeypatch):
    """Its response to the request is that it has no such path, without an error code."""
    first, *_ = versions(registry, "AVRO")
    answer = registry.answer
    monkeypatch.setattr(registry, "answer", lambda method, path, body: None if "/metadata" in path else answer(
        method, path, body))
    monkeypatch.setattr(registry, "unknown", {"title": "Not Found"})
    with pytest.raises(ConfigError, match=r"use\.latest\.with\.metadata needs a registry that supports metadata"):
        made("AVRO", registry, **WORDS).to_connect("t", framed(first, pa.array([b"\2\2"])))


@pytest.mark.parametrize("words", ["v1", "a=1,b", "a=1,", "'a=1", "a=1,a=2", "'a'x=1"])
def test_metadata_that_are_no_pairs_are_refused(words):
    """By the task and by validation."""
    config = {"schema.registry.url": "http://127.0.0.1:1", METADATA: words}
    with pytest.raises(ConfigError, match=r"for configuration use\.latest\.with\.metadata: must be") as error:
        AvroConverter().configure(config, is_key=False)
    found = AvroConverter.config_def.validate_all({**config, "converter.type": "value"})
    assert found[METADATA].errors == [str(error.value)]
