"""What needs no registry: settings, subjects, ids in bytes and headers, and an unreachable registry."""

import gzip
import http.server
import itertools
import json
import re
import ssl
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from heeler.embedded_kafka.java import find_java
from spark_tasks.data.columns import HEADERS_TYPE, SCHEMA_KEY
from spark_tasks.errors import ConfigError, RetriableError
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.json_schema.converter import JsonSchemaConverter
from spark_tasks.plugins import Kind, Plugins
from spark_tasks.registry import responses
from spark_tasks.registry.apicurio import translated
from spark_tasks.registry.client import registry_of
from spark_tasks.registry.errors import UnusableSchemaError
from spark_tasks.registry.settings import ASSOCIATED_NAME, RECORD_NAME, REGISTRY_KEYS
from spark_tasks.registry.subjects import Subjects
from spark_tasks.registry.wire import framed, unframed
from tests.rigs.int_registry import IntRegistry
from tests.rigs.listening import listening
from tests.rigs.serving import make_certificates

URL = "schema.registry.url"
NOWHERE = "http://127.0.0.1:1"
GUID = uuid.UUID("12345678-1234-1234-1234-123456789abc")


@pytest.mark.parametrize(("name", "cls"), [
    ("io.confluent.connect.avro.AvroConverter", AvroConverter),
    ("io.confluent.connect.json.JsonSchemaConverter", JsonSchemaConverter),
])
def test_converters_are_listed_with_confluents_settings(name, cls):
    found = Plugins().find(Kind.CONVERTER, name)
    assert found.cls is cls
    infos = {one["name"]: one for one in cls.config_def.key_infos()}
    assert infos[URL]["required"]
    assert infos[URL]["type"] == "LIST"
    expected = {
        "auto.register.schemas": "true", "use.latest.version": "false", "latest.compatibility.strict": "true",
        "normalize.schemas": "false", "value.subject.name.strategy": ASSOCIATED_NAME, "use.schema.id": "-1",
        "basic.auth.credentials.source": "URL", "basic.auth.user.info": "[hidden]", "max.retries": "3",
        "schemas.cache.config": "1000", "schema.registry.ssl.truststore.type": "JKS",
        "flatten.singleton.unions": "true",
    }  # fmt: skip
    assert {key: infos[key]["default_value"] for key in expected} == expected


@pytest.mark.parametrize(("wrong", "words"), [
    ({}, 'Missing required configuration "schema.registry.url"'),
    ({URL: ""}, "JsonConverter does not"),
    ({URL: "registry:8081"}, "must start with http"), ({URL: f"{NOWHERE},,"}, "must start with http"),
    ({URL: "user:secret@registry:8081"}, "Invalid value registry:8081 for"),
    ({URL: "http://user:secret@registry:x"}, "Invalid value http://registry:x for configuration .* a port from 1"),
    ({URL: "http://"}, "must have a host"),
    ({URL: "https://registry:99999"}, "a port from 1 to 65535"),
    ({URL: NOWHERE, "max.retries": "-1"}, "max.retries: Value must be at least 0"),
    ({URL: NOWHERE, "http.read.timeout.ms": "-1"}, "Value must be at least 0"),
    ({URL: NOWHERE, "value.subject.name.strategy": "com.acme.Mine"}, "supported: io.confluent"),
    ({URL: NOWHERE, "basic.auth.credentials.source": "SASL_INHERIT"}, "supported: URL, USER_INFO"),
    ({URL: NOWHERE, "basic.auth.credentials.source": "USER_INFO"}, "basic.auth.user.info is missing"),
    ({URL: NOWHERE, "rule.executors": "checkit"}, "rule.executors: not supported"),
    ({URL: NOWHERE, "value.schema.id.serializer": "io.x.HeaderSchemaIdSerializer"}, "supported: io.confluent"),
])
def test_unsupported_settings_are_refused(wrong, words):
    """By the task, and by validation, which accepted most of them."""
    with pytest.raises(ConfigError, match=words):
        AvroConverter().configure(wrong, is_key=False)
    found = AvroConverter.config_def.validate_all({**wrong, "converter.type": "value"})
    errors = [error for value in found.values() for error in value.errors]
    assert any(re.search(words.rpartition(": ")[2], error) for error in errors), errors
    assert not any("secret" in error for error in errors)


def test_a_url_without_a_scheme_is_an_error_of_its_key():
    found = AvroConverter.config_def.validate_all({URL: "u:secret@registry:8081", "converter.type": "key"})
    assert {name: value.errors for name, value in found.items() if value.errors} == {
        URL: ["Invalid value registry:8081 for configuration schema.registry.url: must start with http:// or https://"]}


def test_a_converter_without_a_registry_url_is_refused():
    """Both validation and the start of a connector report it."""
    [said] = AvroConverter.config_def.validate_all({"converter.type": "key"})[URL].errors
    assert said.startswith('Missing required configuration "schema.registry.url" which has no default value. Please')
    assert "JsonConverter does not" in said
    with pytest.raises(ConfigError, match="JsonConverter does not"):
        AvroConverter().configure({}, is_key=True)


@pytest.mark.parametrize("package", ["confluent_kafka.schema_registry", "pyruhvro", "fastavro"])
def test_the_error_for_missing_packages_says_what_to_install(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=r"pip install 'heeler\[registry\]'"):
        AvroConverter().configure({URL: NOWHERE}, is_key=False)


def test_apicurios_class_names_are_accepted():
    assert Plugins().find(Kind.CONVERTER, "io.apicurio.registry.utils.converter.AvroConverter").cls is AvroConverter


def test_apicurios_settings_are_understood():
    """Its converter looks schemas up without registering them by default, and its URL has another path."""
    found = translated({
        "apicurio.registry.url": "https://a:1/x/apis/registry/v3, http://b/apis/ccompat/v7", "other": "1",
        "apicurio.registry.auth.username": "u", "apicurio.registry.auth.password": "p",
        "apicurio.registry.find-latest": "true", "apicurio.registry.id-handler": "io.x.Default4ByteIdHandler",
    })
    assert found == {
        URL: "https://a:1/x/apis/ccompat/v7,http://b/apis/ccompat/v7", "other": "1", "auto.register.schemas": "false",
        "use.latest.version": "true", "basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "u:p"}
    AvroConverter().configure({"apicurio.registry.url": NOWHERE}, is_key=False)
    assert translated({"apicurio.registry.url": NOWHERE})[URL] == f"{NOWHERE}/apis/ccompat/v7"
    values = AvroConverter.config_def.validate_all({"apicurio.registry.url": NOWHERE, "converter.type": "key"})
    assert not [value.errors for value in values.values() if value.errors]


def test_the_settings_of_apicurio_2_for_confluents_bytes_are_accepted():
    """These select what Apicurio 3 does by default."""
    config = {"url": f"{NOWHERE}/apis/registry/v2", "use-id": "contentId", "headers.enabled": "false",
              "auto-register": "true", "auto-register.if-exists": "RETURN_OR_UPDATE", "find-latest": "true",
              "avro-datum-provider": "io.apicurio.registry.serde.avro.DefaultAvroDatumProvider",
              "converter.serializer": "io.apicurio.registry.serde.avro.AvroKafkaSerializer",
              "converter.deserializer": "io.apicurio.registry.serde.avro.AvroKafkaDeserializer"}  # fmt: skip
    for handler in ({"as-confluent": "true"}, {"id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler"},
                    {"as-confluent": "true", "id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler"}):
        given = {f"apicurio.registry.{name}": value for name, value in {**config, **handler}.items()}
        AvroConverter().configure(given, is_key=False)
        found = AvroConverter.config_def.validate_all({**given, "converter.type": "value"})
        assert not [value.errors for value in found.values() if value.errors]


@pytest.mark.parametrize("lacking", ["use-id", "headers.enabled"])
@pytest.mark.parametrize("handler", [
    {"as-confluent": "true"}, {"id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler"}])
def test_other_defaults_of_apicurio_2_are_refused(handler, lacking):
    """It writes global ids, and into headers, unless told otherwise."""
    config = {"url": NOWHERE, "use-id": "contentId", "headers.enabled": "false", **handler}
    del config[lacking]
    with pytest.raises(ConfigError, match=rf"set apicurio\.registry\.{lacking}=(contentId|false): its default in Apic"):
        AvroConverter().configure({f"apicurio.registry.{key}": one for key, one in config.items()}, is_key=False)


@pytest.mark.parametrize(("name", "value"), [
    ("as-confluent", "false"), ("avro-datum-provider", "io.apicurio.registry.serde.avro.ReflectAvroDatumProvider"),
    ("converter.serializer", "io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer"),
    ("auto-register.if-exists", "FAIL"), ("id-handler", "io.apicurio.registry.serde.Legacy8ByteIdHandler"),
    ("use-id", "globalId"),
    ("headers.enabled", "true"),
    ("artifact-resolver-strategy", "io.apicurio.registry.serde.strategy.SimpleTopicIdStrategy"), ("what", "1"),
    ("artifact.group-id", "mine"), ("serde.send-type-ref", "true"), ("avro.encoding", "JSON"), ("url", "apicurio:1"),
])  # fmt: skip
def test_apicurios_settings_that_change_the_bytes_are_refused(name, value):
    """By validation, which answers them with the URL, and by the task."""
    config = {"apicurio.registry.url": NOWHERE, f"apicurio.registry.{name}": value}
    with pytest.raises(ConfigError, match=f"apicurio.registry.{name}"):
        AvroConverter().configure(config, is_key=False)
    (said,) = AvroConverter.config_def.validate_all({**config, "converter.type": "key"})[URL].errors
    assert f"apicurio.registry.{name}" in said


def test_the_error_for_apicurios_url_has_no_password():
    url = "http://user:secret@apicurio:8080/foo"
    with pytest.raises(ConfigError, match="http://apicurio:8080/foo for") as error:
        AvroConverter().configure({"apicurio.registry.url": url}, is_key=False)
    assert "secret" not in str(error.value)


def test_requests_to_an_unreachable_registry_are_retried():
    converter = AvroConverter()
    converter.configure({URL: NOWHERE, "max.retries": "0", "retries.wait.ms": "60000"}, is_key=True)
    record = framed(7, pa.array([b"x"]))
    for words in ("cannot be reached: ConnectError", "the next attempt is in"):
        with pytest.raises(RetriableError, match=words):
            converter.to_connect("t", record)


@pytest.mark.parametrize("more", [{URL: "https://127.0.0.1:1"}, {URL: f"{NOWHERE},https://127.0.0.1:1"}, {
    "bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.client.id": "i", "bearer.auth.client.secret": "s",
    "bearer.auth.scope": "s", "bearer.auth.issuer.endpoint.url": "https://127.0.0.1:1",
}])
def test_authorities_are_read_unless_nothing_has_tls(monkeypatch, more):
    """They take most of the time until the first request."""
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    for config, error, words in (({}, RetriableError, "refused"), (more, ConfigError, "No such file")):
        converter = AvroConverter()
        converter.configure({URL: NOWHERE, "max.retries": "0", **config}, is_key=True)
        with pytest.raises(error, match=words):
            converter.to_connect("t", framed(7, pa.array([b"x"])))


def test_the_fallback_of_the_associated_subject_strategy():
    values = REGISTRY_KEYS.parse({URL: NOWHERE})
    assert Subjects(values, {}, is_key=True).subject("t", None) == "t-key"
    reported = {"subject.name.strategy.fallback.type": "topic_record"}
    assert Subjects(values, reported, is_key=False).subject("t", "a.B") == "t-a.B"
    by_record = {**values, "value.subject.name.strategy": RECORD_NAME}
    assert Subjects(by_record, {}, is_key=False).subject("t", "a.B") == "a.B"
    with pytest.raises(ConfigError, match="fallback"):
        Subjects(values, {"subject.name.strategy.fallback.type": "none"}, is_key=False)


def headers(*values):
    other = {"key": "other", "value": b"z"}
    return pa.array([one and [other, {"key": "__value_schema_id", "value": one}] for one in values], HEADERS_TYPE)


def test_schema_ids_are_read_from_prefixes():
    array = pa.array([b"skipped", None, b"\0\0\0\1\0a", b"\0\0\0\1\0", None, b"\0\0\0\0\7b", b"\0\0\0\0\7"])[1:]
    found = unframed(array, None, is_key=False)
    assert (found.ids, found.codes.tolist(), found.skip) == ([7, 256], [-1, 1, 1, -1, 0, 0], 5)
    assert [one[5:] for one in found.payloads] == [b"a", b"", b"b", b""]
    assert found.bad == {}
    again = framed(256, pa.array([b"a", None, b""]))
    assert again.to_pylist() == [b"\0\0\0\1\0a", None, b"\0\0\0\1\0"]


def test_schema_ids_and_guids_are_read_from_headers():
    array = pa.array([b"a", b"\0\0\0\0\7b", None, b"\1" + GUID.bytes + b"c"])
    found = unframed(array, headers(b"\1" + GUID.bytes, None, None, None), is_key=False)
    assert (found.ids, found.codes.tolist(), found.skip) == ([7, str(GUID)], [1, 0, -1, 1], 0)
    assert found.payloads == [b"a", b"b", b"c"]
    keys = unframed(array, headers(b"\1" + GUID.bytes, None, None, None), is_key=True)  # those are values' headers
    assert keys.bad == {0: "Unknown magic byte!"}


@pytest.mark.parametrize(("whole", "why"), [
    (b"", "Unknown magic byte!"), (b"\0\0\0", "only 3 bytes"), (b"\1abc", "only 4 bytes"),
    (b"{}", "Unknown magic byte!"),
])
def test_bytes_without_a_schema_id_are_bad_records(whole, why):
    found = unframed(pa.array([b"\0\0\0\0\7x", whole]), None, is_key=False)
    assert why in found.bad[1]
    assert found.codes.tolist() == [0, -2]


def test_map_keys_may_contain_escapes():
    """In every JSON converter; escapes used to be kept undecoded."""
    converter = JsonConverter()
    converter.configure({}, is_key=False)
    schema = ('{"type":"map","keys":{"type":"string","optional":false},"values":{"type":"int32","optional":false},'
              '"optional":false}')
    found, _ = converter.to_connect("t", pa.array([f'{{"schema":{schema},"payload":{{"a\\u0001\\"":1}}}}'.encode()]))
    assert found.to_pylist() == [[('a\x01"', 1)]]


@pytest.fixture
def behind_tls(tmp_path):
    """A registry that shows a certificate and wants one; the certificate's files."""
    made = make_certificates(tmp_path / "certificates")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.pem)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(made.certificate)
    with listening(IntRegistry, context, seen=[], busy=False, silent=False) as server:
        yield f"https://127.0.0.1:{server.server_port}", made


def as_jks(pkcs12):
    """The same key store, and a trust store, both in Java's old format and written by keytool."""
    stores = pkcs12.with_name("key.jks"), pkcs12.with_name("trust.jks")
    certificate = pkcs12.with_name("exported")

    def keytool(*arguments):
        command = Path(find_java()).resolve().with_name("keytool")
        subprocess.run([command, *arguments], check=True, capture_output=True)

    def of(store):
        return ("-keystore", store, "-storetype", "JKS", "-storepass", "secret")

    keytool("-importkeystore", "-srckeystore", pkcs12, "-srcstoretype", "PKCS12", "-srcstorepass", "secret",
            "-destkeystore", stores[0], "-deststoretype", "JKS", "-deststorepass", "secret", "-noprompt")
    keytool("-exportcert", "-alias", "worker", "-file", certificate, *of(stores[0]))
    keytool("-importcert", "-alias", "registry", "-file", certificate, "-noprompt", *of(stores[1]))
    return stores


@pytest.mark.parametrize("kind", ["pem", "pkcs12", pytest.param("jks", marks=pytest.mark.integration)])  # starts Java
def test_tls_supports_javas_key_stores(behind_tls, kind):
    url, made = behind_tls
    stores = {}
    if kind == "jks":
        key_store, trust_store = as_jks(made.pkcs12)
        assert key_store.read_bytes()[:4] == trust_store.read_bytes()[:4] == b"\xfe\xed\xfe\xed"
    else:
        key_store = trust_store = {"pem": made.pem, "pkcs12": made.pkcs12}[kind]
    password = None if kind == "pem" else "secret"
    files = {"truststore": trust_store, "keystore": key_store}
    for store, file in files.items():
        stores[f"schema.registry.ssl.{store}.location"] = str(file)
        if password:
            stores[f"schema.registry.ssl.{store}.password"] = password
    converter = AvroConverter()
    converter.configure({URL: url, **stores}, is_key=False)
    assert converter.to_connect("t", framed(7, pa.array([b"\4"])))[0].to_pylist() == [2]


def test_no_private_file_remains_after_the_connection(behind_tls, tmp_path, monkeypatch):
    """Certificates of PKCS12 stores and PEM texts were left in the temporary folder, even by a clean stop."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    url, made = behind_tls
    stores = {f"schema.registry.ssl.{name}": value for store in ("truststore", "keystore") for name, value in (
        (f"{store}.location", str(made.pkcs12)), (f"{store}.password", "secret"))}
    converter = AvroConverter()
    converter.configure({URL: url, **stores}, is_key=False)
    assert converter.to_connect("t", framed(7, pa.array([b"\4"])))[0].to_pylist() == [2]
    assert list((tmp_path / "temporary").iterdir()) == []


def trusting(made):
    return {"schema.registry.ssl.truststore.location": str(made.certificate)}


@pytest.mark.parametrize(("host", "trusts", "words"), [
    ("127.0.0.1", False, r"its certificate is not accepted: self-signed .*; see schema\.registry\.ssl\.truststore"),
    ("localhost", True, r"Hostname mismatch, .*'localhost'.*; see .* schema\.registry\.ssl\.endpoint\.identification"),
    ("127.0.0.1", True, r"it does not accept the converter's certificate: .*; see schema\.registry\.ssl\.keystore"),
])
def test_a_certificate_that_is_not_accepted_fails_the_task(behind_tls, host, trusts, words):
    """It was retried without end, and only the worker's log said why."""
    url, made = behind_tls
    converter = AvroConverter()
    more = trusting(made) if trusts else {}
    converter.configure({URL: url.replace("127.0.0.1", host), "max.retries": "0", **more}, is_key=False)
    with pytest.raises(ConfigError, match=words):
        converter.to_connect("t", framed(7, pa.array([b"\4"])))


def test_the_certificate_of_a_token_endpoint_is_named_as_such(behind_tls):
    url, _ = behind_tls
    converter = AvroConverter()
    converter.configure({
        URL: NOWHERE, "max.retries": "0", "bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.client.id": "i",
        "bearer.auth.client.secret": "s", "bearer.auth.scope": "s", "bearer.auth.issuer.endpoint.url": url,
    }, is_key=False)
    with pytest.raises(ConfigError, match=r"bearer\.auth\.issuer\.endpoint\.url: its certificate is not acc"):
        converter.to_connect("t", framed(7, pa.array([b"\4"])))


class Answering(http.server.BaseHTTPRequestHandler):
    """A server with the same answer, its server's `answer`, to all requests: status, headers, and parts of a body."""

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, headers, body = self.server.answer
        self.send_response(status)
        for pair in headers.items():
            self.send_header(*pair)
        self.end_headers()
        for part in body:
            self.wfile.write(part)

    do_GET = do_POST = answer  # noqa: N815 - its base class asks for these

    def log_message(self, *args):
        pass


@pytest.fixture
def service():
    with listening(Answering, handle_error=lambda *_: None) as server:  # the client may not read all
        yield server


def reader_of(server, **more):
    converter = AvroConverter()
    url = f"http://127.0.0.1:{server.server_port}"
    converter.configure({URL: url, "max.retries": "0", "retries.wait.ms": "0", **more}, is_key=False)
    return converter


def registry_of_url(server):
    configs = {URL: f"http://127.0.0.1:{server.server_port}", "max.retries": "0", "converter.type": "value"}
    return registry_of(AvroConverter.config_def.parse(configs), configs)


INT = {"schema": '"int"', "id": 7}


@pytest.mark.parametrize(("body", "words"), [
    (b"<html>", "Expecting value"), (b"", "'None' where a JSON object"), (b"[]", "'\\[]' where a JSON object"),
    (b"7", "object"), (b"null", "object"), (b"{}", "schema is missing"), (b"[" * 100_000, "recursion"),
    (b'{"schema":5}', "schema is not a text"), (json.dumps({**INT, "id": True}), "id is not a whole number"),
    (json.dumps({**INT, "id": 2**31}), "more than 32 bits"),
    (json.dumps({**INT, "references": 5}), "references is not a list"), (json.dumps({**INT, "guid": "x"}), "UUID"),
    (json.dumps({**INT, "references": [{"name": "a", "subject": "b"}]}), "version is missing"),
    (json.dumps({**INT, "schemaType": ["AVRO"]}), "schemaType is not a text"),
])
def test_the_response_of_another_service_is_an_outage(service, body, words):
    """No record is bad, and nothing is cached: records are read as soon as the registry answers."""
    converter = reader_of(service)
    record = framed(7, pa.array([b"\4"]))
    service.answer = 200, {}, [body if isinstance(body, bytes) else body.encode()]
    with pytest.raises(RetriableError, match=f"not that of a schema registry: .*{words}"):
        converter.to_connect("t", record)
    service.answer = 200, {}, [json.dumps({**INT, "metadata": 5, "ruleSet": [1]}).encode()]
    assert converter.to_connect("t", record)[0].to_pylist() == [2]


@pytest.mark.parametrize(("headers", "body", "words"), [
    ({"Content-Encoding": "gzip"}, [b"not compressed"], "decompressing"),
    ({}, itertools.repeat(b" " * 1000), "more than 10000"),
    ({"Content-Encoding": "gzip"}, [gzip.compress(b" " * 20_000)], "more than 10000"),
])
def test_a_response_has_a_limit(service, monkeypatch, headers, body, words):
    monkeypatch.setattr(responses, "MAX_BYTES", 10_000)
    service.answer = 200, headers, body
    with pytest.raises(RetriableError, match=words):
        reader_of(service).to_connect("t", framed(7, pa.array([b"\4"])))


def test_a_response_in_small_parts_is_not_awaited_forever(service):
    service.answer = 200, {}, (time.sleep(0.01) or b" " for _ in itertools.count())
    with pytest.raises(RetriableError, match=r"not arrived completely after 0\.1 s"):
        reader_of(service, **{"http.read.timeout.ms": "100"}).to_connect("t", framed(7, pa.array([b"\4"])))


@pytest.mark.parametrize(("status", "body", "record"), [
    (404, b'{"message":"no Route matched with those values"}', framed(7, pa.array([b"\4"]))),
    (404, b"<html>" * 1000, framed(7, pa.array([b"\4"]))), (302, b"", framed(7, pa.array([b"\4"]))),
    (302, b"", pa.array([b"\1" + GUID.bytes + b"\4"])), (418, b"{}", pa.array([b"\1" + GUID.bytes + b"\4"])),
])
def test_an_error_of_another_service_fails_the_task(service, status, body, record):
    """It is not the registry that says that it has no such schema, so no record is bad."""
    service.answer = status, {}, [body]
    with pytest.raises(ConfigError, match="is the path of the URL right") as error:
        reader_of(service).to_connect("t", record)
    assert len(str(error.value)) < 1000


def test_a_cache_without_room_and_a_timeout_of_zero(service):
    """As in Java: the latest version is always asked for, and a response is awaited without limit."""
    converter = reader_of(service, **{
        "latest.cache.size": "0", "http.read.timeout.ms": "0", "http.connect.timeout.ms": "0",
        "auto.register.schemas": "false", "use.latest.version": "true"})
    for number in (7, 8):
        service.answer = 200, {}, [json.dumps({**INT, "id": number, "version": 1}).encode()]
        metadata = {SCHEMA_KEY: b'{"type":"int32"}'}
        assert converter.from_connect("t", pa.array([2], pa.int32()), metadata).to_pylist() == [
            b"\0\0\0\0" + bytes([number]) + b"\4"]


def test_a_schema_that_is_registered_is_written_while_the_registry_is_away(service):
    """It needs no request: neither the pause after the failure of another one, nor that of another connector."""
    converter = reader_of(service, **{"retries.wait.ms": "60000", "retries.max.wait.ms": "60000"})

    def write(kind, name):
        return converter.from_connect("t", pa.array([2], kind), {SCHEMA_KEY: f'{{"type":"{name}"}}'.encode()})

    service.answer = 200, {}, [json.dumps({**INT, "version": 1}).encode()]
    written = write(pa.int32(), "int32")
    service.answer = 503, {}, []
    with pytest.raises(RetriableError):
        write(pa.int64(), "int64")
    assert write(pa.int32(), "int32") == written
    with pytest.raises(RetriableError, match="the next attempt is in"):
        write(pa.int64(), "int64")


def test_a_subject_that_is_no_unicode_is_no_outage(service):
    """A record's schema may have any name."""
    with pytest.raises(UnusableSchemaError, match="not valid Unicode"):
        registry_of_url(service).latest("\ud800")


@pytest.mark.parametrize("setting", ["true", "TRUE", "false", None])
def test_trailing_data_makes_bad_records_if_it_is_forbidden(service, setting):
    """avro.fail.on.trailing.data, a setting of Confluent's deserializer, was ignored."""
    service.answer = 200, {}, [json.dumps(INT).encode()]
    converter = reader_of(service, **({} if setting is None else {"avro.fail.on.trailing.data": setting}))
    records = pa.array([b"\0\0\0\0\7\4", None, b"\0\0\0\0\7\4\0"])
    if setting in ("false", None):
        assert converter.to_connect("t", records)[0].to_pylist() == [2, None, 2]
        return
    with pytest.raises(BadRowsError, match="Trailing data found after deserializing Avro message") as error:
        converter.to_connect("t", records)
    assert [row for row, _ in error.value.bad] == [2]


class Away(http.server.BaseHTTPRequestHandler):
    """A server that counts its requests. Its answer is that it is busy, or none."""

    def do_GET(self):
        self.server.requests += 1
        if self.server.busy:
            self.send_error(503)

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("busy", [True, False])
def test_a_url_that_fails_becomes_the_last_one(service, busy):
    """Otherwise each schema would first be requested there, with all retries."""
    service.answer = 200, {}, [json.dumps(INT).encode()]
    with listening(Away, busy=busy, requests=0) as away:
        urls = ",".join(f"http://127.0.0.1:{server.server_port}" for server in (away, service))
        converter = reader_of(service, **{URL: urls})
        for number in range(3):
            assert converter.to_connect("t", framed(number, pa.array([b"\4"])))[0].to_pylist() == [2]
    assert away.requests == 1
