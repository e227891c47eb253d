"""Decides whether a source connector has its own offsets topic in addition to the worker's (KIP-618)."""

from __future__ import annotations

from collections.abc import Mapping

from spark_tasks.config.client_properties import WorkerClients, client_properties, same_brokers
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.client_config import client_settings
from storage.ids import TopicName
from storage.offsets.own_topic import OwnOffsets


def own_offsets(
    clients: WorkerClients, shared: TopicName, connector: Mapping[str, str], *, exactly_once: bool
) -> OwnOffsets | None:
    """The own offsets topic of a source connector, from its (resolved) configuration: the topic that it names, or, for
    exactly-once in another cluster, the topic there with the name of the worker's topic, `shared`. Raises ConfigError
    if the connector's clients are configured for different clusters.
    """
    named = (connector.get("offsets.storage.topic") or "").strip()  # null as for Java: none
    producer = client_properties(clients, connector, "producer")
    if not named and (not exactly_once or same_brokers(producer, clients.properties)):
        return None
    if named == shared and same_brokers(producer, clients.properties):
        return None
    consumer = client_properties(clients, connector, "consumer")
    admin = client_properties(clients, connector, "admin")
    for kind, properties in (("consumer", consumer), ("admin", admin)):
        if not same_brokers(properties, producer):
            raise ConfigError(
                f"The connector's producer writes to {producer.get('bootstrap.servers')}, where its offsets are kept "
                f"as well, but its {kind} client is configured for {properties.get('bootstrap.servers')}: set "
                f"{kind}.override.bootstrap.servers (and the {kind} client's other settings for that cluster)"
            )
    return OwnOffsets(
        TopicName(named) if named else shared,
        *(client_settings(properties) for properties in (producer, consumer, admin)),
    )
