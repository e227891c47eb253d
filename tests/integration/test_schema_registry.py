"""Converters with a real schema registry (Apicurio's), compared with confluent-kafka's serializers."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import http.server
import json
import math
import threading
import traceback
import urllib.error
import urllib.parse
import urllib.request
from decimal import Decimal

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from spark_tasks.connectors.verify import read_summary
from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.columns import HEADERS_TYPE, SCHEMA_KEY
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type, from_text, to_text
from spark_tasks.errors import ConfigError, RetriableError
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.pipeline.converters.base import BadRowError, BadRowsError, MixedSchemasError
from spark_tasks.pipeline.converters.json_schema.converter import JsonSchemaConverter
from spark_tasks.pipeline.converters.protobuf.converter import ProtobufConverter
from spark_tasks.registry.errors import RefusedSchemaError, UnknownSchemaError
from spark_tasks.registry.settings import RECORD_NAME, TOPIC_RECORD_NAME
from tests.rigs.schema_registry import running_registry
from tests.rigs.support import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

UTC = dt.UTC
RECORD = Schema(Type.STRUCT, name="shop.Order", fields=(
    Field("small", Schema(Type.INT8)), Field("big", Schema(Type.INT64)), Field("text", Schema(Type.STRING)),
    Field("absent", Schema(Type.STRING, optional=True)), Field("ratio", Schema(Type.FLOAT64)),
    Field("single", Schema(Type.FLOAT32)), Field("raw", Schema(Type.BYTES)), Field("flag", Schema(Type.BOOLEAN)),
    Field("price", Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),))),
    Field("day", Schema(Type.INT32, name=DATE, version=1)), Field("at", Schema(Type.INT32, name=TIME, version=1)),
    Field("when", Schema(Type.INT64, name=TIMESTAMP, version=1)),
    Field("tags", Schema(Type.ARRAY, value=Schema(Type.STRING, optional=True))),
    Field("counts", Schema(Type.MAP, key=Schema(Type.STRING), value=Schema(Type.INT64))),
    Field("inner", Schema(Type.STRUCT, name="shop.Inner", optional=True, fields=(
        Field("x", Schema(Type.INT32, optional=True)),))),
))  # fmt: skip
ROW = {
    "small": -7, "big": -(2**63), "text": "grün 🍏", "absent": None, "ratio": float("nan"), "single": 0.5,
    "raw": b"\x00\xff", "flag": True, "price": Decimal("-12.30"), "day": dt.date(1969, 12, 31),
    "at": dt.time(23, 59, 59, 999000), "when": dt.datetime(2026, 11, 22, 1, 2, 3, 4000, tzinfo=UTC),
    "tags": ["a", None], "counts": [("k", 2**53 + 1)], "inner": {"x": None},
}  # fmt: skip


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def avro(registry, *, is_key=False, **config):
    converter = AvroConverter()
    converter.configure({**registry.converter, **config}, is_key=is_key)
    return converter


def column(values, schema):
    return pa.array(values, to_arrow(schema)), {SCHEMA_KEY: to_text(schema).encode()}


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
    assert mixed.value.ends == [4, 5]
    found, _ = converter.to_connect("mixed", pa.array(written[:3]))
    empty = {"int": None, "string": None, "bytes": None}
    assert found.to_pylist() == [
        {"one": {"x": 1}, "two": None, "either": {**empty, **either}}
        for either in ({"int": 5}, {"string": "s"}, {"bytes": b"b"})
    ]
    assert converter.to_connect("mixed", pa.array(written[3:]))[0].to_pylist() == [{"a": "z"}]


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


def _with(name, kind):
    return Schema(Type.STRUCT, name="shop.One", fields=(Field(name, Schema(kind)),))


def test_without_auto_registration_the_schema_must_exist(registry):
    converter = avro(registry, **{"auto.register.schemas": "false"})
    data = column([{"a": 1}], _with("a", Type.INT32))
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
    written = avro(registry, **latest).from_connect("newest", *column([{"a": 1}], _with("a", Type.INT32)))
    assert written[0].as_py() == b"\0" + schema_id.to_bytes(4, "big") + b"\x02\xff\x02\x02"
    with pytest.raises(BadRowsError, match=r"Incompatible schema: .* no field b"):
        avro(registry, **latest).from_connect("newest", *column([{"b": 1}], _with("b", Type.INT32)))
    given = {"auto.register.schemas": "false", "use.schema.id": str(schema_id)}
    assert avro(registry, **given).from_connect("newest", *column([{"a": 1}], _with("a", Type.INT32))) == written


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


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with JSON. Its server has the attributes that `listening` was given."""

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def listening(handler, **attributes):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    vars(server).update(attributes)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Door(Answers):
    """A proxy in front of the registry: accepts requests with the right header, and reports to be busy while `busy`."""

    def _pass(self):
        body = self.body() or None
        self.server.seen += 1
        self.server.headers = self.headers
        if self.server.busy:
            self.answer(503, b"{}")
            return
        if self.server.wanted not in (None, self.headers.get("Authorization")):
            self.answer(401, b'{"error_code": 401, "message": "who are you?"}')
            return
        request = urllib.request.Request(self.server.target + self.path, body, method=self.command,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                self.answer(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            self.answer(error.code, error.read())

    do_GET = do_POST = _pass  # noqa: N815 - its base class asks for these


@pytest.fixture
def door(registry):
    with listening(Door, target=registry.url, wanted=None, busy=False, seen=0) as server:
        yield server


def through(door, **config):
    converter = AvroConverter()
    converter.configure({"schema.registry.url": f"http://127.0.0.1:{door.server_port}", "max.retries": "0", **config},
                        is_key=False)
    return converter


@pytest.mark.parametrize(("wanted", "config"), [
    ("Basic dTpw", {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "u:p"}),
    ("Bearer t", {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "t"}),
])
def test_registry_requests_are_authenticated(door, wanted, config):
    door.wanted = wanted
    data = column([1], Schema(Type.INT32))
    assert len(through(door, **config).from_connect("guarded", *data)) == 1
    with pytest.raises(ConfigError, match="who are you"):
        through(door).from_connect("guarded", *data)


class TokenEndpoint(Answers):
    """Gives tokens of a minute: "token-1", "token-2", … to the client "heeler"; another client is refused."""

    def do_POST(self):
        form = urllib.parse.parse_qs(self.body().decode())
        self.server.asked.append(form)
        basic = base64.b64encode(b"heeler:sweet").decode()
        if self.server.down:
            status, body = 503, {"error": "temporarily_unavailable"}
        elif self.headers.get("Authorization") != f"Basic {basic}":
            status, body = 401, {"error": "invalid_client"}
        else:
            token = f"token-{len(self.server.asked)}"
            self.server.door.wanted = f"Bearer {token}"
            status, body = 200, {"access_token": token, "token_type": "Bearer", **self.server.lasts}
        self.answer(status, json.dumps(body).encode())


@pytest.fixture
def tokens(door):
    with listening(TokenEndpoint, asked=[], down=False, lasts={"expires_in": 60}, door=door) as server:
        server.settings = {
            "bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.client.id": "heeler",
            "bearer.auth.client.secret": "sweet", "bearer.auth.scope": "schemas",
            "bearer.auth.issuer.endpoint.url": f"http://127.0.0.1:{server.server_port}/token",
        }  # fmt: skip
        yield server


def test_oauth_tokens_are_requested_and_reused_until_they_expire(door, tokens):
    """One token serves all requests until it is about to expire, also if the server does not say when."""
    door.wanted = "Bearer none yet"
    data = column([1], Schema(Type.INT32))
    converter = through(door, **tokens.settings)
    for topic in ("by-token", "by-the-same-token"):
        assert len(converter.from_connect(topic, *data)) == 1
    assert tokens.asked == [{"grant_type": ["client_credentials"], "scope": ["schemas"]}]
    assert door.wanted == "Bearer token-1"
    for lasts, asked in (({"expires_in": -1}, 3), ({}, 4), ({"expires_in": "60"}, 5)):
        tokens.lasts = lasts
        another = through(door, **{**tokens.settings, "bearer.auth.scope": f"token {asked}"})
        for topic in (f"by-token-{asked}", f"by-the-same-{asked}"):
            assert len(another.from_connect(topic, *data)) == 1
        assert len(tokens.asked) == asked, lasts


def test_tokens_are_sent_with_confluent_clouds_headers(door, tokens):
    door.wanted = "Bearer none yet"
    more = {"bearer.auth.logical.cluster": "lsrc-1", "bearer.auth.identity.pool.id": "pool-1"}
    for config in ({**tokens.settings, **more},
                   {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "token-1", **more}):
        assert len(through(door, **config).from_connect("in-the-cloud", *column([1], Schema(Type.INT32)))) == 1
        assert (door.headers["target-sr-cluster"], door.headers["Confluent-Identity-Pool-Id"]) == ("lsrc-1", "pool-1")


def test_refused_oauth_credentials_fail_the_task_and_an_outage_is_retried(door, tokens):
    """Refused credentials fail the task at once, and no message has the secret. An outage is retried."""
    data = column([1], Schema(Type.INT32))
    wrong = through(door, **{**tokens.settings, "bearer.auth.client.secret": "bitter"})
    with pytest.raises(ConfigError, match="invalid_client") as refused:
        wrong.from_connect("no-token", *data)
    assert "bitter" not in "".join(traceback.format_exception(refused.value))
    tokens.down = True
    quick = {"retries.wait.ms": "1", "retries.max.wait.ms": "1"}
    away = through(door, **tokens.settings, **quick)
    with pytest.raises(RetriableError, match="cannot be reached"):
        away.from_connect("no-token", *data)
    tokens.down = False
    assert len(wait_until(lambda: _written(away, data), 20, "a token")) == 1


def _written(converter, data):
    try:
        return converter.from_connect("token-later", *data)
    except RetriableError:
        return None


@pytest.mark.parametrize(("login", "wanted"), [
    ("user:pass-word", b"user:pass-word"), ("me%40home:p%3Aw%2F%25", b"me@home:p:w/%")])
def test_a_user_and_a_password_may_be_in_the_url(door, login, wanted):
    """Characters that are special in URLs are escaped; no error shows the login."""
    door.wanted = f"Basic {base64.b64encode(wanted).decode()}"
    data = column([1], Schema(Type.INT32))
    url = f"http://{login}@127.0.0.1:{door.server_port}"
    assert len(through(door, **{"schema.registry.url": url}).from_connect("in-the-url", *data)) == 1
    door.wanted = "Basic of somebody else"
    with pytest.raises(ConfigError, match="who are you") as refused:
        through(door, **{"schema.registry.url": url}).from_connect("in-the-url-too", *data)
    assert login.partition(":")[2] not in "".join(traceback.format_exception(refused.value))
    both = {"schema.registry.url": url, "basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "a:b"}
    door.wanted = f"Basic {base64.b64encode(b'a:b').decode()}"
    assert len(through(door, **both).from_connect("in-the-url", *data)) == 1, "the source decides"


def test_an_unreachable_registry_delays_records_but_fails_none(door):
    """Known ids continue to work, other requests wait without being sent, and several URLs replace each other."""
    converter = through(door, **{"retries.wait.ms": "60000", "retries.max.wait.ms": "60000"})
    data = column([1], Schema(Type.INT32))
    written = converter.from_connect("away", *data)
    assert converter.to_connect("away", written)[0].to_pylist() == [1]
    door.busy = True
    assert converter.from_connect("away", *data) == written
    assert converter.to_connect("away", written)[0].to_pylist() == [1]
    with pytest.raises(RetriableError, match="cannot be reached"):
        converter.from_connect("another", *data)
    seen = door.seen
    with pytest.raises(RetriableError, match="the next attempt is in"):
        converter.to_connect("away", pa.array([b"\0" + (77).to_bytes(4, "big")]))
    assert door.seen == seen
    both = through(door, **{"schema.registry.url": f"http://127.0.0.1:{door.server_port},{door.target}"})
    assert both.from_connect("away", *data) == written


def test_apicurios_own_settings_are_supported(registry):
    """Apicurio's URL leads to the same registry; without auto-register the schema must exist, as for its own clients.

    """
    own = {"apicurio.registry.url": registry.url.replace("/apis/ccompat/v7", "/apis/registry/v3")}
    data = column([1], Schema(Type.INT32))
    with pytest.raises(BadRowsError) as bad:
        through_apicurio(own).from_connect("apicurio", *data)
    assert isinstance(bad.value.bad[0][1], UnknownSchemaError)
    written = through_apicurio({**own, "apicurio.registry.auto-register": "true"}).from_connect("apicurio", *data)
    assert avro(registry).to_connect("apicurio", written)[0].to_pylist() == [1]


def through_apicurio(config):
    converter = AvroConverter()
    converter.configure(config, is_key=False)
    return converter


def json_schema(registry, *, is_key=False, **config):
    converter = JsonSchemaConverter()
    converter.configure({**registry.converter, **config}, is_key=is_key)
    return converter


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
    values, metadata = column([{"a": 1}, {"a": 2}], _with("a", Type.INT32))
    written = json_schema(registry).from_connect("json-hurt", values, metadata).to_pylist()
    odd = written[0][:5] + b'{"a":"x"}'
    assert json_schema(registry).to_connect("json-hurt", pa.array([odd]))[0].to_pylist() == [{"a": 0}]
    for payload, config in ((odd, {"json.fail.invalid.schema": "true"}), (written[0][:5] + b"{", {})):
        with pytest.raises(BadRowError) as bad:
            json_schema(registry, **config).to_connect("json-hurt", pa.array([written[0], payload, written[1]]))
        assert bad.value.row == 1


def protobuf(registry, *, is_key=False, **config):
    converter = ProtobufConverter()
    converter.configure({**registry.converter, **config}, is_key=is_key)
    return converter


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
    assert mixed.value.ends == [2, 4]
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
    written = protobuf(registry, **latest).from_connect("proto-newest", *column([{"a": 1}], _with("a", Type.INT64)))
    assert written[0].as_py() == b"\0" + ids.to_bytes(4, "big") + b"\x02\x02" + b"\x28\x01"
    with pytest.raises(BadRowsError, match=r"Incompatible schema: .* no field b"):
        protobuf(registry, **latest).from_connect("proto-newest", *column([{"b": 1}], _with("b", Type.INT64)))


# ---------------------------------------------------------------- all three alike
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
    converter.from_connect(topic, *column([{"a": 1}], _with("a", Type.INT32)))
    with pytest.raises(BadRowsError, match=rf"{topic}-value: .*not compatible with earlier schemas") as bad:
        converter.from_connect(topic, *column([{"a": "x"}, {"a": "y"}], _with("a", Type.STRING)))
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


@pytest.mark.parametrize("name", [
    "io.confluent.connect.avro.AvroConverter", "io.confluent.connect.json.JsonSchemaConverter",
    "io.confluent.connect.protobuf.ProtobufConverter"])
def test_registry_converters_work_in_a_worker(registry, rig, name):
    """All of datagen's records pass through Kafka in order; a bad record goes to the dead letter queue."""
    short = name.rpartition(".")[2].lower()
    topic = rig.kafka.create(f"through-{short}")
    own = {"value.converter": name, "value.converter.schema.registry.url": registry.url}
    assert name in {one["class"] for one in rig.call("GET", "/connector-plugins?connectorsOnly=false")}
    keys = {one["name"]: one for one in rig.call("GET", f"/connector-plugins/{name}/config")}
    assert keys["auto.register.schemas"]["default_value"] == "true"
    rig.kafka.send(topic, ["this has no id"])
    rig.create(f"in-{short}", {"connector.class": "datagen", "topic": topic, "records": "1000", **own})
    sums = rig.folder / f"sums-{short}"
    rig.create(f"out-{short}", {
        "connector.class": "verify", "topics": topic, "path": str(sums), "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"dead-{short}", "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true", **own})
    wait_until(lambda: read_summary(sums).to_json()["records"] == 1000, 90, "all records")
    summary = read_summary(sums).to_json()
    assert (summary["duplicates"], summary["disorder"], summary["missing"]) == (0, 0, 0)
    rig.wait_records(f"dead-{short}", 1)
    headers = dict(rig.kafka.messages(f"dead-{short}")[0].headers())
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert headers["__connect.errors.class.name"] == name.encode()
    assert headers["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert topic in headers["__connect.errors.exception.message"].decode()
