"""Appends to one topic with kafka-python's producers, with or without transactions."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kafka.errors as protocol
from kafka import KafkaProducer

from spark_tasks.kafka.errors import translated, translating
from spark_tasks.kafka.topic_client import client_for

_logger = logging.getLogger(__name__)

Appended = tuple[int, int]
"""The partition and the offset of a record."""


class TopicProducer:
    """Thread-safe. Raises ConnectError; RuntimeError if the library's network loop has ended.

    `settings`: of kafka-python's producer; `check`: see `client_for`.
    """

    def __init__(
        self, topic: str, settings: Mapping[str, Any], check: Callable[[], Exception | None] | None = None
    ) -> None:
        self._topic = topic
        with translating():
            self._producer = KafkaProducer(**{**settings, "kafka_client": client_for(topic, check)},
                                           metrics_enabled=False)

    def send(
        self, key: bytes, value: bytes | None, appended: Callable[[Appended], None], failed: Callable[[Exception], None]
    ) -> None:
        """Appends a record, then calls one of the two functions, on any thread. (A future would add a third to a
        record's CPU time.) Records that are sent one after the other have that order in their partition.
        """
        with translating():
            acknowledged = self._producer.send(self._topic, key=key, value=value)
        acknowledged.add_callback(lambda meta: appended((meta.partition, meta.offset)))
        acknowledged.add_errback(lambda error: failed(_ours(error)))

    def prepare(self) -> None:
        """Reads the topic's metadata, so that the first `send` need not wait."""
        with translating():
            self._producer.partitions_for(self._topic)

    def close(self, timeout_s: float) -> None:
        """Waits for records that are being sent."""
        with translating():
            self._producer.close(timeout=timeout_s)


class TransactionalTopicProducer:
    """Appends the records of each `write` in a transaction. Creating one fences the earlier ones of the transactional
    id. Used by one thread. Raises ConnectError; it can only be closed after that.

    `settings`: of kafka-python's producer, with `transactional_id`; `timeout_s`: for each record.
    """

    def __init__(self, topic: str, settings: Mapping[str, Any], timeout_s: float) -> None:
        self._topic = topic
        self._timeout_s = timeout_s
        doing = (f"Failed to create and initialize fencable producer for topic {topic} (transactional.id "
                 f"{settings['transactional_id']})")
        with translating(doing), contextlib.ExitStack() as cleanup:
            self._producer = KafkaProducer(**{**settings, "kafka_client": client_for(topic)}, metrics_enabled=False)
            cleanup.callback(self.close)
            self._producer.init_transactions()
            cleanup.pop_all()

    def write(self, records: Sequence[tuple[bytes, bytes | None]]) -> list[Appended]:
        """Appends all records or none."""
        with translating(f"Failed to perform fencable send to topic {self._topic}",
                         needs="WRITE permission on the topic"):
            self._producer.begin_transaction()
            sent = [self._producer.send(self._topic, key=key, value=value) for key, value in records]
            # Not after the commit, which waits in vain if the broker refuses the topic.
            done = [future.get(timeout=self._timeout_s) for future in sent]
            self._producer.commit_transaction()
        return [(meta.partition, meta.offset) for meta in done]

    def close(self) -> None:
        """Does not wait: an open transaction was fenced or will time out."""
        try:
            self._producer.close(timeout=0)
        except protocol.KafkaError as error:
            _logger.debug("Closing the transactional producer of topic %s: %s", self._topic, error)


def _ours(error: Exception) -> Exception:
    return translated(error) if isinstance(error, (protocol.KafkaError, OSError)) else error
