"""The committed offsets of consumer groups, as an administrator reads and changes them (KIP-875)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import kafka
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import GroupIdNotFoundError, KafkaError, NoError
from kafka.structs import OffsetAndMetadata

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.connections import net_client
from spark_tasks.kafka.group_client import TopicPattern
from spark_tasks.kafka.group_settings import ConsumerSettings

T = TypeVar("T")


class OffsetNotChangedError(ConnectError):
    """Kafka has not changed an offset; the message is the name of its error. The group may still have members."""


class GroupOffsets:
    """A connection to a cluster. Every method takes seconds at most, and raises ConnectError.

    `properties`: Kafka's client properties.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        settings = client_settings(properties)
        self._admin = _translated(lambda: KafkaAdminClient(**settings, kafka_client=net_client))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()

    def of(self, group: str) -> dict[TopicPartition, int]:
        """The group's offsets; empty if it does not exist."""
        committed = _translated(lambda: self._admin.list_group_offsets({group: None})).get(group, {})
        return {(tp.topic, tp.partition): at.offset for tp, at in committed.items()}

    def alter(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Sets the group's offsets; None removes one. Raises OffsetNotChangedError."""
        removed = [kafka.TopicPartition(*tp) for tp, offset in offsets.items() if offset is None]
        kept = {kafka.TopicPartition(*tp): OffsetAndMetadata(n, "", None) for tp, n in offsets.items() if n is not None}
        if removed:
            _check(_translated(lambda: self._admin.delete_group_offsets(group, removed)))
        if kept:
            _check(_translated(lambda: self._admin.alter_group_offsets(group, kept)))

    def delete(self, group: str) -> None:
        """Deletes the group, which need not exist. Raises OffsetNotChangedError."""
        outcome = _translated(lambda: self._admin.delete_groups([group]))[group]
        if outcome not in ("OK", GroupIdNotFoundError.__name__):
            raise OffsetNotChangedError(outcome)

    def lag(self, settings: ConsumerSettings) -> tuple[int, int]:
        """The total lag in records of a group in the topics of its members, and the number of their partitions. The lag
        of a partition without an offset is all of its records.
        """
        return _translated(lambda: self._lag(settings))

    def _lag(self, settings: ConsumerSettings) -> tuple[int, int]:
        described = self._topics(settings)
        partitions = [kafka.TopicPartition(topic["name"], partition["partition_index"])
                      for topic in described for partition in topic["partitions"]]
        group = settings.group_id
        done = self._admin.list_group_offsets({group: None}).get(group, {})
        ends = self._admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST)) if partitions else {}
        new = [partition for partition in partitions if partition not in done]
        starts = self._admin.list_partition_offsets(dict.fromkeys(new, OffsetSpec.EARLIEST)) if new else {}
        lags = (max(0, end.offset - (done if at in done else starts)[at].offset) for at, end in ends.items())
        return sum(lags), len(partitions)

    def _topics(self, settings: ConsumerSettings) -> Sequence[Any]:
        if settings.pattern is None:
            named: Sequence[Any] = self._admin.describe_topics(list(settings.topics))
            return named
        pattern, internal = TopicPattern(settings.pattern), not settings.exclude_internal_topics
        found = [topic for topic in self._admin.describe_topics()
                 if (internal or not topic["is_internal"]) and pattern.match(topic["name"])]
        pattern.check()
        return found


def _translated(call: Callable[[], T]) -> T:
    try:
        return call()
    except GroupIdNotFoundError as error:  # an offset of it was to be removed
        raise OffsetNotChangedError(type(error).__name__) from error
    except KafkaError as error:
        raise ConnectError(f"Kafka refused to read or change the consumer group's offsets: {error!r}") from error


def _check(results: Mapping[kafka.TopicPartition, Any]) -> None:
    for tp, error in results.items():
        if error is not NoError:
            raise OffsetNotChangedError(f"{tp.topic}-{tp.partition}: {error.__name__}")
