"""Reads all partitions of one topic with kafka-python's consumer, without a group."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition

from spark_tasks.kafka.consumer_records import mark_ends
from spark_tasks.kafka.errors import UnknownTopicError, translating
from spark_tasks.kafka.topic_client import client_for

_FETCH_WAIT_MS: Final = 10_000  # the broker holds an empty fetch for this long
_FETCH_BYTES: Final = 32 << 20
_POLL_MS: Final = 3_600_000


class TopicReader:
    """Used by one thread; any may `close` it. Raises ConnectError, and RuntimeError if the library's network loop has
    ended. `settings`: kafka-python's client settings.
    """

    def __init__(self, topic: str, settings: Mapping[str, Any], *, committed: bool) -> None:
        self._topic = topic
        with translating():
            self._consumer = KafkaConsumer(
                **{**settings, "kafka_client": client_for(topic)},
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed" if committed else "read_uncommitted",
                fetch_max_wait_ms=_FETCH_WAIT_MS,
                fetch_max_bytes=_FETCH_BYTES,
                max_partition_fetch_bytes=_FETCH_BYTES,
                request_timeout_ms=_FETCH_WAIT_MS + 30_000,
                metrics_enabled=False,
            )
        mark_ends(self._consumer)

    def partitions(self) -> list[int]:
        """The topic's partitions, sorted; empty if it has just been created."""
        try:
            with translating():
                return sorted(self._consumer.partitions_for_topic(self._topic))
        except UnknownTopicError:  # raised if the metadata has no other topic either
            return []

    def start(self, offsets: Mapping[int, int]) -> None:
        """Has `poll` read these partitions, from these offsets."""
        with translating():
            self._consumer.assign([TopicPartition(self._topic, number) for number in offsets])
            for number, offset in offsets.items():
                self._consumer.seek(TopicPartition(self._topic, number), offset)

    def poll(self) -> dict[int, Sequence[Any]]:
        """Waits for records, and returns those of each partition, as kafka-python's ConsumerRecords or EndMarks."""
        with translating():
            found = self._consumer.poll(_POLL_MS, max_records=sys.maxsize)
        return {partition.partition: records for partition, records in found.items()}

    def close(self) -> None:
        """Ends a `poll` that waits. Blocks for a second at most."""
        self._consumer.close(timeout_ms=1000)
