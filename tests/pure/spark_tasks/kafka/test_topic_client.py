"""What Kafka's client reports about a topic that has just been created."""

from __future__ import annotations

from typing import Any

from kafka.errors import UnknownTopicOrPartitionError

from spark_tasks.kafka.topic_client import partitions_of


class Consumer:
    """Kafka's answers, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def partitions_for_topic(self, topic: str) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, set):
            return answer
        raise answer(topic)


def test_a_topic_unknown_to_the_broker_has_no_partitions_yet() -> None:
    consumer = Consumer(UnknownTopicOrPartitionError, set(), {0, 1})
    assert [partitions_of(consumer, "t") for _ in range(3)] == [set(), set(), {0, 1}]
