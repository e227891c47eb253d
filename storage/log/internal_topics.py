"""The three topics in which a worker group keeps its state: creates missing ones, and checks existing ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.kafka.admin import KafkaAdmin
from spark_tasks.kafka.errors import (
    InvalidReplicationFactorError,
    KafkaAuthorizationError,
    KafkaTimedOutError,
    LoginRefusedError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from storage.ids import TopicName

_logger = logging.getLogger(__name__)

BACKOFF_S = 0.5
_POLICY = "cleanup.policy"
_CONFIG = "config.storage."
_NOT_OF_TOPIC = frozenset({"topic", "partitions", "replication.factor", _POLICY})


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """The settings of a topic; -1 as `partitions` or `replication_factor` means the broker's default.

    `property`: the worker's property with the topic's name; `prefix`: that of its other properties; `purpose`: what the
    topic is for, in messages.
    """

    name: TopicName
    property: str
    prefix: str
    purpose: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str] = field(default_factory=dict)


def internal_topics(
    values: Mapping[str, Any], given: Mapping[str, str]
) -> tuple[InternalTopic, InternalTopic, InternalTopic]:
    """Config, offset and status topic. `values`: the worker's parsed settings; `given`: all settings as texts,
    which include those that are the topics' own.
    """
    return (
        _topic(values, given, "config", "connector configurations", partitions=1),
        _offsets(values, given),
        _topic(values, given, "status", "connector and task statuses", values["status.storage.partitions"]),
    )


def connector_offsets(values: Mapping[str, Any], given: Mapping[str, str], name: TopicName) -> InternalTopic:
    """A connector's own offsets topic: like the worker's, except for the name."""
    return replace(_offsets(values, given), name=name, property="offsets.storage.topic")


def _offsets(values: Mapping[str, Any], given: Mapping[str, str]) -> InternalTopic:
    return _topic(values, given, "offset", "source connector offsets", values["offset.storage.partitions"])


def _topic(
    values: Mapping[str, Any], given: Mapping[str, str], kind: str, purpose: str, partitions: int
) -> InternalTopic:
    prefix = f"{kind}.storage."
    own = {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}
    if kind == "config" and "partitions" in own:
        _logger.warning("Ignoring %spartitions=%s: the config topic has one partition", prefix, own["partitions"])
    if _POLICY in own:
        _logger.warning("Ignoring %s%s=%s: compaction is always used", prefix, _POLICY, own[_POLICY])
    settings = {key: value for key, value in own.items() if key not in _NOT_OF_TOPIC}
    return InternalTopic(TopicName(values[f"{prefix}topic"]), f"{prefix}topic", prefix, purpose, partitions,
                         values[f"{prefix}replication.factor"], settings)


def ensure_topics(admin: KafkaAdmin, topics: Sequence[InternalTopic], timeout_s: float = 0.0) -> None:
    """Creates missing topics, then checks existing ones. Blocks; raises ConnectError, or ConfigError for problems that
    only the user can fix: unsuitable topics, more replicas than brokers.

    Steps that the broker does not authorize are skipped: the topics may exist and be suitable. If fewer brokers than
    replicas are up, because they start at the same time as the worker, the creation is retried for `timeout_s` seconds,
    as in Kafka Connect.
    """
    deadline = time.monotonic() + timeout_s
    existed = [topic for topic in topics if not _create_in_time(admin, topic, deadline)]
    for topic in existed:
        _check_compacted(topic, _policies(admin, topic))
        if topic.prefix == _CONFIG:
            _check_one_partition(topic, _partition_count(admin, topic))


def check_topic(admin: KafkaAdmin, topic: InternalTopic) -> Sequence[Mapping[str, Any]] | None:
    """The topic's partitions as Kafka describes them; None if it does not exist. Creates nothing.

    Raises ConfigError if it is unsuitable, ConnectError if it cannot be described.
    """
    try:
        partitions = admin.partitions(topic.name)
    except UnknownTopicError:
        return None
    except ConnectError as error:
        raise ConnectError(f"Error while attempting to describe topic '{topic.name}': {error}") from error
    if partitions is None:
        return None
    _check_compacted(topic, _policies(admin, topic))
    if topic.prefix == _CONFIG:
        _check_one_partition(topic, len(partitions))
    return partitions


def _create_in_time(admin: KafkaAdmin, topic: InternalTopic, deadline: float) -> bool:
    """Creates a topic; transient errors are retried until the deadline. Returns whether the topic is new."""
    warned = False
    while True:
        try:
            return _create(admin, topic)
        except ConnectError as error:
            left = deadline - time.monotonic()
            if left <= 0 or not isinstance(error.__cause__, (InvalidReplicationFactorError, KafkaTimedOutError)):
                raise
            if not warned:
                _logger.warning("%s. Retrying for %.0f s: the brokers may still be starting", error, left)
                warned = True
        time.sleep(BACKOFF_S)


def _create(admin: KafkaAdmin, topic: InternalTopic) -> bool:
    """Creates a topic. Returns whether it is new. Raises ConnectError."""
    configs = {**topic.settings, _POLICY: "compact"}
    try:
        new = admin.create_topic(topic.name, topic.partitions, topic.replication_factor, configs)
    except ConnectError as error:
        if not _is_denied(error):
            raise _creation_failed(topic, error) from error
        _logger.debug("Not authorized to create topic %s; assuming that it exists", topic.name)
        return False
    if new:
        _logger.info("Created topic %s for %s", topic.name, topic.purpose)
    return new


def _is_denied(error: ConnectError) -> bool:
    """Whether the broker answers this client's requests, but not this one."""
    denied = isinstance(error, (KafkaAuthorizationError, UnsupportedVersionError))
    return denied and not isinstance(error, LoginRefusedError)


def _creation_failed(topic: InternalTopic, cause: ConnectError) -> ConnectError:
    where = f"Unable to create topic(s) '{topic.name}', supplied via the '{topic.property}' property"
    if isinstance(cause, KafkaTimedOutError):
        return ConnectError(
            f"Timed out while checking for or creating topic(s) '{topic.name}'. There may be a connectivity issue, "
            "partitions may be unavailable, or the creation takes longer than usual"
        )
    if isinstance(cause, InvalidReplicationFactorError):
        factor = (f"set '{topic.prefix}replication.factor' (now {topic.replication_factor}) to at most the number of "
                  "brokers")
        return ConfigError(f"{where}: {cause} ({factor})")
    return ConnectError(f"{where}: {cause}")


def _policies(admin: KafkaAdmin, topic: InternalTopic) -> set[str]:
    """The topic's cleanup policies; empty if they cannot be read."""
    try:
        policies = admin.topic_config(topic.name, _POLICY)
    except ConnectError as error:
        if not (_is_denied(error) or isinstance(error, UnknownTopicError)):
            message = f"Error while attempting to describe topic config for topic '{topic.name}': {error}"
            raise ConnectError(message) from error
        _logger.debug("Could not read the settings of topic %s: %s", topic.name, error)
        return set()
    return {policy.strip().lower() for policy in policies.split(",") if policy.strip()}


def _check_compacted(topic: InternalTopic, policies: set[str]) -> None:
    if not policies:
        _logger.info("Unable to verify that the cleanup policy of topic %s is compact: not authorized, or the topic "
                     "does not exist yet", topic.name)
    elif policies != {"compact"}:
        raise ConfigError(
            f"Topic '{topic.name}' supplied via the '{topic.property}' property is required to have "
            f"'cleanup.policy=compact' to guarantee consistency and durability of {topic.purpose}, but found the topic "
            f"currently has 'cleanup.policy={','.join(sorted(policies))}'. With it, {topic.purpose} would be lost "
            f"sooner or later. Set another topic in '{topic.property}', or change this one's policy to 'compact'"
        )


def _partition_count(admin: KafkaAdmin, topic: InternalTopic) -> int | None:
    try:
        return len(admin.partitions(topic.name) or ()) or None
    except ConnectError as error:
        if _is_denied(error):
            return None
        raise ConnectError(f"Error while attempting to describe topic '{topic.name}': {error}") from error


def _check_one_partition(topic: InternalTopic, count: int | None) -> None:
    if count is not None and count > 1:
        raise ConfigError(
            f"Topic '{topic.name}' supplied via the '{topic.property}' property is required to have a single partition "
            f"in order to guarantee consistency of {topic.purpose}, but found {count} partitions. "
            f"Set another topic in '{topic.property}', or recreate this one with one partition"
        )
