"""The Python class that represents a config provider in a jar, with a simulated host."""

from __future__ import annotations

import pytest

from heeler.java_host.connection import JavaPluginError, thrown
from heeler.java_host.discovery import JavaPlugin
from heeler.java_host.proxy_classes import class_of
from spark_tasks.errors import ConfigError, ConnectError, is_permanent
from spark_tasks.plugins.config_providers import ConfigData, ConfigProvider
from spark_tasks.plugins.kinds import Kind

VAULT = JavaPlugin("com.acme.Vault", "configprovider", "1.0", "/jars/vault")


class Host:
    def __init__(self):
        self.asked = []
        self.answer = {}

    def ask(self, op, **more):
        self.asked.append((op, more))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def vault(host):
    assert VAULT.kind is Kind.CONFIG_PROVIDER
    made = class_of(VAULT, host)()
    made.name = "v"
    assert isinstance(made, ConfigProvider)
    made.configure({"token": "t"})
    return made


def test_every_request_contains_the_provider_and_its_settings(vault, host):
    """So that a host that replaces another one can create it."""
    host.answer = {"data": {"a": "1", "b": None}, "ttl": 1500}
    assert vault.get("p", {"b", "a"}) == ConfigData({"a": "1"}, 1500)
    host.answer = {"data": {}, "ttl": None}
    assert vault.get("") == ConfigData({}, None)
    named = {"class": "com.acme.Vault", "version": "1.0", "settings": {"token": "t"}}
    assert {more.pop("provider") for _, more in host.asked} == {"v"}
    assert host.asked == [("configure", named), ("get", {**named, "path": "p", "keys": ["a", "b"]}),
                          ("get", {**named, "path": "", "keys": None})]


@pytest.mark.parametrize(("error", "kind", "message"), [
    (thrown({"class": "org.apache.kafka.common.config.ConfigException", "message": "sealed", "permanent": True,
             "trace": "\tat com.acme.Vault.get"}), ConfigError,
     "could not read p: org.apache.kafka.common.config.ConfigException: sealed"),
    (JavaPluginError("java.lang.IllegalStateException: broken\n\tat com.acme.Vault.get"), ConnectError,
     "could not read p: java.lang.IllegalStateException: broken"),
    (ConnectError("com.acme.Vault.get() has not returned"), ConnectError,
     "could not read p: com.acme.Vault.get() has not returned"),
])
def test_exceptions_of_a_provider_are_reported_and_not_permanent(vault, host, error, kind, message):
    host.answer = error
    with pytest.raises(ConnectError) as raised:
        vault.get("p", {"k"})
    assert isinstance(raised.value, ConfigError) is (kind is ConfigError)
    assert str(raised.value) == f"The config provider com.acme.Vault {message}"
    assert not is_permanent(raised.value)


def test_settings_that_the_provider_refuses(host):
    host.answer = JavaPluginError("java.lang.NullPointerException: token")
    with pytest.raises(ConfigError, match=r"Vault could not be configured: java\.lang\.NullPointerException: token$"):
        class_of(VAULT, host)().configure({})
