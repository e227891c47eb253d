"""Creates topics with the settings of source connectors (KIP-158)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from spark_tasks.config.connector_keys import SOURCE
from spark_tasks.config.types import Type, invalid, parse_type
from spark_tasks.errors import ConfigError
from spark_tasks.java.bounded_match import TOO_SLOW, matches
from spark_tasks.java.regex import compile_java
from spark_tasks.kafka.client_properties import client_properties
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.errors import UnknownTopicError
from spark_tasks.kafka.task_clients import connection_settings

_logger = logging.getLogger(__name__)

_PREFIX = "topic.creation."
_PATTERNS = ("include", "exclude")
_NUMBERS = {"replication.factor": Type.SHORT, "partitions": Type.INT}
_ALLOWED = {
    "replication.factor": "Replication factor must be positive and not larger than the number of brokers in the Kafka "
                          "cluster, or -1 to use the broker's default",
    "partitions": "Number of partitions must be positive, or -1 to use the broker's default",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a new topic. -1 means the brokers' default."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """A connector's `topic.creation.*` settings, and the settings of its admin client. Picklable, for executors."""

    connector: Mapping[str, str]
    admin: Mapping[str, Any]

    def settings_of(self, topic: str) -> TopicSettings:
        """Returns the settings of the first group whose `include` matches the topic and whose `exclude` does not, or
        those of the default group. Raises ConfigError if a pattern takes too long.
        """
        for group in self.groups:
            if self._matches(group, "include", topic) and not self._matches(group, "exclude", topic):
                return self.settings(group)
        return self.settings("default")

    @property
    def groups(self) -> list[str]:
        """The groups other than the default one. Raises ConfigError."""
        key = SOURCE.keys[_PREFIX + "groups"]
        named: list[str] = parse_type(key.name, self.connector.get(key.name, ""), key.type)
        if key.validator is not None:
            key.validator(key.name, named)
        return [group for group in named if group and group != "default"]

    def _matches(self, group: str, key: str, topic: str) -> bool:
        for pattern in self._patterns(group, key):
            try:
                if matches(pattern, topic):
                    return True
            except TimeoutError as error:
                name = f"{_PREFIX}{group}.{key}"
                raise invalid(name, self.connector[name], f"with the topic {topic}, it {TOO_SLOW}") from error
        return False

    def _patterns(self, group: str, key: str) -> list[re.Pattern[str]]:
        name = f"{_PREFIX}{group}.{key}"
        texts = parse_type(name, self.connector.get(name, ""), Type.LIST)
        try:
            return [compile_java(text) for text in texts if text]
        except re.error as error:
            raise invalid(name, texts, f"Syntax error in regular expression: {error}") from error

    def check(self) -> None:
        """Raises ConfigError for invalid settings of any group. The patterns of the default group have no meaning."""
        self.settings("default")
        for group in self.groups:
            self.settings(group)
            for key in _PATTERNS:
                self._patterns(group, key)

    def settings(self, group: str) -> TopicSettings:
        """Returns the settings of a group. Raises ConfigError."""
        prefix = f"{_PREFIX}{group}."
        own = {k.removeprefix(prefix): v for k, v in self.connector.items() if k.startswith(prefix)}
        replication_factor, partitions = (self._number(group, key) for key in _NUMBERS)
        configs = {k: v for k, v in own.items() if k not in (*_PATTERNS, *_NUMBERS)}
        return TopicSettings(partitions, replication_factor, configs)

    def _number(self, group: str, key: str) -> int:
        name = f"{_PREFIX}{group}.{key}"
        if name not in self.connector:
            if group == "default":
                raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
            return self._number("default", key)
        value: int = parse_type(name, self.connector[name], _NUMBERS[key])
        if value < 1 and value != -1:
            raise invalid(name, value, _ALLOWED[key])
        return value

    def ensure(self, cluster: KafkaCluster, topic: str) -> None:
        """Creates the topic unless it exists. Several tasks may call this at the same time. Raises ConnectError."""
        try:
            cluster.partitions(topic)
        except UnknownTopicError:
            create_topic(self.admin, topic, self.settings_of(topic))


def create_topic(admin: Mapping[str, Any], topic: str, wanted: TopicSettings) -> None:
    """Creates the topic unless it exists. `admin`: kafka-python's connection settings. Raises ConnectError."""
    from spark_tasks.kafka.admin import KafkaAdmin  # noqa: PLC0415 - rarely needed

    with closing(KafkaAdmin.connect(admin, f"creating topic {topic}")) as client:
        if client.create_topic(topic, wanted.partitions, wanted.replication_factor, wanted.configs, wait=True):
            count = "the default number of" if wanted.partitions < 0 else wanted.partitions
            _logger.info("Created topic %s with %s partition%s", topic, count, "" if count == 1 else "s")
        else:
            _logger.debug("Another client has created topic %s in the meantime", topic)


def topic_creation(connector: Mapping[str, str], clients: Mapping[str, str]) -> TopicCreation | None:
    """Returns the connector's settings, or None if it leaves topic creation to the brokers. `clients`: the worker's
    properties for the clients of its connectors.

    Raises ConfigError for invalid settings of any group, even if no topic has to be created.
    """
    settings = {k: v for k, v in connector.items() if k.startswith(_PREFIX) and v is not None}
    if not settings:
        return None
    creation = TopicCreation(settings, connection_settings(client_properties(clients, connector, "admin")))
    creation.check()
    return creation
