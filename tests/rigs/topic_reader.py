"""The current content of a topic, read with librdkafka, an independent client."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition


def read_topic(servers: str, topic: str, *, committed: bool = True, within_s: float = 20) -> Iterator[Message]:
    """All records, one partition after another. `committed`: without those of open and aborted transactions."""
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "enable.partition.eof": True, "log_level": 0,
        "enable.auto.commit": False, "isolation.level": "read_committed" if committed else "read_uncommitted",
    })
    try:
        for number in sorted(consumer.list_topics(topic, within_s).topics[topic].partitions):
            consumer.assign([TopicPartition(topic, number, 0)])
            while (message := consumer.poll(within_s)) is not None and message.error() is None:
                yield message
            assert message is not None, f"no end of {topic}-{number}"
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()  # noqa: SLF001 - so it is called
    finally:
        consumer.close()


def letters(bootstrap: str, topic: str) -> list[tuple[bytes | None, dict[str, str]]]:
    """Value and headers of all dead letters in a topic, those of committed transactions only."""
    found = []
    for message in read_topic(bootstrap, topic):
        headers = {name.removeprefix("__connect.errors."): value.decode(errors="replace")
                   for name, value in message.headers() or () if value is not None}
        found.append((message.value(), headers))
    return found
