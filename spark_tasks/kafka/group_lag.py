"""The lag of a sink's consumer group."""

from __future__ import annotations

from collections.abc import Sequence

from spark_tasks.kafka.admin import KafkaAdmin, TopicDescription
from spark_tasks.kafka.group_client import TopicPattern
from spark_tasks.kafka.group_settings import ConsumerSettings


def group_lag(admin: KafkaAdmin, settings: ConsumerSettings) -> tuple[int, int]:
    """The total lag in records of a group in the topics of its members, and the number of their partitions. Raises
    ConnectError.
    """
    partitions = [(topic.name, number) for topic in _topics(admin, settings) for number in topic.partitions]
    return admin.lag(settings.group_id, partitions), len(partitions)


def _topics(admin: KafkaAdmin, settings: ConsumerSettings) -> Sequence[TopicDescription]:
    if settings.pattern is None:
        return admin.topics(settings.topics)
    pattern, internal = TopicPattern(settings.pattern), not settings.exclude_internal_topics
    found = [topic for topic in admin.topics() if (internal or not topic.internal) and pattern.match(topic.name)]
    pattern.check()
    return found
