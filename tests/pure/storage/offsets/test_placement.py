"""Which offsets topic a source connector has, and with which clients."""

from __future__ import annotations

from typing import Any

import pytest

from spark_tasks.config.client_properties import WorkerClients
from spark_tasks.errors import ConfigError
from storage.ids import TopicName
from storage.offsets.placement import own_offsets

CLIENTS = WorkerClients({"bootstrap.servers": "a:1,b:1", "security.protocol": "PLAINTEXT"})
SHARED = TopicName("offsets")
ELSEWHERE = {f"{kind}.override.bootstrap.servers": "c:1" for kind in ("producer", "consumer", "admin")}


def settings(*servers: str) -> dict[str, Any]:
    return {"bootstrap_servers": list(servers), "security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize(("connector", "exactly_once"), [
    ({}, False),
    ({}, True),
    ({"offsets.storage.topic": " "}, True),
    ({"offsets.storage.topic": None}, True),
    ({"offsets.storage.topic": "offsets"}, True),
    ({"offsets.storage.topic": "offsets", "producer.override.bootstrap.servers": "b:1"}, False),
    (ELSEWHERE, False),
    ({"producer.override.bootstrap.servers": "c:1"}, False),
])
def test_a_connector_without_its_own_topic_uses_only_the_workers(connector: dict[str, Any], exactly_once: bool) -> None:
    assert own_offsets(CLIENTS, SHARED, connector, exactly_once=exactly_once) is None


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_connector_may_have_its_own_offsets_topic(exactly_once: bool) -> None:
    own = own_offsets(CLIENTS, SHARED, {"offsets.storage.topic": "mine"}, exactly_once=exactly_once)
    assert own is not None
    assert (own.topic, own.producer) == ("mine", settings("a:1", "b:1"))
    assert own.producer == own.consumer == own.admin


@pytest.mark.parametrize(("named", "exactly_once", "topic"), [
    ({}, True, "offsets"),
    ({"offsets.storage.topic": "offsets"}, False, "offsets"),
    ({"offsets.storage.topic": "mine"}, True, "mine"),
])
def test_offsets_may_be_in_another_kafka_cluster(named: dict[str, str], exactly_once: bool, topic: str) -> None:
    security = {"admin.override.request.timeout.ms": "9"}
    own = own_offsets(CLIENTS, SHARED, {**ELSEWHERE, **named, **security}, exactly_once=exactly_once)
    assert own is not None
    assert (own.topic, own.producer, own.consumer) == (topic, settings("c:1"), settings("c:1"))
    assert own.admin == {**settings("c:1"), "request_timeout_ms": 9}


@pytest.mark.parametrize("kind", ["consumer", "admin"])
def test_clients_for_different_kafka_clusters_are_refused(kind: str) -> None:
    connector = {k: v for k, v in ELSEWHERE.items() if not k.startswith(kind)}
    with pytest.raises(ConfigError, match=rf"its {kind} client is configured for a:1,b:1: set {kind}\.override"):
        own_offsets(CLIENTS, SHARED, connector, exactly_once=True)
