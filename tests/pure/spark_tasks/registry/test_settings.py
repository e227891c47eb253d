"""Settings with the prefix `schema.registry.`, and TLS settings that would have no effect."""

import pyarrow as pa
import pytest

from spark_tasks.config.masking import passwords
from spark_tasks.errors import ConfigError, RetriableError
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.registry.wire import framed
from tests.rigs.int_registry import IntRegistry
from tests.rigs.listening import listening

URL, NOWHERE, PREFIX = "schema.registry.url", "http://127.0.0.1:1", "schema.registry."
RECORD = framed(7, pa.array([b"\4"]))
USER = {"basic.auth.credentials.source": "USER_INFO"}


@pytest.fixture
def registry():
    with listening(IntRegistry, seen=[], busy=False, silent=False) as server:
        yield server


def read(url, **config):
    converter = AvroConverter()
    converter.configure({URL: url, "max.retries": "0", "retries.wait.ms": "1", **config}, is_key=False)
    return converter.to_connect("t", RECORD)[0].to_pylist()


def url_of(server):
    return f"http://127.0.0.1:{server.server_port}"


@pytest.mark.parametrize(("config", "login"), [
    ({f"{PREFIX}basic.auth.credentials.source": "USER_INFO", f"{PREFIX}basic.auth.user.info": "u:p"}, "Basic dTpw"),
    ({**USER, f"{PREFIX}basic.auth.user.info": "u:p", "basic.auth.user.info": "x:y"}, "Basic dTpw"),
    ({**USER, f"{PREFIX}basic.auth.user.info": "", "basic.auth.user.info": "u:p"}, "Basic dTpw"),
    ({f"{PREFIX}bearer.auth.credentials.source": "STATIC_TOKEN", f"{PREFIX}bearer.auth.token": "t"}, "Bearer t"),
    ({f"{PREFIX}bearer.auth.token": "t", "bearer.auth.token": "x"}, "Bearer t"),
])
def test_credentials_may_have_the_prefix(registry, config, login):
    """As in Confluent's client, which removes it. It wins over the same key without it."""
    assert read(url_of(registry), **config) == [2]
    assert {seen for _, seen in registry.seen} == {login}


def test_retries_may_have_the_prefix(registry):
    registry.busy = True
    config = {f"{PREFIX}max.retries": "3", f"{PREFIX}retries.wait.ms": "1", f"{PREFIX}retries.max.wait.ms": "2"}
    with pytest.raises(RetriableError):
        read(url_of(registry), **config)
    assert len(registry.seen) == 4


def test_a_proxy_may_have_the_prefix(registry):
    proxy = {f"{PREFIX}proxy.host": "127.0.0.1", f"{PREFIX}proxy.port": str(registry.server_port)}
    assert read("http://registry.invalid:8081", **proxy) == [2]
    assert registry.seen[0][0].startswith("http://registry.invalid:8081/")


@pytest.mark.timeout(30)
def test_timeouts_may_have_the_prefix(registry):
    registry.silent = True
    with pytest.raises(RetriableError, match="ReadTimeout"):
        read(url_of(registry), **{f"{PREFIX}http.read.timeout.ms": "50"})


def test_settings_with_the_prefix_are_validated():
    config = {URL: NOWHERE, f"{PREFIX}max.retries": "x", f"{PREFIX}auto.register.schemas": "x"}
    found = AvroConverter.config_def.validate_all({**config, "converter.type": "key"})
    errors = {name: value.errors for name, value in found.items() if value.errors}
    assert list(errors) == ["max.retries"]  # Java ignores the other one, which is none of the client
    with pytest.raises(ConfigError, match=r"max\.retries"):
        AvroConverter().configure(config, is_key=True)


def test_secrets_with_the_prefix_are_hidden():
    config = {f"{PREFIX}bearer.auth.token": "tok-en", f"{PREFIX}bearer.auth.client.secret": "sec-ret",
              f"{PREFIX}basic.auth.user.info": "user:pass-word"}  # fmt: skip
    found = AvroConverter.config_def.validate_all({URL: NOWHERE, "converter.type": "key", **config})
    for key in config:
        assert str(found[key.removeprefix(PREFIX)].value) == "[hidden]", key
    of_connector = {f"value.converter.{key}": value for key, value in config.items()}
    assert {*passwords(of_connector)} >= {"tok-en", "sec-ret", "user:pass-word", "pass-word"}


@pytest.mark.parametrize(("name", "value"), [
    ("ssl.provider", "BCJSSE"), ("ssl.keymanager.algorithm", "Mine"), ("ssl.trustmanager.algorithm", "Mine")])
def test_tls_settings_that_cannot_be_honored_are_refused(name, value):
    """Only with TLS. Those that Confluent's client ignores are accepted."""
    config = {f"{PREFIX}{name}": value}
    with pytest.raises(ConfigError, match=f"{value} for configuration {PREFIX}{name}: heeler cannot honor it; .*SSL"):
        AvroConverter().configure({URL: "https://registry:8081", **config}, is_key=False)
    AvroConverter().configure({URL: NOWHERE, **config}, is_key=False)
    ignored = {f"{PREFIX}ssl.enabled.protocols": "TLSv1.3", f"{PREFIX}ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
               f"{PREFIX}ssl.engine.factory.class": "com.acme.Engines"}  # fmt: skip
    AvroConverter().configure({URL: "https://registry:8081", **ignored}, is_key=False)
    infos = {one["name"]: one for one in AvroConverter.config_def.key_infos()}
    assert {infos[key]["documentation"] for key in ignored} == {"Has no effect, as in Confluent's client."}
