"""The connections of clients that deal with one internal topic."""

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

# The library waits that long between two metadata requests: 100 ms would delay every start.
_METADATA_BACKOFF_MS: Final = 20
SOON_S: Final = 0.1  # what was decided before a sleep is handed over by then; to join a group again takes longer


class Freshness:
    """Whether records may still be sent: not once this process has slept for longer than `session_s` since they were
    good (a suspended process, or machine). Others have its work by then, and have written newer ones.
    """

    def __init__(self, session_s: float) -> None:
        self._session_s = session_s
        self._lock = threading.Lock()
        self._since: dict[int, float] = {}
        self._numbers = itertools.count()
        process_pulse()  # it has to beat before anything can sleep

    def hold(self, since: float) -> int:
        """A record is on its way that was good at `since` (of time.monotonic), until `release`."""
        with self._lock:
            number = next(self._numbers)
            self._since[number] = since
        return number

    def release(self, number: int) -> None:
        """It has an outcome."""
        with self._lock:
            del self._since[number]

    def error(self) -> SuspendedError | None:
        """Why nothing of what is on its way may be sent now."""
        with self._lock:
            since = min(self._since.values(), default=time.monotonic())
        slept = process_pulse().silence_since(min(since, time.monotonic() - SOON_S))
        return SuspendedError(f"this process did nothing for {slept:.1f} s") if slept > self._session_s else None


class _FreshClient(KafkaNetClient):  # type: ignore[misc]
    """Asks before each request with records."""

    def __init__(self, freshness: Freshness, **configs: Any) -> None:
        super().__init__(**configs)
        self._freshness = freshness

    def send(self, node_id: Any, request: Any, **options: Any) -> Future:
        if isinstance(request, ProduceRequest) and (error := self._freshness.error()) is not None:
            return Future().failure(error)
        return super().send(node_id, request, **options)


def client_for(topic: str, freshness: Freshness | None = None) -> Callable[..., KafkaNetClient]:
    """A `kafka_client` factory for clients that deal with one topic: they ask for its metadata from the start. With
    `freshness` they send nothing that is not fresh any more.
    """

    def make(**configs: Any) -> KafkaNetClient:
        client = KafkaNetClient(**configs) if freshness is None else _FreshClient(freshness, **configs)
        client.cluster.config["retry_backoff_ms"] = _METADATA_BACKOFF_MS
        client.cluster.config["allow_auto_create_topics"] = False  # such a topic would not be compacted
        client.cluster.set_topics([topic])
        return client

    return make


def partitions_of(consumer: KafkaConsumer, topic: str) -> set[int]:
    """The topic's partitions as its client's consumer sees them now; none yet where it was created just now."""
    try:
        found: set[int] = consumer.partitions_for_topic(topic)
    except UnknownTopicOrPartitionError:  # what the library makes of an answer about no other topic
        return set()
    return found
