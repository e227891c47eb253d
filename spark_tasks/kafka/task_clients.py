"""Translates the properties of Java's Kafka clients to the settings of a task's clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

from spark_tasks.errors import ConfigError
from spark_tasks.java.regex import compile_java
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.cluster import Isolation
from spark_tasks.kafka.membership import ConsumerSettings, assignors

Reset = Literal["earliest", "latest", "none"]
T = TypeVar("T")


def connection_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns kafka-python's connection settings. Tasks with equal settings share connections. As in Java's clients,
    the reconnect backoff is at most a second (kafka-python's default is 30 s).
    """
    return {"reconnect_backoff_max_ms": 1000, **client_settings(properties)}


def isolation(properties: Mapping[str, str]) -> Isolation:
    """Returns `isolation.level`, by default read_uncommitted as in Kafka Connect. Raises ConfigError."""
    return _choice(properties, "isolation.level", _LEVELS)


def reset_policy(properties: Mapping[str, str]) -> Reset:
    """Returns `auto.offset.reset`, by default earliest as in Kafka Connect. Raises ConfigError."""
    return _choice(properties, "auto.offset.reset", _RESETS)


_LEVELS: Final[tuple[Isolation, ...]] = ("read_uncommitted", "read_committed")
_RESETS: Final[tuple[Reset, ...]] = ("earliest", "latest", "none")


def _choice(properties: Mapping[str, str], key: str, allowed: tuple[T, ...]) -> T:
    text = properties.get(key, "").strip().lower()
    if not text:
        return allowed[0]
    for value in allowed:
        if value == text:
            return value
    raise ConfigError(f"Invalid value {properties[key]} for configuration {key}: expected one of {allowed}")


def number(properties: Mapping[str, str], key: str, default: int, minimum: int = 0) -> int:
    """Returns the integer value of a property. Raises ConfigError unless it is at least `minimum`."""
    text = properties.get(key, "").strip()
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = minimum - 1
    if value < minimum:
        raise ConfigError(f"Invalid value {text} for configuration {key}: must be a whole number of at least {minimum}")
    return value


def consumer_settings(
    connector_name: str, task: int, connector: Mapping[str, str], properties: Mapping[str, str]
) -> ConsumerSettings:
    """Returns the settings of a sink task's group member. `properties`: those of its consumer, see client_properties.
    Raises ConfigError.
    """
    topics = tuple(dict.fromkeys(t.strip() for t in (connector.get("topics") or "").split(",") if t.strip()))
    regex = (connector.get("topics.regex") or "").strip()
    if bool(topics) == bool(regex):
        raise ConfigError("Must configure one of topics or topics.regex")
    return ConsumerSettings(
        group_id=properties.get("group.id") or f"connect-{connector_name}",
        client=connection_settings(properties),
        client_id=properties.get("client.id") or f"connector-consumer-{connector_name}-{task}",
        topics=topics,
        pattern=_pattern(regex) if regex else None,
        session_timeout_ms=number(properties, "session.timeout.ms", 45_000, 1),
        heartbeat_interval_ms=number(properties, "heartbeat.interval.ms", 3_000, 1),
        max_poll_interval_ms=number(properties, "max.poll.interval.ms", 300_000, 1),
        group_instance_id=properties.get("group.instance.id") or None,
        exclude_internal_topics=_flag(properties, "exclude.internal.topics"),
        allow_auto_create_topics=_flag(properties, "allow.auto.create.topics"),
        assignors=assignors(properties.get("partition.assignment.strategy", "")),
        expects_others=(connector.get("tasks.max") or "1").strip() != "1",
    )


def _flag(properties: Mapping[str, str], key: str) -> bool:
    """Returns whether a boolean property, by default true, is not false."""
    return properties.get(key, "true").strip().lower() != "false"


def _pattern(regex: str) -> re.Pattern[str]:
    try:
        return compile_java(regex)
    except re.error as error:
        raise ConfigError(f"Invalid value {regex} for configuration topics.regex: {error}") from error
