"""What an administrator asks a cluster, and changes in it: topics, and the offsets of consumer groups (KIP-875)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Self

import kafka
import kafka.errors as protocol
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.structs import OffsetAndMetadata

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import Isolation, TopicPartition
from spark_tasks.kafka.connections import net_client
from spark_tasks.kafka.errors import translating

_CREATE = "CREATE permission on the topic or the cluster; or create the topic yourself"


class ClusterDescription(NamedTuple):
    """A cluster's id and its number of brokers."""

    id: str
    brokers: int


class TopicDescription(NamedTuple):
    """A topic as Kafka describes it. `internal`: a topic of Kafka itself."""

    name: str
    internal: bool
    partitions: Sequence[int]


class OffsetNotChangedError(ConnectError):
    """Kafka has not changed an offset; the message is the name of its error. The group may still have members."""


class KafkaAdmin:
    """A connection to a cluster. Methods block for seconds at most, and raise ConnectError; RuntimeError if closed.

    `client`: kafka-python's, which `close` closes. `doing`: what the connection is for, as errors name it.
    """

    def __init__(self, client: KafkaAdminClient, doing: str = "") -> None:
        self._client = client
        self._doing = doing

    @classmethod
    def connect(cls, settings: Mapping[str, Any], doing: str = "") -> Self:
        """Returns a new connection. `settings`: kafka-python's connection settings."""
        with translating(doing):
            return cls(KafkaAdminClient(**{**settings, "kafka_client": net_client}), doing)

    def cluster(self) -> ClusterDescription:
        """Describes the cluster."""
        with self._translating():
            found = self._client.describe_cluster()
        return ClusterDescription(str(found["cluster_id"]), len(found["brokers"]))

    # ------------------------------------------------------------ topics
    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str], *, wait: bool = False
    ) -> bool:
        """Creates a topic unless it exists. Returns whether it is new. -1 means the brokers' default. `wait`: for the
        leaders of a new topic.
        """
        options = {"num_partitions": partitions, "replication_factor": replication_factor, "configs": dict(configs)}
        with self._translating(_CREATE):
            response = self._client.create_topics({name: options}, raise_errors=False)
            [created] = response["topics"]
            error_type = protocol.for_code(created["error_code"])
            if error_type is protocol.TopicAlreadyExistsError:
                return False
            if created["error_code"]:
                raise error_type(created.get("error_message"))
            if wait:
                self._client.wait_for_topics([name])
        return True

    def topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """Describes these topics, or all; one that does not exist has no partitions."""
        with self._translating():
            found = self._client.describe_topics(None if names is None else list(names))
        return [TopicDescription(topic["name"], topic["is_internal"],
                                 [partition["partition_index"] for partition in topic["partitions"]])
                for topic in found]

    def partitions(self, topic: str) -> Sequence[Mapping[str, Any]] | None:
        """A topic's partitions as Kafka describes them; None if it gives an error instead."""
        with self._translating():
            [found] = self._client.describe_topics([topic])
        return None if found["error_code"] else list(found["partitions"])

    def topic_config(self, topic: str, key: str) -> str:
        """A setting of a topic; empty if the broker does not say."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: None})
        with self._translating():
            found: Mapping[str, Any] = self._client.describe_configs([resource], config_filter="all")
        return found.get("topic", {}).get(topic, {}).get(key, {}).get("value") or ""

    def starts(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The first offset of each partition."""
        found = self._offsets([(topic, number) for number in partitions], OffsetSpec.EARLIEST)
        return {number: offset for (_, number), offset in found.items()}

    def ends(self, topic: str, partitions: Iterable[int], *, committed: bool = False) -> dict[int, int]:
        """The offset after the last record of each partition; with `committed`, after the last one that is not in an
        open transaction or behind one.
        """
        isolation: Isolation = "read_committed" if committed else "read_uncommitted"
        found = self._offsets([(topic, number) for number in partitions], OffsetSpec.LATEST, isolation)
        return {number: offset for (_, number), offset in found.items()}

    def _offsets(
        self, partitions: Iterable[TopicPartition], wanted: OffsetSpec, isolation: Isolation = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        asked = {kafka.TopicPartition(*partition): wanted for partition in partitions}
        if not asked:
            return {}
        with self._translating():
            found = self._client.list_partition_offsets(asked, isolation)
        return {(partition.topic, partition.partition): at.offset for partition, at in found.items()}

    # ------------------------------------------------------------ consumer groups
    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """The group's committed offsets; empty if it does not exist."""
        with self._translating():
            committed = self._client.list_group_offsets({group: None}).get(group, {})
        return {(tp.topic, tp.partition): at.offset for tp, at in committed.items()}

    def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Sets the group's offsets; None removes one. Raises OffsetNotChangedError."""
        removed = [kafka.TopicPartition(*tp) for tp, offset in offsets.items() if offset is None]
        kept = {kafka.TopicPartition(*tp): OffsetAndMetadata(n, "", None) for tp, n in offsets.items() if n is not None}
        with self._translating():
            try:
                if removed:
                    _check(self._client.delete_group_offsets(group, removed))
                if kept:
                    _check(self._client.alter_group_offsets(group, kept))
            except protocol.GroupIdNotFoundError as error:  # an offset of it was to be removed
                raise OffsetNotChangedError(type(error).__name__) from error

    def delete_group(self, group: str) -> None:
        """Deletes the group, which need not exist. Raises OffsetNotChangedError."""
        with self._translating():
            outcome = self._client.delete_groups([group])[group]
        if outcome not in ("OK", protocol.GroupIdNotFoundError.__name__):
            raise OffsetNotChangedError(outcome)

    def lag(self, group: str, partitions: Sequence[TopicPartition]) -> int:
        """How many records of these partitions the group has not read: of a partition without an offset, all."""
        done = self.group_offsets(group)
        ends = self._offsets(partitions, OffsetSpec.LATEST)
        starts = self._offsets([partition for partition in partitions if partition not in done], OffsetSpec.EARLIEST)
        return sum(max(0, end - (done if at in done else starts)[at]) for at, end in ends.items())

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def _translating(self, needs: str = "") -> AbstractContextManager[None]:
        return translating(self._doing, needs)


def _check(results: Mapping[kafka.TopicPartition, Any]) -> None:
    for tp, error in results.items():
        if error is not protocol.NoError:
            raise OffsetNotChangedError(f"{tp.topic}-{tp.partition}: {error.__name__}")
