"""Every key of a worker either does something or is said to do nothing."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import actors
from actors.ignored_keys import IGNORED, IGNORED_PREFIXES, why_ignored
from actors.worker_config import WorkerConfig
from actors.worker_keys import KNOWN_PREFIXES, WORKER_KEYS
from spark_tasks import ignored_keys as connectors
from spark_tasks.connector_config import SINK, SOURCE
from tests.pure.test_worker_config import BASE

ROOT = Path(actors.__file__).parents[1]
LISTS = ("actors/worker_keys.py", "actors/client_keys.py", "actors/ignored_keys.py", "rest/keys.py",
         "spark_tasks/validation/client_configs.py",
         "spark_tasks/connector_config.py", "spark_tasks/ignored_keys.py")  # they name keys without using them
# Put together where they are used: storage/internal_topics.py and client_config.py
COMPOSED = {*(f"{kind}.storage.{what}" for kind in ("config", "offset", "status") for what in (
    "topic", "replication.factor")), "ssl.keystore.type", "ssl.truststore.type"}


def used_keys() -> set[str]:
    """Every text that stands alone in the code, outside of docstrings' sentences."""
    files = (f for package in ("actors", "rest", "storage", "spark_tasks") for f in (ROOT / package).rglob("*.py"))
    trees = (ast.parse(f.read_text()) for f in files if str(f.relative_to(ROOT)) not in LISTS)
    return {n.value for t in trees for n in ast.walk(t) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def test_every_key_is_used_or_ignored():
    found = used_keys() | COMPOSED
    assert {key for key in WORKER_KEYS.keys if why_ignored(key) is None and key not in found} == set(), "does nothing"
    assert {key for key in WORKER_KEYS.keys if why_ignored(key) is not None and key in found} == set(), "does something"
    assert set(IGNORED) <= set(WORKER_KEYS.keys)
    known = {prefix for prefix in IGNORED_PREFIXES if any(key.startswith(prefix) for key in WORKER_KEYS.keys)}
    assert known | set(KNOWN_PREFIXES) >= set(IGNORED_PREFIXES)


def test_one_warning_for_what_was_set(caplog):
    with caplog.at_level(logging.WARNING):
        WorkerConfig.of(BASE | {"rest.extension.classes": ""})
        assert caplog.messages == [], "what is not set, or empty, is not missed"
        WorkerConfig.of(BASE | {"rest.extension.classes": "com.example.Auth", "offset.flush.timeout.ms": "9",
                                "sasl.login.class": "com.example.Login"})
    [told] = caplog.messages
    for key, advice in (("rest.extension.classes", "put a proxy"), ("offset.flush.timeout.ms", "leave it out"),
                        ("sasl.login.class", "leave it out")):
        assert advice in told.partition(f"{key} (")[2].partition(")")[0], told


def test_every_key_of_a_connector_is_used_or_ignored():
    composed = {"topic.creation.groups", *(f"{kind}.converter.plugin.version" for kind in ("key", "value", "header"))}
    unused = ({*SINK.keys, *SOURCE.keys} - composed) - used_keys()
    # The dead letter queue's topic is checked against the connector's own topics, and then nothing is sent there.
    assert unused == {*connectors.IGNORED} - {"errors.deadletterqueue.topic.name"}


def test_a_connector_that_wants_what_is_not_there_is_warned():
    defaults = {"errors.tolerance": "none", "errors.retry.timeout": "0", "errors.log.enable": "false"}
    assert connectors.warning(defaults) is None
    wanted = {**defaults, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    assert "ignores errors.tolerance, errors.deadletterqueue.topic.name: " in str(connectors.warning(wanted))
