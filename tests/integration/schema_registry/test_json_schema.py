"""JSON Schema's converter beside confluent-kafka's serializers."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import Field, Schema, Type, from_text
from spark_tasks.pipeline.converters.base import BadRowError, BadRowsError
from spark_tasks.registry.errors import RefusedSchemaError
from tests.rigs.registry_converters import RECORD, ROW, column, json_schema, one_field

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

JSON_ROW = {**ROW, "ratio": 0.25}  # NaN is a text in JSON, which Java's converter reads as 0


def test_a_json_schema_round_trip_preserves_values_and_schemas(registry):
    values, metadata = column([JSON_ROW, {**JSON_ROW, "inner": None, "tags": []}], RECORD)
    converter = json_schema(registry)
    written = converter.from_connect("json-orders", values, metadata).to_pylist()
    schema_id = registry.ask("GET", "subjects/json-orders-value/versions/1")["id"]
    assert written[0][:5] == b"\0" + schema_id.to_bytes(4, "big")
    assert json.loads(written[1][5:])["inner"] is None
    found, said = converter.to_connect("json-orders", pa.array([None, *written], pa.binary()))
    assert found.to_pylist() == [None, *values.to_pylist()]
    assert from_text(said[SCHEMA_KEY]).version == 1
    assert from_text(said[SCHEMA_KEY]).fields == RECORD.fields


def test_json_schema_is_interoperable_with_confluents_serializers(registry):
    """Each reads what the other writes, with a schema that has a reference; missing members are null."""
    values, metadata = column([{"a": 2**53 + 1, "b": None}], Schema(Type.STRUCT, name="One", fields=(
        Field("a", Schema(Type.INT64)), Field("b", Schema(Type.STRING, optional=True)))))
    written = json_schema(registry).from_connect("json-theirs", values, metadata)[0].as_py()
    registry.ask("POST", "subjects/part/versions", {"schemaType": "JSON", "schema": json.dumps(
        {"type": "object", "properties": {"x": {"type": "integer"}}})})
    whole = {"title": "Whole", "type": "object", "properties": {
        "part": {"$ref": "part.json"}, "either": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        "words": {"type": "array", "items": {"type": ["string", "null"]}}, "lacking": {"type": "boolean"}}}
    with SchemaRegistryClient({"url": registry.url, "timeout": 30}) as client:
        read = JSONDeserializer(None, schema_registry_client=client)(
            written, SerializationContext("json-theirs", MessageField.VALUE))
        assert read == {"a": 2**53 + 1, "b": None}
        described = ClientSchema(json.dumps(whole), "JSON", [SchemaReference("part.json", "part", 1)])
        context = SerializationContext("json-ours", MessageField.VALUE)
        theirs = JSONSerializer(described, client)({"part": {"x": 1}, "either": "s", "words": ["w", None]}, context)
    found, said = json_schema(registry).to_connect("json-ours", pa.array([theirs]))
    one_of = "io.confluent.connect.json.OneOf.field."
    assert found.to_pylist() == [{"part": {"x": 1}, "either": {f"{one_of}0": None, f"{one_of}1": "s"},
                                  "words": ["w", None], "lacking": None}]
    assert from_text(said[SCHEMA_KEY]).name == "Whole"


def test_json_that_violates_its_schema_is_refused_only_if_validation_is_on(registry):
    """Like Java's converter, it validates records if json.fail.invalid.schema is true, and otherwise converts them."""
    values, metadata = column([{"a": 1}, {"a": 2}], one_field("a", Type.INT32))
    written = json_schema(registry).from_connect("json-hurt", values, metadata).to_pylist()
    odd = written[0][:5] + b'{"a":"x"}'
    assert json_schema(registry).to_connect("json-hurt", pa.array([odd]))[0].to_pylist() == [{"a": 0}]
    for payload, config in ((odd, {"json.fail.invalid.schema": "true"}), (written[0][:5] + b"{", {})):
        with pytest.raises(BadRowError) as bad:
            json_schema(registry, **config).to_connect("json-hurt", pa.array([written[0], payload, written[1]]))
        assert bad.value.row == 1


@pytest.mark.parametrize(("schema", "value"), [
    (Schema(Type.INT32), 5),
    (Schema(Type.STRUCT, name="R", optional=True, fields=(Field("a", Schema(Type.INT32)),)), {"a": 1}),
])
def test_a_schema_that_apicurio_does_not_recognize_makes_bad_records(registry, schema, value):
    """It wants $schema, or an object with properties; its message says so."""
    with pytest.raises(BadRowsError, match=r"Failed to discover artifact type from content.*422") as bad:
        json_schema(registry).from_connect("unrecognized", *column([value, value], schema))
    assert [type(error) for _, error in bad.value.bad] == [RefusedSchemaError] * 2
