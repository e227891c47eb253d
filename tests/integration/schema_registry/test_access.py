"""How converters reach the registry: credentials, tokens, outages, the settings of Apicurio's clients."""

from __future__ import annotations

import base64
import traceback

import pyarrow as pa
import pytest

from spark_tasks.data.schema import Schema, Type
from spark_tasks.errors import ConfigError, RetriableError
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.registry.errors import UnknownSchemaError
from tests.rigs.listening import listening
from tests.rigs.registry_converters import avro, column
from tests.rigs.registry_door import Door, TokenEndpoint
from tests.rigs.support import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
def door(registry):
    with listening(Door, target=registry.url, wanted=None, busy=False, seen=0) as server:
        yield server


@pytest.fixture
def tokens(door):
    with listening(TokenEndpoint, asked=[], down=False, lasts={"expires_in": 60}, door=door) as server:
        server.settings = {
            "bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.client.id": "heeler",
            "bearer.auth.client.secret": "sweet", "bearer.auth.scope": "schemas",
            "bearer.auth.issuer.endpoint.url": f"http://127.0.0.1:{server.server_port}/token",
        }  # fmt: skip
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


def test_with_apicurios_settings_bytes_have_their_length(registry):
    """As from Apicurio's serializer, which is not Confluent's in this."""
    own = {"apicurio.registry.url": registry.url, "apicurio.registry.auto-register": "true"}
    data = column([b"abc"], Schema(Type.BYTES))
    written = through_apicurio(own).from_connect("apicurio-bytes", *data)
    assert written[0].as_py()[5:] == b"\6abc"
    assert through_apicurio(own).to_connect("apicurio-bytes", written)[0] == data[0]
    assert avro(registry).from_connect("apicurio-bytes", *data)[0].as_py()[5:] == b"abc"


def through_apicurio(config):
    converter = AvroConverter()
    converter.configure(config, is_key=False)
    return converter
