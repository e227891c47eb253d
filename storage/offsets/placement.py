"""Where a source connector's offsets are, if not on the worker's offsets topic alone (KIP-618)."""

from __future__ import annotations

from collections.abc import Mapping

from spark_tasks.errors import ConfigError
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.client_properties import client_properties, same_brokers
from storage.ids import TopicName
from storage.offsets.own import OwnOffsets


def own_offsets(worker: Mapping[str, str], connector: Mapping[str, str], *, exactly_once: bool) -> OwnOffsets | None:
    """By a source connector's (resolved) configuration: the topic that it names, or, exactly once in another cluster,
    the worker's topic's namesake there. Raises ConfigError where the connector's clients cannot work together.
    """
    named = connector.get("offsets.storage.topic", "").strip()
    producer = client_properties(worker, connector, "producer")
    if not named and (not exactly_once or same_brokers(producer, worker)):
        return None
    shared = worker["offset.storage.topic"]
    if named == shared and same_brokers(producer, worker):
        return None
    consumer = client_properties(worker, connector, "consumer")
    admin = client_properties(worker, connector, "admin")
    for kind, properties in (("consumer", consumer), ("admin", admin)):
        if not same_brokers(properties, producer):
            raise ConfigError(
                f"The connector's producer writes to {producer.get('bootstrap.servers')}, and its offsets go there as "
                f"well, but its {kind} is configured for {properties.get('bootstrap.servers')}: set "
                f"{kind}.override.bootstrap.servers (and what else the {kind} needs there)"
            )
    return OwnOffsets(
        TopicName(named or shared), client_settings(producer), client_settings(consumer), client_settings(admin)
    )
