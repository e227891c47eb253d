"""The REST settings of a worker."""

from __future__ import annotations

import pytest

from rest.server.keys import HeaderRule, Listener
from rest.server.settings import RestSettings
from spark_tasks.errors import ConfigError
from tests.rigs.rest_apps import rest_settings


def test_defaults_are_kafka_connects() -> None:
    parsed = rest_settings({})
    assert parsed == RestSettings()
    assert parsed.listeners == (Listener("http", "", 8083),)
    assert parsed.advertised_protocol == "http"
    assert parsed.request_timeout_s == 90
    assert parsed.health_timeout_s == 10


@pytest.mark.parametrize(("text", "listeners"), [
    ("http://:0", [("http", "", 0)]),
    ("HTTPS://Host.name:8443, http://[::1]:8083", [("https", "Host.name", 8443), ("http", "::1", 8083)]),
])
def test_listeners_are_parsed(text: str, listeners: list[tuple[str, str, int]]) -> None:
    assert rest_settings({"listeners": text}).listeners == tuple(Listener(*item) for item in listeners)


@pytest.mark.parametrize(("props", "protocol"), [
    ({"listeners": "https://:1,http://:2"}, "http"), ({"listeners": "https://:1"}, "https"),
    ({"listeners": "http://:1,https://:2", "rest.advertised.listener": "HTTPS"}, "https"),
])
def test_the_advertised_protocol_follows_the_listeners(props: dict[str, str], protocol: str) -> None:
    assert rest_settings(props).advertised_protocol == protocol


def test_an_advertised_listener_exists_or_has_its_own_port() -> None:
    props = {"listeners": "http://h:1", "rest.advertised.listener": "https"}
    with pytest.raises(ConfigError, match=r"^rest\.advertised\.listener: none of the listeners uses https"):
        rest_settings(props)
    assert rest_settings({**props, "rest.advertised.port": "443"}).advertised_protocol == "https"


def test_tls_keys_are_all_prefixed_or_none() -> None:
    plain = rest_settings({"ssl.keystore.location": "a", "ssl.client.auth": "required"})
    assert plain.tls == {"ssl.keystore.location": "a", "ssl.client.auth": "required"}
    prefixed = rest_settings({
        "ssl.keystore.location": "a", "ssl.client.auth": "required", "listeners.https.ssl.keystore.location": "b"})
    assert prefixed.tls == {"ssl.keystore.location": "b"}
    assert prefixed.admin_tls == {"ssl.keystore.location": "a", "ssl.client.auth": "required"}


def test_response_header_rules_are_parsed() -> None:
    text = 'add Cache-Control: no-cache, no-store:x, "set A: b, c: d",setDate E:-1'
    with pytest.raises(ConfigError, match="no-store:x"):
        rest_settings({"response.http.headers.config": text})
    parsed = rest_settings({"response.http.headers.config": '"set A: b, c: d" , SETDATE E:-1'})
    assert parsed.response_headers == (HeaderRule("set", "A", "b, c: d"), HeaderRule("setDate", "E", "-1"))


@pytest.mark.parametrize("props", [
    {"listeners": ""}, {"listeners": "localhost:8083"}, {"listeners": "ftp://:1"}, {"listeners": "http://:1,"},
    {"listeners": "http://h:1/"}, {"listeners": "http://h:70000"},
    {"admin.listeners": "x"}, {"rest.advertised.port": "x"}, {"rest.advertised.listener": "ftp"},
    {"rest.advertised.host.name": "h" * 256}, {"rest.advertised.host.name": "a b"},
    {"topic.tracking.enable": "maybe"}, {"access.control.allow.origin": "("},
    {"response.http.headers.config": "drop X: y"}, {"response.http.headers.config": "set X"},
    {"response.http.headers.config": "set A B: c"}, {"response.http.headers.config": "setDate X: soon"},
    {"response.http.headers.config": "set X: \u65e5"}, {"response.http.headers.config": "set X(: y"},
    {"response.http.headers.config": "set X: a\rb"}, {"response.http.headers.config": "set X: a\0b"},
    {"response.http.headers.config": "setDate X: 99999999999999"},
])
def test_invalid_settings_are_refused(props: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(props)).replace(".", r"\.")):
        rest_settings(props)
