"""What Kafka's client reports about a topic that has just been created."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError

from spark_tasks.kafka import topic_reader
from spark_tasks.kafka.errors import KafkaTimedOutError
from spark_tasks.kafka.topic_reader import TopicReader


class Consumer:
    """Kafka's answers, one after the other."""

    answers: list[Any]

    def __init__(self, **_: Any) -> None: ...

    def partitions_for_topic(self, topic: str) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, set):
            return answer
        raise answer(topic)


def test_a_topic_unknown_to_the_broker_has_no_partitions_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reader, "KafkaConsumer", Consumer)
    monkeypatch.setattr(topic_reader, "mark_ends", lambda _: None)
    monkeypatch.setattr(
        Consumer, "answers", [UnknownTopicOrPartitionError, set(), {1, 0}, KafkaTimeoutError], raising=False)
    reader = TopicReader("t", {}, committed=False)
    assert [reader.partitions() for _ in range(3)] == [[], [], [0, 1]]
    with pytest.raises(KafkaTimedOutError, match="KafkaTimeoutError: t"):
        reader.partitions()
