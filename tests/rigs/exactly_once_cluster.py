"""Checks that a read_committed reader sees numbered streams completely, without duplicates and in order."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.rigs.cluster import PACED, SCHEMALESS, SETTLE_S, Cluster
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka


@dataclass
class Reader:
    """Reads a topic of datagen continuously; `problems` lists what is wrong with it.

    If `exactly` is False, a record may occur more than once.
    """

    kafka: Kafka
    topic: str
    exactly: bool = True
    problems: list[str] = field(default_factory=list)
    next: dict[int, int] = field(default_factory=dict)
    made_at: dict[int, float] = field(default_factory=dict)  # the newest record of each stream, seconds since 1970

    def __post_init__(self) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": self.kafka.servers, "group.id": "exactly-once", "enable.auto.commit": False,
            "isolation.level": "read_committed", "auto.offset.reset": "earliest", "log_level": 0,
            "reconnect.backoff.max.ms": 1000,
        })
        partitions = self._consumer.list_topics(self.topic, 20).topics[self.topic].partitions
        self._consumer.assign([TopicPartition(self.topic, p, 0) for p in partitions])

    def read(self, seconds: float = 0.2) -> None:
        """Read what arrives within this time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for message in self._consumer.consume(20_000, min(left, 0.2)):
                if message.error() is None:
                    self._check(json.loads(message.value()), message)

    def _check(self, value: dict[str, Any], message: Any) -> None:
        stream, sequence = value["stream"], value["sequence"]
        expected = self.next.get(stream, 0)
        if sequence > expected or (self.exactly and sequence < expected):
            kind = "twice or out of order" if sequence < expected else "missing before it"
            self.problems.append(
                f"stream {stream}: {sequence} at {message.partition()}:{message.offset()}, expected {expected} ({kind})"
            )
        self.next[stream] = max(expected, sequence + 1)
        self.made_at[stream] = value["time"] / 1000

    def check(self) -> dict[int, int]:
        """Read, and fail if anything is wrong; returns the next number of each stream."""
        self.read()
        assert not self.problems, self.problems[:5]
        return dict(self.next)

    def wait_flowing(self, streams: int, more: int = 100, within: float = SETTLE_S,
                     also: Callable[[], Any] = lambda: None) -> None:
        """Wait until every stream has advanced by this many records."""
        before = self.check()

        def further() -> bool:
            also()
            now = self.check()
            return len(now) == streams and all(now[s] >= before.get(s, 0) + more for s in now)

        wait_until(further, within, f"{streams} streams to flow on from {before}")

    def close(self) -> None:
        self._consumer.close()


def numbers(cluster: Cluster, name: str, tasks: int, *, streams: int = 4, rate: int = 300, **more: str) -> str:
    """Create or change a datagen connector `name` with the topic `name`."""
    cluster.create(name, {
        "connector.class": "datagen", "topic": name, "rate": str(rate), "streams": str(streams),
        "exactly.once.support": "required", **PACED, **SCHEMALESS,
        **{key.replace("_", "."): value for key, value in more.items()},
    }, tasks)
    return name


def config_records(cluster: Cluster, prefix: str) -> list[tuple[str, Any]]:
    """Key and parsed value of the config topic's records with this prefix of their keys, in order."""
    raw = cluster.kafka.messages(cluster.settings["config.storage.topic"])
    return [(m.key().decode(), json.loads(m.value()) if m.value() else None) for m in raw
            if m.key().decode().startswith(prefix)]
