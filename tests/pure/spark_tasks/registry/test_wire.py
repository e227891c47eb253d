"""GUIDs in headers (HeaderSchemaIdSerializer), beside confluent-kafka's serializers; a registry that gives GUIDs is
played over HTTP.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.serde import SchemaId
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.columns import HEADERS_TYPE, SCHEMA_KEY
from spark_tasks.data.schema import Field, Schema, Type, to_text
from spark_tasks.errors import ConfigError
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.pipeline.converters.json_schema.converter import JsonSchemaConverter
from spark_tasks.pipeline.converters.protobuf.converter import ProtobufConverter
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.registry.wire import with_header
from tests.rigs.guid_registry import guid_registry

IN_HEADERS = "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"
ORDER = Schema(Type.STRUCT, name="shop.Order", optional=True, fields=(
    Field("number", Schema(Type.INT64)), Field("text", Schema(Type.STRING))))
ROW = {"number": 7, "text": "grün"}


@pytest.fixture
def registry():
    with guid_registry() as running:
        yield running


def made(cls, registry, *, is_key=False, **config):
    converter = cls()
    part = "key" if is_key else "value"
    converter.configure({"schema.registry.url": registry.url, f"{part}.schema.id.serializer": IN_HEADERS, **config},
                        is_key=is_key)
    return converter


def written(converter, values, headers=None, schema=ORDER, topic="t"):
    """Pairs of bytes and headers."""
    given_ = pa.nulls(len(values), HEADERS_TYPE) if headers is None else pa.array(headers, HEADERS_TYPE)
    metadata = {SCHEMA_KEY: to_text(schema).encode()}
    found, beside = converter.with_headers(topic, pa.array(values, to_arrow(schema)), metadata, given_)
    pairs = [None if row is None else [(h["key"], h["value"]) for h in row] for row in beside.to_pylist()]
    return list(zip(found.to_pylist(), pairs, strict=True))


@pytest.mark.parametrize(("cls", "serializer", "deserializer"), [
    (AvroConverter, AvroSerializer, AvroDeserializer), (JsonSchemaConverter, JSONSerializer, JSONDeserializer)])
@pytest.mark.parametrize("is_key", [False, True])
def test_bytes_and_header_are_confluents(registry, cls, serializer, deserializer, is_key):
    converter = made(cls, registry, is_key=is_key)
    ((payload, headers),) = written(converter, [ROW])
    name = "__key_schema_id" if is_key else "__value_schema_id"
    assert [key for key, _ in headers] == [name]
    with SchemaRegistryClient({"url": registry.url, "timeout": 30}) as client:
        field = MessageField.KEY if is_key else MessageField.VALUE
        context = SerializationContext("t", field, headers=list(headers))
        text = registry.schemas[0]["schema"]
        reading = {"conf": {"schema.id.deserializer": dual_schema_id_deserializer}, "schema_registry_client": client}
        reads = deserializer(**reading, **({"schema_str": text} if cls is JsonSchemaConverter else {}))
        assert reads(payload, context) == ROW
        theirs = SerializationContext("t", field, headers=[])
        writes = serializer(schema_registry_client=client, schema_str=text,
                            conf={"schema.id.serializer": header_schema_id_serializer})
        own = writes(ROW, theirs)
    assert theirs.headers == headers
    assert (json.loads(own) if cls is JsonSchemaConverter else own) == (
        json.loads(payload) if cls is JsonSchemaConverter else payload)
    back = converter.to_connect("t", pa.array([payload]), pa.array([headers], HEADERS_TYPE))
    assert back[0].to_pylist() == [ROW]


def test_protobufs_message_index_is_in_the_header(registry):
    converter = made(ProtobufConverter, registry)
    ((payload, headers),) = written(converter, [ROW])
    guid = registry.guid(1)
    assert headers == [("__value_schema_id", SchemaId("PROTOBUF", guid=guid, message_indexes=[0]).guid_to_bytes())]
    prefixed = ProtobufConverter()
    prefixed.configure({"schema.registry.url": registry.url}, is_key=False)
    ((whole, nothing),) = written(prefixed, [ROW])
    assert (whole[5 + 1:], nothing) == (payload, None), "the same without id and index"
    back = converter.to_connect("t", pa.array([payload]), pa.array([headers], HEADERS_TYPE))
    assert back[0].to_pylist() == [ROW]


def test_a_record_without_bytes_has_no_header_and_others_keep_theirs(registry):
    own = [("mine", b"x")]
    found = written(made(AvroConverter, registry), [None, ROW, ROW, None], [own, None, own, None])
    header = ("__value_schema_id", b"\1" + SchemaId("AVRO", guid=registry.guid(1)).guid.bytes)
    assert [headers for _, headers in found] == [own, [header], [*own, header], None]
    assert [payload is None for payload, _ in found] == [True, False, False, True]


@pytest.mark.parametrize("config", [
    {"auto.register.schemas": "false"}, {"auto.register.schemas": "false", "use.latest.version": "true"},
    {"auto.register.schemas": "false", "use.schema.id": "1"}])
def test_guids_do_not_depend_on_how_the_schema_is_found(registry, config):
    first = written(made(AvroConverter, registry), [ROW])
    assert written(made(AvroConverter, registry, **config), [ROW]) == first
    assert first[0][1][0][1][1:] == SchemaId("AVRO", guid=registry.guid(1)).guid.bytes


def test_a_registry_without_guids_is_reported():
    with guid_registry(guids=False) as registry, pytest.raises(
            ConfigError, match=r"value\.schema\.id\.serializer: .* has none for schema 1; remove"):
        written(made(AvroConverter, registry), [ROW])


def test_records_of_a_source_have_guid_headers_for_key_and_value(registry):
    """They follow the headers that the source has set."""
    reported = {f"{part}.converter{more}": value for part in ("key", "value") for more, value in (
        ("", "io.confluent.connect.avro.AvroConverter"), (".schema.registry.url", registry.url),
        (f".{part}.schema.id.serializer", IN_HEADERS))}
    pipeline = SourcePipeline(reported, {"topic": "t"})
    batch = pa.record_batch({
        "key": pa.array(["k", None]), "value": pa.array([1, 2]),
        "headers": pa.array([[("h", b"x")], None], HEADERS_TYPE)})
    ((topic, _, raw),) = pipeline.to_raw(batch)
    assert topic == "t"
    names = [[h["key"] for h in row] for row in raw.column("headers").to_pylist()]
    assert names == [["h", "__key_schema_id", "__value_schema_id"], ["__value_schema_id"]]
    for part, values in (("key", ["k", None]), ("value", [1, 2])):
        converter = made(AvroConverter, registry, is_key=part == "key")
        assert converter.to_connect("t", raw.column(part), raw.column("headers"))[0].to_pylist() == values


_PAIRS = st.none() | st.lists(st.tuples(st.sampled_from(["a", "b"]), st.none() | st.binary(max_size=3)), max_size=3)


@given(st.lists(st.tuples(_PAIRS, st.booleans()), max_size=8), st.integers(0, 3))
def test_headers_keep_their_order_and_the_new_one_is_the_last(rows, cut):
    guid = "12345678-1234-1234-1234-123456789abc"
    headers = pa.array([pairs for pairs, _ in rows], HEADERS_TYPE).slice(cut)
    kept = rows[cut:]
    chosen = np.array([n for n, (_, chosen) in enumerate(kept) if chosen], np.int64)
    found = with_header(headers, chosen, guid, b"\0", is_key=True)
    found.validate(full=True)
    new = [("__key_schema_id", SchemaId("PROTOBUF", guid=guid, message_indexes=[0]).guid_to_bytes())]
    wanted = [[*(pairs or ()), *new] if chosen else pairs for pairs, chosen in kept]
    assert [None if row is None else [(h["key"], h["value"]) for h in row] for row in found.to_pylist()] == wanted


def test_a_header_that_a_record_has_already_is_not_added_again():
    """As with a record that is copied from another topic."""
    guid = "00000000-0000-0000-0000-000000000001"
    (own,) = with_header(pa.nulls(1, HEADERS_TYPE), np.array([0]), guid, is_key=False).to_pylist()
    other = {"key": own[0]["key"], "value": b"\1other"}
    given_ = pa.array([own, [*own, other], [other, *own], own, None], HEADERS_TYPE)
    found = with_header(given_, np.arange(5), guid, is_key=False).to_pylist()
    assert found == [own, [*own, other, *own], [other, *own], own, own]
    assert with_header(given_, np.array([0]), guid, b"\2", is_key=False).to_pylist()[0] != own
