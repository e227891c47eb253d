"""Creates topics with the settings of source connectors (KIP-158)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Self

from spark_tasks.config.client_properties import WorkerClients, client_properties
from spark_tasks.config.topic_groups import TopicGroups, TopicSettings
from spark_tasks.errors import counted
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.errors import UnknownTopicError
from spark_tasks.kafka.task_clients import connection_settings

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """Creates topics. `admin`: the settings of its admin client. Picklable, for executors."""

    groups: TopicGroups
    admin: Mapping[str, Any]

    @classmethod
    def of(cls, connector: Mapping[str, str], clients: WorkerClients) -> Self | None:
        """Parses a connector's configuration; None if it leaves topic creation to the brokers. `clients`: those of the
        worker's connectors. Raises ConfigError.
        """
        groups = TopicGroups.of(connector)
        if groups is None:
            return None
        return cls(groups, connection_settings(client_properties(clients, connector, "admin")))

    def ensure(self, cluster: KafkaCluster, topic: str) -> None:
        """Creates the topic unless it exists. Several tasks may call this at the same time. Raises ConnectError."""
        try:
            cluster.partitions(topic)
        except UnknownTopicError:
            create_topic(self.admin, topic, self.groups.settings_of(topic))


def create_topic(admin: Mapping[str, Any], topic: str, wanted: TopicSettings) -> None:
    """Creates the topic unless it exists. `admin`: kafka-python's connection settings. Raises ConnectError."""
    from spark_tasks.kafka.admin import KafkaAdmin  # noqa: PLC0415 - rarely needed

    with closing(KafkaAdmin.connect(admin, f"creating topic {topic}")) as client:
        if client.create_topic(topic, wanted.partitions, wanted.replication_factor, wanted.configs, wait=True):
            number = wanted.partitions
            some = "the default number of partitions" if number < 0 else counted(number, "partition")
            _logger.info("Created topic %s with %s", topic, some)
        else:
            _logger.debug("Another client has created topic %s in the meantime", topic)
