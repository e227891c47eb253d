"""Avro's converter beside confluent-kafka's serializers: round trips, ids, subjects, registration, bad records."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from spark_tasks.data.columns import HEADERS_TYPE, SCHEMA_KEY
from spark_tasks.data.schema import Field, Schema, Type, from_text
from spark_tasks.errors import ConfigError
from spark_tasks.pipeline.converters.base import BadRowsError, MixedSchemasError
from spark_tasks.registry.errors import UnknownSchemaError
from spark_tasks.registry.settings import RECORD_NAME, TOPIC_RECORD_NAME
from tests.rigs.registry_converters import RECORD, ROW, avro, column, one_field

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def test_an_avro_round_trip_preserves_values_and_schemas(registry):
    """Tombstones remain tombstones, absent fields are not null, and the schema has its version in the subject."""
    values, metadata = column([ROW, {**ROW, "inner": None, "tags": [], "counts": []}], RECORD)
    converter = avro(registry)
    written = converter.from_connect("orders", values, metadata).to_pylist()
    found, said = converter.to_connect("orders", pa.array([None, written[0], None, written[1]], pa.binary()))
    assert repr(found.to_pylist()) == repr([None, values[0].as_py(), None, values[1].as_py()])
    assert from_text(said[SCHEMA_KEY]).version == 1
    assert from_text(said[SCHEMA_KEY]).fields == RECORD.fields
    assert registry.ask("GET", "subjects/orders-value/versions") == [1]


def test_empty_records_and_primitive_keys_round_trip(registry):
    empty = Schema(Type.STRUCT, name="shop.Empty")
    converter = avro(registry, is_key=True)
    for schema, value in ((empty, {}), (Schema(Type.INT64), 2**62), (Schema(Type.STRING, optional=True), "x")):
        values, metadata = column([value, value], schema)
        topic = f"keys-{schema.type.value}"
        written = converter.from_connect(topic, values, metadata)
        found, _ = converter.to_connect(topic, written)
        assert found.to_pylist() == [value, value]
        assert registry.ask("GET", f"subjects/{topic}-key/versions") == [1]


def test_confluents_deserializer_reads_what_heeler_writes(registry):
    values, metadata = column([ROW], RECORD)
    written = avro(registry).from_connect("theirs", values, metadata)[0].as_py()
    with SchemaRegistryClient({"url": registry.url, "timeout": 30}) as client:
        read = AvroDeserializer(client)(written, SerializationContext("theirs", MessageField.VALUE))
    assert math.isnan(read["ratio"])
    assert {**read, "counts": list(read["counts"].items()), "ratio": 0} == {**values[0].as_py(), "ratio": 0}


def test_heeler_reads_what_confluents_serializer_writes(registry):
    """By two schemas, which one batch may mix; a schema may use another one by reference."""
    inner = {"type": "record", "name": "Inner", "namespace": "far", "fields": [{"name": "x", "type": ["null", "int"]}]}
    registry.ask("POST", "subjects/far-inner/versions", {"schema": json.dumps(inner)})
    outer = json.dumps({"type": "record", "name": "Outer", "namespace": "far", "fields": [
        {"name": "one", "type": "far.Inner"}, {"name": "two", "type": ["null", "far.Inner"], "default": None},
        {"name": "either", "type": ["int", "string", "bytes"]}]})
    plain = json.dumps({"type": "record", "name": "Plain", "fields": [{"name": "a", "type": "string"}]})
    context = SerializationContext("mixed", MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url, "timeout": 30}) as client:
        first = AvroSerializer(client, ClientSchema(outer, "AVRO", [SchemaReference("far.Inner", "far-inner", 1)]))
        second = AvroSerializer(client, plain)
        written = [first({"one": {"x": 1}, "two": None, "either": either}, context) for either in (5, "s", b"b")]
        written.append(second({"a": "z"}, context))
    converter = avro(registry)
    with pytest.raises(MixedSchemasError) as mixed:
        converter.to_connect("mixed", pa.array([None, *written]))
    assert [rows.tolist() for rows in mixed.value.rows_by_schema()] == [[0, 1, 2, 3], [4]]
    found, _ = converter.to_connect("mixed", pa.array(written[:3]))
    empty = {"int": None, "string": None, "bytes": None}
    assert found.to_pylist() == [
        {"one": {"x": 1}, "two": None, "either": {**empty, **either}}
        for either in ({"int": 5}, {"string": "s"}, {"bytes": b"b"})
    ]
    assert converter.to_connect("mixed", pa.array(written[3:]))[0].to_pylist() == [{"a": "z"}]


@pytest.mark.parametrize(("schema", "sent"), [
    ('"bytes"', [b"\xab\xcd", b"\x06abcd", b"\0"]), ('{"type":"bytes","connect.name":"shop.Raw"}', [b"\x06abc"]),
    ('{"type":"bytes","logicalType":"decimal","precision":64,"scale":2}', [b"\4\xd2", b"\1"]),
    ('["null","bytes"]', [b"abc"]),
])
def test_values_that_are_only_bytes_follow_the_id_without_their_length(registry, schema, sent):
    """In both directions, as in Confluent's serializers; the length of an optional value is written."""
    context, is_decimal = SerializationContext("raw", MessageField.VALUE), "decimal" in schema
    with SchemaRegistryClient({"url": registry.url, "timeout": 30}) as client:
        theirs = AvroSerializer(client, schema)
        written = [theirs(value, context) for value in sent]
        converter = avro(registry)
        found, metadata = converter.to_connect("raw", pa.array(written))
        values = [Decimal(int.from_bytes(value, "big")) / 100 if is_decimal else value for value in sent]
        assert found.to_pylist() == values
        ours = converter.from_connect("raw", found, metadata).to_pylist()
        assert [AvroDeserializer(client)(one, context) for one in ours] == sent
    assert [one[5:] for one in ours] == [one[5:] for one in written]


def test_an_empty_value_of_bytes_round_trips(registry):
    """Confluent's deserializer for Python refuses it."""
    values, metadata = column([b"", b"x"], Schema(Type.BYTES))
    found, _ = avro(registry).to_connect("raw-empty", avro(registry).from_connect("raw-empty", values, metadata))
    assert found == values


def test_schema_ids_may_be_in_headers(registry):
    values, metadata = column([5], Schema(Type.INT32))
    converter = avro(registry)
    written = converter.from_connect("in-headers", values, metadata)[0].as_py()
    headers = pa.array([[{"key": "__value_schema_id", "value": written[:5]}]], HEADERS_TYPE)
    payload = pa.array([written[5:]])
    assert converter.to_connect("in-headers", payload, headers)[0].to_pylist() == [5]
    prefixes_only = avro(registry, **{
        "value.schema.id.deserializer": "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdDeserializer"})
    with pytest.raises(BadRowsError, match=r"Error deserializing schema ID|Unknown magic byte"):
        prefixes_only.to_connect("in-headers", payload, headers)


def test_schema_guids_in_headers_need_a_registry_that_provides_them(registry):
    """Apicurio's registry has no GUIDs: tests/pure/spark_tasks/registry/test_wire.py tests one that has."""
    values, metadata = column([5], Schema(Type.INT32))
    in_headers = "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"
    with pytest.raises(ConfigError, match=r"value\.schema\.id\.serializer: .* has none for schema \d+; remove"):
        avro(registry, **{"value.schema.id.serializer": in_headers}).from_connect("guids", values, metadata)


@pytest.mark.parametrize(("strategy", "subject"), [
    (RECORD_NAME, "shop.Named"), (TOPIC_RECORD_NAME, "by-record-shop.Named")])
def test_subjects_follow_the_subject_name_strategy(registry, strategy, subject):
    named = Schema(Type.STRUCT, name="shop.Named", fields=(Field("a", Schema(Type.INT32)),))
    values, metadata = column([{"a": 1}], named)
    converter = avro(registry, **{"value.subject.name.strategy": strategy})
    written = converter.from_connect("by-record", values, metadata)
    assert registry.ask("GET", f"subjects/{subject}/versions") == [1]
    assert from_text(converter.to_connect("by-record", written)[1][SCHEMA_KEY]).version == 1
    with pytest.raises(BadRowsError, match="must only be a record schema"):
        converter.from_connect("by-record", *column([1], Schema(Type.INT32)))


def test_without_auto_registration_the_schema_must_exist(registry):
    converter = avro(registry, **{"auto.register.schemas": "false"})
    data = column([{"a": 1}], one_field("a", Type.INT32))
    with pytest.raises(BadRowsError) as bad:
        converter.from_connect("unregistered", *data)
    assert isinstance(bad.value.bad[0][1], UnknownSchemaError)
    written = avro(registry).from_connect("unregistered", *data)
    assert converter.from_connect("unregistered", *data) == written


def test_the_newest_version_of_the_subject_is_written(registry):
    """Fields have the order of that version; fields that a record lacks have its defaults."""
    newest = {"type": "record", "name": "One", "namespace": "shop", "fields": [
        {"name": "more", "type": "bytes", "default": "\u00ff"}, {"name": "a", "type": ["null", "long"]}]}
    schema_id = registry.ask("POST", "subjects/newest-value/versions", {"schema": json.dumps(newest)})["id"]
    latest = {"auto.register.schemas": "false", "use.latest.version": "true"}
    written = avro(registry, **latest).from_connect("newest", *column([{"a": 1}], one_field("a", Type.INT32)))
    assert written[0].as_py() == b"\0" + schema_id.to_bytes(4, "big") + b"\x02\xff\x02\x02"
    with pytest.raises(BadRowsError, match=r"Incompatible schema: .* no field b"):
        avro(registry, **latest).from_connect("newest", *column([{"b": 1}], one_field("b", Type.INT32)))
    given = {"auto.register.schemas": "false", "use.schema.id": str(schema_id)}
    assert avro(registry, **given).from_connect("newest", *column([{"a": 1}], one_field("a", Type.INT32))) == written


def test_only_damaged_records_are_reported_as_bad(registry):
    values, metadata = column([ROW, ROW, ROW], RECORD)
    converter = avro(registry)
    good = converter.from_connect("hurt", values, metadata).to_pylist()
    with pytest.raises(BadRowsError) as bad:
        converter.to_connect("hurt", pa.array([good[0], good[1][:-3], None, good[2][:9]]))
    assert [row for row, _ in bad.value.bad] == [1, 3]
    assert {error.java_message for _, error in bad.value.bad} == {
        "Failed to deserialize data for topic hurt to Avro:"}
    with pytest.raises(BadRowsError, match="Unknown magic byte"):
        converter.to_connect("hurt", pa.array([good[0], b"plain text"]))
    with pytest.raises(BadRowsError, match=r"schema 999999: .*not found"):
        converter.to_connect("hurt", pa.array([b"\0" + (999999).to_bytes(4, "big") + b"x"]))
