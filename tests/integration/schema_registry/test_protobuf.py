"""Protobuf's converter beside confluent-kafka's serializers."""

from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import Field, Schema, Type, from_text
from spark_tasks.pipeline.converters.base import BadRowsError, MixedSchemasError
from tests.rigs.registry_converters import RECORD, ROW, column, one_field, protobuf

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PROTO_ROW = {**ROW, "tags": ["a", "b"]}  # Protobuf's lists have no nulls
WORDS = {"optional.for.nullables": "true", "enhanced.protobuf.schema.support": "true"}


def test_a_protobuf_round_trip_preserves_values_and_schemas(registry):
    """The registered text preserves kinds, scales and absent fields; tombstones are kept regardless of the schema."""
    values, metadata = column([PROTO_ROW, {**PROTO_ROW, "inner": None, "tags": [], "counts": []}, None], RECORD)
    converter = protobuf(registry, **WORDS)
    written = converter.from_connect("proto-orders", values, metadata).to_pylist()
    schema_id = registry.ask("GET", "subjects/proto-orders-value/versions/1")["id"]
    assert (written[0][:6], written[2]) == (b"\0" + schema_id.to_bytes(4, "big") + b"\0", None)
    found, said = converter.to_connect("proto-orders", pa.array(written, pa.binary()))
    assert repr(found.to_pylist()) == repr(values.to_pylist())
    schema = from_text(said[SCHEMA_KEY])
    assert (schema.name, schema.version) == ("shop.Order", 1)
    assert [one.schema.type for one in schema.fields] == [one.schema.type for one in RECORD.fields]
    with pytest.raises(BadRowsError) as bad:
        converter.to_connect("proto-orders", pa.array([written[0], written[0][:-2], written[0][:5], None]))
    assert [row for row, _ in bad.value.bad] in ([1, 2], [2])
    assert bad.value.bad[0][1].java_message == "Failed to deserialize data for topic proto-orders to Protobuf:"


def test_protobuf_is_interoperable_with_confluents_serializers(registry):
    """Each reads what the other writes, also with an imported file as a reference and a message that is not the first.

    """
    values, metadata = column([{"a": 2**53 + 1, "b": None}, {"a": -1, "b": "grün"}], Schema(
        Type.STRUCT, name="shop.One", fields=(
            Field("a", Schema(Type.INT64)), Field("b", Schema(Type.STRING, optional=True)))))
    written = protobuf(registry, **WORDS).from_connect("proto-theirs", values, metadata).to_pylist()
    context = SerializationContext("proto-theirs", MessageField.VALUE)
    pool = descriptor_pool.DescriptorPool()
    part = descriptor_pb2.FileDescriptorProto(name="part.proto", package="far", syntax="proto3")
    part.message_type.add(name="Part").field.add(name="x", number=1, type=3, label=1)
    whole = descriptor_pb2.FileDescriptorProto(
        name="whole.proto", package="far", syntax="proto3", dependency=["part.proto"])
    whole.message_type.add(name="First")
    message = whole.message_type.add(name="Second")
    message.field.add(name="part", number=1, type=11, label=1, type_name=".far.Part")
    message.field.add(name="words", number=7, type=9, label=3)
    one = descriptor_pb2.FileDescriptorProto(name="one.proto", package="shop", syntax="proto3")
    one.message_type.add(name="One").field.add(name="a", number=1, type=3, label=1)
    one.message_type[0].field.add(name="b", number=2, type=9, label=1)
    classes = {}
    for file in (part, whole, one):
        pool.AddSerializedFile(file.SerializeToString())
    for name in ("far.Second", "far.Part", "shop.One"):
        classes[name] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    read = ProtobufDeserializer(classes["shop.One"], {"use.deprecated.format": False})
    assert [(found.a, found.b) for found in (read(one, context) for one in written)] == [(2**53 + 1, ""), (-1, "grün")]
    with SchemaRegistryClient({"url": registry.url, "timeout": 30}) as client:
        write = ProtobufSerializer(classes["far.Second"], client, {"use.deprecated.format": False})
        theirs = write(classes["far.Second"](part=classes["far.Part"](x=-(2**63)), words=["w", ""]),
                       SerializationContext("proto-ours", MessageField.VALUE))
    found, said = protobuf(registry).to_connect("proto-ours", pa.array([theirs, None]))
    assert found.to_pylist() == [{"part": {"x": -(2**63)}, "words": ["w", ""]}, None]
    assert from_text(said[SCHEMA_KEY]).name == "Second"


def test_a_protobuf_schema_may_have_several_messages(registry):
    """A batch may mix them; records with an index of no message, or with a recursive schema, are bad records."""
    text = """syntax = "proto3"; package mix;
    message A { int32 x = 1; message Inner { string s = 1; } }
    message B { B again = 1; }"""
    ids = registry.ask("POST", "subjects/mix-value/versions", {"schemaType": "PROTOBUF", "schema": text})["id"]
    start = b"\0" + ids.to_bytes(4, "big")
    first, inner, cyclic = start + b"\0\x08\x05", start + b"\x04\0\0\x0a\x01s", start + b"\x02\x02"
    converter = protobuf(registry)
    with pytest.raises(MixedSchemasError) as mixed:
        converter.to_connect("mix", pa.array([None, first, inner, None]))
    assert [rows.tolist() for rows in mixed.value.rows_by_schema()] == [[0, 1], [2, 3]]
    assert converter.to_connect("mix", pa.array([inner, None]))[0].to_pylist() == [{"s": "s"}, None]
    for payload, words in ((cyclic, "contains itself"), (start + b"\x02\x0c", "no message at the index"),
                           (start + b"\x01", "message index")):
        with pytest.raises(BadRowsError, match=words):
            converter.to_connect("mix", pa.array([payload]))
    garbage = registry.ask("POST", "subjects/mix-garbage/versions", {"schemaType": "PROTOBUF", "schema": text})
    assert garbage["id"] == ids
    assert converter.to_connect("mix", pa.array([first]))[0].to_pylist() == [{"x": 5}]


def test_protobuf_supports_primitive_values_and_existing_schemas(registry):
    for schema, value in ((Schema(Type.INT64), 2**62), (Schema(Type.STRING), "x"), (Schema(Type.BYTES), b"\0")):
        topic = f"proto-alone-{schema.type.value}"
        converter = protobuf(registry, is_key=True)
        written = converter.from_connect(topic, *column([value, None], schema))
        assert converter.to_connect(topic, written)[0].to_pylist() == [value, None]
    text = 'syntax = "proto3"; package shop; message Other {} message One { string more = 1; int64 a = 5; }'
    ids = registry.ask("POST", "subjects/proto-newest-value/versions", {"schemaType": "PROTOBUF", "schema": text})["id"]
    latest = {"auto.register.schemas": "false", "use.latest.version": "true"}
    written = protobuf(registry, **latest).from_connect("proto-newest", *column([{"a": 1}], one_field("a", Type.INT64)))
    assert written[0].as_py() == b"\0" + ids.to_bytes(4, "big") + b"\x02\x02" + b"\x28\x01"
    with pytest.raises(BadRowsError, match=r"Incompatible schema: .* no field b"):
        protobuf(registry, **latest).from_connect("proto-newest", *column([{"b": 1}], one_field("b", Type.INT64)))
