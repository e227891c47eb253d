"""How the properties of a Kafka client follow from the worker's and the connector's."""

from __future__ import annotations

from typing import Any

import pytest

from spark_tasks.config.client_properties import WorkerClients, client_properties, same_brokers
from spark_tasks.errors import ConfigError

WORKER = {"bootstrap.servers": "a:9092", "group.id": "g", "security.protocol": "PLAINTEXT", "key.converter": "x"}
CLIENTS = WorkerClients.of(WORKER)


def test_overrides_precede_prefixed_and_plain_worker_properties() -> None:
    worker = {**WORKER, "consumer.isolation.level": "read_committed", "consumer.session.timeout.ms": "7000"}
    connector = {"consumer.override.session.timeout.ms": "9000", "topics": "t"}
    found = client_properties(WorkerClients.of(worker), connector, "consumer")
    assert found == {
        "bootstrap.servers": "a:9092", "security.protocol": "PLAINTEXT", "isolation.level": "read_committed",
        "session.timeout.ms": "9000",
    }  # fmt: skip


def test_another_cluster_inherits_nothing() -> None:
    worker = {**WORKER, "producer.acks": "1"}
    found = client_properties(WorkerClients.of(worker), {"producer.override.bootstrap.servers": "b:1"}, "producer")
    assert found == {"bootstrap.servers": "b:1"}


def test_an_override_that_is_null_is_an_error_that_names_it() -> None:
    connector: Any = {"producer.override.bootstrap.servers": None}
    with pytest.raises(ConfigError, match=r"^Invalid value null for configuration producer\.override\.bootstrap\.serv"):
        client_properties(CLIENTS, connector, "producer")
    assert client_properties(CLIENTS, connector, "admin") == client_properties(CLIENTS, {}, "admin")


@pytest.mark.parametrize(("policy", "allowed"), [
    ("None", ()), ("Principal", ("sasl.jaas.config",)), ("Allowlist", ("acks",)), ("All", ("acks", "sasl.jaas.config")),
])
def test_a_policy_applies_to_connectors_that_are_older_or_were_written_to_the_topic(
    policy: str, allowed: tuple[str, ...]
) -> None:
    """Whichever client is created, for a task or for a request, as in Kafka Connect."""
    prefix = "connector.client.config.override."
    worker = {**WORKER, f"{prefix}policy": policy, f"{prefix}allowlist": "acks"}
    known = WorkerClients.of(worker)
    for key in ("acks", "sasl.jaas.config"):
        connector = {f"admin.override.{key}": "x", "admin.override.": "alone, it overrides nothing"}
        assert "acks" not in client_properties(known, connector, "producer")
        if key in allowed:
            assert client_properties(known, connector, "admin")[key] == "x"
        else:
            with pytest.raises(ConfigError, match=rf"^Client Config Overrides not allowed.*'{policy}'.*'{key}'"):
                client_properties(known, connector, "admin")


@pytest.mark.parametrize(("other", "same"), [
    ("a:1,b:2", True), ("b:2, a:1", True), ("A:1", True), ("c:3", False), ("a:2", False),
])
def test_the_same_brokers_however_they_are_written(other: str, same: bool) -> None:
    assert same_brokers({"bootstrap.servers": "a:1, b:2"}, {"bootstrap.servers": other}) is same
