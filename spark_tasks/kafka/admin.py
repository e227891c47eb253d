"""What an administrator asks a cluster about topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import kafka.errors as protocol
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec

from spark_tasks.kafka.connections import net_client
from spark_tasks.kafka.errors import translating


class ClusterDescription(NamedTuple):
    """A cluster's id and its number of brokers."""

    id: str
    brokers: int


class KafkaAdmin:
    """A connection to a cluster. Methods block, and raise ConnectError; RuntimeError after `close`.

    `client`: kafka-python's, which `close` closes.
    """

    def __init__(self, client: KafkaAdminClient) -> None:
        self._client = client

    @classmethod
    def connect(cls, settings: Mapping[str, Any]) -> Self:
        """Returns a new connection. `settings`: kafka-python's connection settings."""
        with translating():
            return cls(KafkaAdminClient(**{**settings, "kafka_client": net_client}))

    def cluster(self) -> ClusterDescription:
        """Describes the cluster."""
        with translating():
            found = self._client.describe_cluster()
        return ClusterDescription(str(found["cluster_id"]), len(found["brokers"]))

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> bool:
        """Creates a topic unless it exists. Returns whether it is new. -1 means the brokers' default."""
        options = {"num_partitions": partitions, "replication_factor": replication_factor, "configs": configs}
        with translating():
            response = self._client.create_topics({name: options}, raise_errors=False)
            [created] = response["topics"]
            error_type = protocol.for_code(created["error_code"])
            if error_type is protocol.TopicAlreadyExistsError:
                return False
            if created["error_code"]:
                raise error_type(created.get("error_message"))
        return True

    def partitions(self, topic: str) -> Sequence[Mapping[str, Any]] | None:
        """A topic's partitions as Kafka describes them; None if it gives an error instead."""
        with translating():
            [found] = self._client.describe_topics([topic])
        return None if found["error_code"] else list(found["partitions"])

    def topic_config(self, topic: str, key: str) -> str:
        """A setting of a topic; empty if the broker does not say."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: None})
        with translating():
            found: Mapping[str, Any] = self._client.describe_configs([resource], config_filter="all")
        return found.get("topic", {}).get(topic, {}).get(key, {}).get("value") or ""

    def starts(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The first offset of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.EARLIEST, "read_uncommitted")

    def ends(self, topic: str, partitions: Iterable[int], *, committed: bool = False) -> dict[int, int]:
        """The offset after the last record of each partition; with `committed`, after the last one that is not in an
        open transaction or behind one.
        """
        isolation = "read_committed" if committed else "read_uncommitted"
        return self._offsets(topic, partitions, OffsetSpec.LATEST, isolation)

    def _offsets(self, topic: str, partitions: Iterable[int], wanted: OffsetSpec, isolation: str) -> dict[int, int]:
        asked = {TopicPartition(topic, number): wanted for number in partitions}
        with translating():
            found = self._client.list_partition_offsets(asked, isolation)
        return {partition.partition: at.offset for partition, at in found.items()}

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()
