"""The connections of clients that deal with one internal topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.errors import UnknownTopicOrPartitionError
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.protocol.producer import ProduceRequest

from spark_tasks.pulse import process_pulse
from storage.log_protocol import SuspendedError

# The library waits that long between two metadata requests: 100 ms would delay every start.
_METADATA_BACKOFF_MS: Final = 20
_LEFT_S: Final = 0.1  # what waited is sent by then; a worker that joins its group again needs longer


class _FreshClient(KafkaNetClient):  # type: ignore[misc]
    """Sends no records that waited while the process slept for longer than `session_s` (a suspended process, or
    machine): others have its work by then, and have written newer ones.
    """

    def __init__(self, session_s: float, **configs: Any) -> None:
        super().__init__(**configs)
        self._session_s = session_s
        process_pulse()  # it has to beat before anything can sleep

    def send(self, node_id: Any, request: Any, **options: Any) -> Future:
        if isinstance(request, ProduceRequest):
            slept = process_pulse().silence_since(time.monotonic() - _LEFT_S)
            if slept > self._session_s:
                return Future().failure(SuspendedError(f"this process did nothing for {slept:.1f} s"))
        return super().send(node_id, request, **options)


def client_for(topic: str, session_s: float | None = None) -> Callable[..., KafkaNetClient]:
    """A `kafka_client` factory for clients that deal with one topic: they ask for its metadata from the start. With
    `session_s` they send nothing that waited while the process slept past its session.
    """

    def make(**configs: Any) -> KafkaNetClient:
        client = KafkaNetClient(**configs) if session_s is None else _FreshClient(session_s, **configs)
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
