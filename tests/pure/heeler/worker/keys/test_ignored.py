"""Every key of a worker either has an effect or is reported as ignored."""

from __future__ import annotations

import logging
import re
from functools import cache

import pytest

from heeler.worker.config import WorkerConfig
from heeler.worker.keys.ignored import IGNORED, REFUSED, why_ignored
from heeler.worker.keys.worker import WORKER_KEYS
from heeler.worker.part_settings import trial_settings
from spark_tasks.config import unsupported
from spark_tasks.config.client_keys import client_config_def
from spark_tasks.config.client_properties import WorkerClients, client_properties
from spark_tasks.config.connector_keys import QUEUE, SINK, SOURCE
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.plugins import Plugins
from spark_tasks.validation import validate_connector
from tests.rigs.sources import FILES, ROOT
from tests.rigs.worker_configs import BASE

LISTS = (  # they name keys without using them
    "heeler/worker/keys/worker.py", "heeler/worker/keys/clients.py", "heeler/worker/keys/ignored.py",
    "rest/server/keys.py", "spark_tasks/config/client_keys.py", "spark_tasks/config/connector_keys.py",
    "spark_tasks/config/unsupported.py",
)
# Put together where they are used: storage/log/internal_topics.py and client_config.py
COMPOSED = {*(f"{kind}.storage.{what}" for kind in ("config", "offset", "status") for what in (
    "topic", "replication.factor")), *(f"{kind}.converter.plugin.version" for kind in ("key", "value", "header")),
    "ssl.keystore.type", "ssl.truststore.type"}
_WORD = re.compile(r'"([\w.]+)"')


@cache
def used_keys() -> set[str]:
    """Every word that stands alone between quotes in the code (to parse all of it would take a second)."""
    return {word for file in FILES if str(file) not in LISTS for word in _WORD.findall((ROOT / file).read_text())}


def test_every_key_is_used_or_ignored_or_refused():
    found = used_keys() | COMPOSED
    idle = {key for key in WORKER_KEYS.keys if key not in found}
    assert {key for key in idle if why_ignored(key) is None} == {"rest.extension.classes"}, "does nothing"
    assert {key for key in WORKER_KEYS.keys if why_ignored(key) is not None} <= idle, "does something"
    assert set(IGNORED) <= set(WORKER_KEYS.keys)
    assert "rest.extension.classes" in REFUSED


@pytest.mark.parametrize("client", ["producer", "consumer", "admin"])
def test_every_key_of_a_client_is_used_or_ignored(client):
    found = used_keys() | COMPOSED
    keys = set(client_config_def(client).keys)
    ignored = {key for key in keys if why_ignored(f"{client}.{key}") is not None}
    assert keys - found == ignored
    assert set(unsupported.SECURITY) - {"sasl.mechanism", "ssl.cipher.suites", "ssl.enabled.protocols"} <= set(
        unsupported.IGNORED) | {"sasl.login.class", "sasl.login.callback.handler.class"}, "with another protocol"


def test_ignored_settings_cause_a_single_warning(caplog):
    with caplog.at_level(logging.WARNING):
        WorkerConfig.of(BASE | {"rest.extension.classes": "", "ssl.cipher.suites": "", "sasl.login.class": ""})
        assert caplog.messages == [], "what is not set, or empty, is not missed"
        WorkerConfig.of(BASE | {"offset.flush.timeout.ms": "9", "sasl.login.class": "com.example.Login",
                                "producer.linger.ms": "5"})
    [reported] = caplog.messages
    for key, advice in (("offset.flush.timeout.ms", "remove it"), ("sasl.login.class", "remove it"),
                        ("producer.linger.ms", "remove it")):
        assert advice in reported.partition(f"{key} (")[2].partition(")")[0], reported


# ---------------------------------------------------------------- what security hangs on
CASES = {  # of each key: a value that is refused, one that is not (Java's default, where there is one), the protocol
    "ssl.provider": ("BCFIPS", "SunJSSE", "SSL"), "ssl.engine.factory.class": ("com.example.Pinning", "", "SSL"),
    "ssl.keymanager.algorithm": ("Vault", "SunX509", "SSL"), "ssl.trustmanager.algorithm": ("Pins", "PKIX", "SASL_SSL"),
    "ssl.cipher.suites": ("TLS_AES_256_GCM_SHA384", "", "SSL"),
    "ssl.enabled.protocols": ("TLSv1.3", "TLSv1.2,TLSv1.3", "SSL"),
    "security.providers": ("com.example.Provider", "", "SASL_PLAINTEXT"),
    "sasl.client.callback.handler.class": ("com.example.Handler", "", "SASL_SSL"),
    "sasl.login.callback.handler.class": ("com.example.Handler", "", "SASL_PLAINTEXT"),
    "sasl.login.class": ("com.example.Login", "", "SASL_SSL"), "sasl.mechanism": ("OAUTHBEARER", "PLAIN", "SASL_SSL"),
    "interceptor.classes": ("com.example.Encrypting",
                            "io.confluent.monitoring.clients.interceptor.MonitoringProducerInterceptor", "PLAINTEXT"),
}


def test_every_refused_setting_has_a_test_case():
    assert set(CASES) == set(unsupported.SECURITY)


@pytest.mark.parametrize("prefix", ["", "producer.", "consumer.", "admin."])
@pytest.mark.parametrize("key", CASES)
def test_settings_that_would_leave_a_client_less_secure_are_refused(key, prefix):
    bad, good, protocol = CASES[key]
    secured = BASE | {f"{prefix}security.protocol": protocol, "sasl.mechanism": "PLAIN"}
    with pytest.raises(ConfigError) as refused:
        WorkerConfig.of(secured | {f"{prefix}{key}": bad})
    assert str(refused.value).startswith(f"Invalid value {bad} for configuration {prefix}{key}: heeler cannot honor")
    assert unsupported.SECURITY[key].instead in str(refused.value)
    WorkerConfig.of(secured | {f"{prefix}{key}": good})
    if key != "interceptor.classes":
        WorkerConfig.of(BASE | {f"{prefix}{key}": bad})  # it does nothing in Java either


@pytest.mark.parametrize(("key", "value"), [
    ("rest.extension.classes", "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"),
    ("rest.servlet.initializor.classes", "com.example.Login"), ("authentication.method", "BASIC"),
    ("authorizer.class.name", "com.example.Authorizer"), ("ssl.client.authentication", "REQUIRED"),
    ("listeners.https.ssl.client.authentication", "REQUIRED"),
    ("connector.client.config.override.policy", "com.example.AllConnectorClientConfigOverridePolicy"),
    ("connector.client.config.override.policy", "com.example.Strict"),
])
def test_a_worker_that_would_be_less_secure_than_its_file_says_does_not_start(key, value):
    with pytest.raises(ConfigError, match=f"Invalid value {value} for configuration {key}: "):
        WorkerConfig.of(BASE | {key: value})


def test_all_refused_settings_are_reported_together():
    with pytest.raises(ConfigError) as refused:
        WorkerConfig.of(BASE | {"rest.extension.classes": "a.B", "producer.interceptor.classes": "c.D",
                                "consumer.interceptor.classes": "e.F", "group.id": ""})
    assert [line.split()[2] for line in str(refused.value).splitlines()] == ["for", "a.B", "c.D", "e.F"]


@pytest.mark.parametrize(("override", "worker"), [
    ({"consumer.override.security.protocol": "SASL_SSL", "consumer.override.sasl.mechanism": "OAUTHBEARER"}, {}),
    ({"consumer.override.sasl.login.class": "com.example.Login"}, {"security.protocol": "SASL_SSL"}),
    ({"consumer.override.interceptor.classes": "com.example.Masking"}, {}),
    ({"consumer.override.security.protocol": "SSL"}, {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}),
])
def test_a_connector_requests_unsupported_client_settings(override, worker):
    config = {"name": "a", "connector.class": "FileStreamSink", "topics": "t", "file": "lines"}
    worker = {**BASE, "sasl.mechanism": "PLAIN", **worker}
    plugins, settings = Plugins(), trial_settings(worker)
    assert validate_connector(config, plugins=plugins, worker=settings).error_count == 0
    infos = validate_connector(config | override, plugins=plugins, worker=settings)
    assert infos.error_count == 1
    assert "heeler cannot honor it" in infos.message()
    # One that Java stored fails, and says why.
    login = {"sasl.jaas.config": 'x username="u" password="p"'}
    with pytest.raises(ConfigError, match=r"heeler cannot honor it|OAuth are not supported"):
        client_settings(client_properties(WorkerClients(worker | login), override, "consumer"))


def test_every_key_of_a_connector_is_used():
    versions = (f"{kind}.converter.plugin.version" for kind in ("key", "value", "header"))
    composed = {QUEUE, "topic.creation.groups", *versions}
    assert ({*SINK.keys, *SOURCE.keys} - composed) - used_keys() == set()
