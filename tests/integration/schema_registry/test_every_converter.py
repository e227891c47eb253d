"""What all three converters have in common: existing schemas, registration, subjects."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import DECIMAL, Field, Schema, Type, from_text, to_text
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.registry.errors import RefusedSchemaError, UnknownSchemaError
from spark_tasks.registry.settings import RECORD_NAME, TOPIC_NAME, TOPIC_RECORD_NAME
from tests.rigs.registry_converters import avro, column, json_schema, one_field, protobuf

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PART = Schema(Type.STRUCT, name="far.Part", fields=(Field("x", Schema(Type.INT64)),))
WHOLE = Schema(Type.STRUCT, name="far.Whole", fields=(Field("part", PART), Field("word", Schema(Type.STRING))))
WHOLE_ROW = {"part": {"x": -(2**53) - 1}, "word": "grün"}
TEXTS = {  # of the part, its name in the reference, and the whole, which has a field or message more
    "avro": (
        {"type": "record", "name": "Part", "namespace": "far", "fields": [{"name": "x", "type": "long"}]}, "far.Part",
        {"type": "record", "name": "Whole", "namespace": "far", "fields": [
            {"name": "more", "type": "int", "default": 7}, {"name": "word", "type": "string"},
            {"name": "part", "type": "far.Part"}]}),
    "json": (
        {"type": "object", "properties": {"x": {"type": "integer"}}}, "part.json",
        {"title": "far.Whole", "type": "object", "properties": {
            "part": {"$ref": "part.json"}, "word": {"type": "string"}, "more": {"type": "integer"}}}),
    "protobuf": (
        'syntax = "proto3"; package far; message Part { int64 x = 1; }', "part.proto",
        """syntax = "proto3"; package far; import "part.proto"; message First {}
        message Whole { string word = 3; Part part = 9; int32 more = 12; }"""),
}  # fmt: skip
MADE = {"avro": avro, "json": json_schema, "protobuf": protobuf}
OWN = {"avro": {}, "json": {}, "protobuf": {"enhanced.protobuf.schema.support": "true"}}
KINDS = pytest.mark.parametrize("kind", list(MADE))


def register(registry, kind, subject, text, references=()):
    body = {"schemaType": kind.upper(), "schema": text if isinstance(text, str) else json.dumps(text),
            "references": list(references)}
    return registry.ask("POST", f"subjects/{subject}/versions", body)["id"]


def read_by_confluent(registry, kind, topic, payload):
    """The record as a dict, without the fields that it lacks."""
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url, "timeout": 30}) as client:
        if kind == "avro":
            return AvroDeserializer(client)(payload, context)
        if kind == "json":
            return JSONDeserializer(None, schema_registry_client=client)(payload, context)
        pool = descriptor_pool.DescriptorPool()
        file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="far", syntax="proto3")
        file.message_type.add(name="Part").field.add(name="x", number=1, type=3, label=1)
        file.message_type.add(name="First")
        whole = file.message_type.add(name="Whole")
        whole.field.add(name="word", number=3, type=9, label=1)
        whole.field.add(name="part", number=9, type=11, label=1, type_name=".far.Part")
        pool.AddSerializedFile(file.SerializeToString())
        found = ProtobufDeserializer(
            message_factory.GetMessageClass(pool.FindMessageTypeByName("far.Whole")), {"use.deprecated.format": False},
        )(payload, context)
        return {"part": {"x": found.part.x}, "word": found.word}


@KINDS
@pytest.mark.parametrize("how", ["use.latest.version", "use.schema.id"])
def test_records_are_written_by_a_schema_with_references(registry, kind, how):
    """Another one than the records' own, and Confluent's deserializers read them."""
    part, name, whole = TEXTS[kind]
    topic, subject = f"whole-{kind}-{how.replace('.', '-')}", f"part-{kind}-{how.replace('.', '-')}"
    register(registry, kind, subject, part)
    schema_id = register(registry, kind, f"{topic}-value", whole, [{"name": name, "subject": subject, "version": 1}])
    chosen = {"auto.register.schemas": "false", how: "true" if how == "use.latest.version" else str(schema_id)}
    converter = MADE[kind](registry, **chosen, **OWN[kind])
    [written] = converter.from_connect(topic, *column([WHOLE_ROW], WHOLE)).to_pylist()
    assert written[:5] == b"\0" + schema_id.to_bytes(4, "big")
    read = read_by_confluent(registry, kind, topic, written)
    assert {name: read[name] for name in WHOLE_ROW} == WHOLE_ROW
    [found] = converter.to_connect(topic, pa.array([written]))[0].to_pylist()
    assert {name: found[name] for name in WHOLE_ROW} == WHOLE_ROW
    assert found["more"] == {"avro": 7, "json": None, "protobuf": 0}[kind]


@KINDS
def test_records_that_do_not_fit_the_newest_schema_are_bad_records(registry, kind):
    topic = f"unfit-{kind}"
    part, *_ = TEXTS[kind]
    register(registry, kind, f"{topic}-value", part if kind != "json" else {
        **part, "title": "far.Part", "additionalProperties": False})
    converter = MADE[kind](registry, **{"auto.register.schemas": "false", "use.latest.version": "true"}, **OWN[kind])
    other = Schema(Type.STRUCT, name="far.Part", fields=(*PART.fields, Field("y", Schema(Type.STRING))))
    with pytest.raises(BadRowsError, match=r"Incompatible schema: .*y") as bad:
        converter.from_connect(topic, *column([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}], other))
    assert [row for row, _ in bad.value.bad] == [0, 1]
    assert len(converter.from_connect(topic, *column([{"x": 1}], PART))) == 1


@KINDS
def test_without_registration_no_schema_is_registered(registry, kind):
    topic, data = f"absent-{kind}", column([{"x": 1}], PART)
    converter = MADE[kind](registry, **{"auto.register.schemas": "false"}, **OWN[kind])
    with pytest.raises(BadRowsError) as bad:
        converter.from_connect(topic, *data)
    assert isinstance(bad.value.bad[0][1], UnknownSchemaError)
    assert f"{topic}-value" not in registry.ask("GET", "subjects")
    written = MADE[kind](registry, **OWN[kind]).from_connect(topic, *data)
    assert converter.from_connect(topic, *data) == written
    newest = MADE[kind](registry, **{"auto.register.schemas": "false", "use.latest.version": "true"}, **OWN[kind])
    with pytest.raises(BadRowsError) as bad:
        newest.from_connect(f"never-{kind}", *data)
    assert isinstance(bad.value.bad[0][1], UnknownSchemaError)


@KINDS
def test_every_converter_reports_incompatible_schemas_as_bad_records(registry, kind):
    topic = f"strict-{kind}"
    registry.ask("PUT", f"config/{topic}-value", {"compatibility": "FULL"})
    converter = MADE[kind](registry, **OWN[kind])
    converter.from_connect(topic, *column([{"a": 1}], one_field("a", Type.INT32)))
    with pytest.raises(BadRowsError, match=rf"{topic}-value: .*not compatible with earlier schemas") as bad:
        converter.from_connect(topic, *column([{"a": "x"}, {"a": "y"}], one_field("a", Type.STRING)))
    assert [row for row, _ in bad.value.bad] == [0, 1]
    assert isinstance(bad.value.bad[0][1], RefusedSchemaError)
    assert registry.ask("GET", f"subjects/{topic}-value/versions") == [1]


@KINDS
@pytest.mark.parametrize("strategy", [RECORD_NAME, TOPIC_RECORD_NAME])
def test_subjects_may_follow_the_record_name(registry, kind, strategy):
    """Writing, looking up without registration and reading use the same subject as Confluent's serializers."""
    topic, record = f"by-record-{kind}", f"far.Part{kind}{'T' if strategy == TOPIC_RECORD_NAME else ''}"
    schema = Schema(Type.STRUCT, name=record, fields=PART.fields)
    data = column([{"x": 1}], schema)
    config = {"value.subject.name.strategy": strategy, **OWN[kind]}
    written = MADE[kind](registry, **config).from_connect(topic, *data)
    subject = record if strategy == RECORD_NAME else f"{topic}-{record}"
    assert registry.ask("GET", f"subjects/{subject}/versions") == [1]
    assert f"{topic}-value" not in registry.ask("GET", "subjects")
    for chosen in ({}, {"use.latest.version": "true"}):
        fixed = MADE[kind](registry, **config, **{"auto.register.schemas": "false"}, **chosen)
        assert fixed.from_connect(topic, *data) == written
    found, said = MADE[kind](registry, **config).to_connect(topic, written)
    assert (found.to_pylist(), from_text(said[SCHEMA_KEY]).version) == ([{"x": 1}], 1)
    nameless = column([1], Schema(Type.INT32))
    if kind == "protobuf":  # a value alone becomes a message with a name
        return
    with pytest.raises(BadRowsError, match="must only be a record schema"):
        MADE[kind](registry, **config).from_connect(topic, *nameless)


EVOLVED = {  # two versions of a schema, a record of the first one, and what it is as one of the second
    "avro": ({"type": "record", "name": "R", "fields": [
                 {"name": "id", "type": "int"}, {"name": "old", "type": "string"}]},
             {"type": "record", "name": "R", "fields": [
                 {"name": "new", "type": "string", "default": "dflt"}, {"name": "id", "type": "long"}]},
             b"\2\2x", {"new": "dflt", "id": 1}),
    "json": ({"type": "object", "title": "R", "properties": {"id": {"type": "integer"}, "old": {"type": "string"}}},
             {"type": "object", "title": "R", "properties": {"id": {"type": "number"}, "new": {"type": "string"}}},
             b'{"id":1,"old":"x"}', {"id": 1.0, "new": None}),
    "protobuf": ('syntax = "proto3"; message First {} message R { int32 id = 1; string old = 2; }',
                 'syntax = "proto3"; message R { int64 id = 1; int32 new = 3; }',
                 b"\2\2\x08\1\x12\1x", {"id": 1, "new": 0}),
}  # fmt: skip


@KINDS
@pytest.mark.parametrize("strategy", [TOPIC_NAME, TOPIC_RECORD_NAME])
def test_records_are_read_as_those_of_the_newest_version(registry, kind, strategy):
    """With use.latest.version, as in Confluent's converters; with Apicurio's find-latest, only writing is affected."""
    old, new, payload, value = EVOLVED[kind]
    topic = f"evolved-{kind}-{strategy[-8:]}"
    subject = f"{topic}-value" if strategy == TOPIC_NAME else f"{topic}-R"
    first, _ = (register(registry, kind, subject, text) for text in (old, new))
    written = pa.array([b"\0" + first.to_bytes(4, "big") + payload, None])
    by_name = {"value.subject.name.strategy": strategy}
    found, said = MADE[kind](registry, **by_name, **{"use.latest.version": "true"}).to_connect(topic, written)
    assert found.to_pylist() == [value, None]
    assert from_text(said[SCHEMA_KEY]).version == (1 if kind == "avro" else 2)
    for other in ({}, {"apicurio.registry.find-latest": "true"}):
        own, _ = MADE[kind](registry, **by_name, **other).to_connect(topic, written)
        assert own.to_pylist()[0]["old"] == "x"


def test_avros_newest_version_is_read_as_confluents_deserializer_reads_it(registry):
    old, new, payload, value = EVOLVED["avro"]
    first, _ = (register(registry, "avro", "as-theirs-value", text) for text in (old, new))
    written = b"\0" + first.to_bytes(4, "big") + payload
    with SchemaRegistryClient({"url": registry.url, "timeout": 30}) as client:
        theirs = AvroDeserializer(client, conf={"use.latest.version": True})
        assert theirs(written, SerializationContext("as-theirs", MessageField.VALUE)) == value
    lacking = {"type": "record", "name": "R", "fields": [{"name": "needed", "type": "long"}]}
    register(registry, "avro", "as-theirs-value", lacking)
    with pytest.raises(BadRowsError, match=r"the field needed was not written") as bad:
        avro(registry, **{"use.latest.version": "true"}).to_connect("as-theirs", pa.array([None, written, written]))
    assert [row for row, _ in bad.value.bad] == [1, 2]


@KINDS
def test_the_newest_version_is_of_a_subject_that_exists_and_of_the_same_type(registry, kind):
    old, _, payload, _ = EVOLVED[kind]
    number = register(registry, kind, f"only-there-{kind}", old)
    written = pa.array([b"\0" + number.to_bytes(4, "big") + payload])
    converter = MADE[kind](registry, **{"use.latest.version": "true"})
    with pytest.raises(BadRowsError) as bad:
        converter.to_connect(f"not-there-{kind}", written)
    assert isinstance(bad.value.bad[0][1], UnknownSchemaError)
    other = "json" if kind == "avro" else "avro"
    register(registry, other, f"another-{kind}-value", EVOLVED[other][0])
    with pytest.raises(BadRowsError, match=f"the newest schema of the subject is of the type {other.upper()}, not"):
        converter.to_connect(f"another-{kind}", written)


@KINDS
def test_a_decimal_without_a_precision_may_have_76_digits(registry, kind):
    """AvroConverter registers it with the precision 64, as Java's does. Records with more than 38 digits were bad."""
    price = Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),))
    schema = Schema(Type.STRUCT, name="far.Priced", fields=(Field("price", price),))
    rows = [{"price": number} for number in map(Decimal, ("1.25", f"-{'9' * 62}.99", f"{'9' * 74}.99"))]
    array = pa.array(rows, pa.struct([("price", pa.decimal256(76, 2))]))
    metadata = {SCHEMA_KEY: to_text(schema).encode()}
    topic, converter = f"priced-{kind}", MADE[kind](registry, **OWN[kind])
    payloads = converter.from_connect(topic, array, metadata)
    assert converter.to_connect(topic, payloads)[0].to_pylist() == rows
    usual, _ = converter.to_connect(topic, payloads[:1])
    assert (usual.to_pylist(), usual.type.field("price").type) == (rows[:1], pa.decimal128(38, 2))
    if kind == "avro":  # fastavro rounds to the precision of the schema
        assert [read_by_confluent(registry, kind, topic, one) for one in payloads.to_pylist()[:2]] == rows[:2]
