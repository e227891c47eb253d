"""Translates the properties of Java's Kafka clients to the settings of a task's clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal, cast

from spark_tasks.config.client_keys import BY_DURATION
from spark_tasks.config.client_properties import consumer_group
from spark_tasks.config.client_values import client_value, given_value
from spark_tasks.config.connector_keys import tasks_max, topics_of
from spark_tasks.errors import ConfigError
from spark_tasks.java.regex import compile_java
from spark_tasks.kafka.client_config import DEFAULTS, client_settings
from spark_tasks.kafka.cluster import Isolation
from spark_tasks.kafka.group_settings import ConsumerSettings, assignors

Reset = Literal["earliest", "latest", "none"] | timedelta
"""auto.offset.reset; a duration is that of `by_duration:` (KIP-1106)."""


def connection_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns kafka-python's connection settings. Tasks with equal settings share connections."""
    return {**DEFAULTS, **client_settings(properties)}


def isolation(properties: Mapping[str, str]) -> Isolation:
    """Returns `isolation.level`, by default read_uncommitted as in Kafka Connect. Raises ConfigError."""
    level: Isolation = client_value("consumer", properties, "isolation.level").lower()
    return level


def reset_policy(properties: Mapping[str, str]) -> Reset:
    """Returns `auto.offset.reset`, by default earliest as in Kafka Connect. Raises ConfigError."""
    text: str = given_value("consumer", properties, _RESET) or "earliest"
    if not text.lower().startswith(BY_DURATION):
        return cast("Reset", text.lower())
    duration = text[len(BY_DURATION):]
    found = _DURATION.fullmatch(duration)
    if found is None:
        raise ConfigError(f"Invalid value {text} for configuration {_RESET}: {duration!r} is not a duration of the "
                          "form PnDTnHnMn.nS, such as PT12H")
    try:
        return timedelta(**{unit: float(amount) for unit, amount in found.groupdict("0").items()})
    except OverflowError:
        return timedelta.max


_RESET: Final = "auto.offset.reset"
_DURATION: Final = re.compile(  # of java.time.Duration, which may not be negative here
    r"P(?=.)(?:(?P<days>\d+)D)?(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{0,9})?)S)?)?",
    re.IGNORECASE | re.ASCII)


def consumer_settings(
    connector_name: str, task: int, connector: Mapping[str, str], properties: Mapping[str, str]
) -> ConsumerSettings:
    """Returns the settings of a sink task's group member. `properties`: those of its consumer, see client_properties.
    Raises ConfigError.
    """
    topics = topics_of(connector)
    regex = (connector.get("topics.regex") or "").strip()
    if bool(topics) == bool(regex):
        raise ConfigError("Must configure one of topics or topics.regex")
    value = partial(client_value, "consumer", properties)
    return ConsumerSettings(
        group_id=consumer_group(connector_name, properties),
        client=connection_settings(properties),
        client_id=properties.get("client.id") or f"connector-consumer-{connector_name}-{task}",
        topics=topics,
        pattern=_pattern(regex) if regex else None,
        session_timeout_ms=value("session.timeout.ms"),
        heartbeat_interval_ms=value("heartbeat.interval.ms"),
        max_poll_interval_ms=value("max.poll.interval.ms"),
        group_instance_id=properties.get("group.instance.id") or None,
        exclude_internal_topics=value("exclude.internal.topics"),
        allow_auto_create_topics=value("allow.auto.create.topics"),
        assignors=assignors(given_value("consumer", properties, "partition.assignment.strategy") or ()),
        expects_others=tasks_max(connector) > 1,
    )


def _pattern(regex: str) -> re.Pattern[str]:
    try:
        return compile_java(regex)
    except re.error as error:
        raise ConfigError(f"Invalid value {regex} for configuration topics.regex: {error}") from error
