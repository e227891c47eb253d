"""Kafka clients for a single internal topic."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.errors import UnknownTopicOrPartitionError
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.protocol.producer import ProduceRequest

from spark_tasks.process.pulse import process_pulse
from storage.log.protocol import SuspendedError

_METADATA_BACKOFF_MS: Final = 20  # between two metadata requests; the library's 100 ms would delay every start
SOON_S: Final = 0.1  # time in which records that were decided on before a suspension reach the client


class Freshness:
    """Whether records may still be sent: not if this process, or its machine, was suspended for longer than `session_s`
    since they were decided on. Others have its work by then, and may have written newer records.
    """

    def __init__(self, session_s: float) -> None:
        self._session_s = session_s
        self._lock = threading.Lock()
        self._since: dict[int, float] = {}
        self._numbers = itertools.count()
        process_pulse()  # starts it, so that a later suspension is noticed

    def hold(self, since: float) -> int:
        """A record that was decided on at `since` (time.monotonic) is being sent, until `release`."""
        with self._lock:
            number = next(self._numbers)
            self._since[number] = since
        return number

    def release(self, number: int) -> None:
        """The send of a record has ended."""
        with self._lock:
            del self._since[number]

    def error(self) -> SuspendedError | None:
        """The error if records that are being sent must not be sent any more."""
        with self._lock:
            since = min(self._since.values(), default=time.monotonic())
        slept = process_pulse().silence_since(min(since, time.monotonic() - SOON_S))
        return SuspendedError(f"this process did nothing for {slept:.1f} s") if slept > self._session_s else None


class _FreshClient(KafkaNetClient):  # type: ignore[misc]
    """Checks the freshness before each request with records."""

    def __init__(self, freshness: Freshness, **configs: Any) -> None:
        super().__init__(**configs)
        self._freshness = freshness

    def send(self, node_id: Any, request: Any, **options: Any) -> Future:
        if isinstance(request, ProduceRequest) and (error := self._freshness.error()) is not None:
            return Future().failure(error)
        return super().send(node_id, request, **options)


def client_for(topic: str, freshness: Freshness | None = None) -> Callable[..., KafkaNetClient]:
    """A `kafka_client` factory for clients of one topic: they request its metadata from the start. With `freshness`,
    they do not send records that are no longer fresh.
    """

    def make(**configs: Any) -> KafkaNetClient:
        client = KafkaNetClient(**configs) if freshness is None else _FreshClient(freshness, **configs)
        client.cluster.config["retry_backoff_ms"] = _METADATA_BACKOFF_MS
        client.cluster.config["allow_auto_create_topics"] = False  # such a topic would not be compacted
        client.cluster.set_topics([topic])
        return client

    return make


def partitions_of(consumer: KafkaConsumer, topic: str) -> set[int]:
    """The topic's partitions that the consumer knows; empty if the topic has just been created."""
    try:
        found: set[int] = consumer.partitions_for_topic(topic)
    except UnknownTopicOrPartitionError:  # the library's error if the metadata contain no other topic
        return set()
    return found
