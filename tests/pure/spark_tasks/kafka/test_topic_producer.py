"""What the producers of internal topics raise, with kafka-python's producer in memory."""

from __future__ import annotations

from typing import Any

import kafka.errors as protocol
import pytest
from kafka.future import Future

from spark_tasks.errors import ConnectError
from spark_tasks.kafka import topic_producer
from spark_tasks.kafka.errors import KafkaAuthorizationError, KafkaTimedOutError, KafkaUnavailableError
from spark_tasks.kafka.topic_producer import TopicProducer, TransactionalTopicProducer


class Producer:
    """Acknowledges when a test does."""

    made: list[Producer]
    refuse: Exception | None = None

    def __init__(self, **_: Any) -> None:
        self.sent: list[Future] = []
        self.closed = False
        self.made.append(self)

    def init_transactions(self) -> None:
        if self.refuse is not None:
            raise self.refuse

    def send(self, _topic: str, **_: Any) -> Future:
        self.init_transactions()
        self.sent.append(Future())
        return self.sent[-1]

    def close(self, timeout: float) -> None:  # noqa: ARG002
        self.closed = True


@pytest.fixture(autouse=True)
def _producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_producer, "KafkaProducer", Producer)
    monkeypatch.setattr(Producer, "made", [], raising=False)


@pytest.mark.parametrize(("error", "ours"), [
    (protocol.NotLeaderForPartitionError("t"), KafkaUnavailableError),
    (protocol.CorruptRecordError("t"), KafkaUnavailableError),
    (ConnectionResetError("t"), KafkaUnavailableError),
    (protocol.TopicAuthorizationFailedError("t"), KafkaAuthorizationError),
    (ConnectError("not sent"), ConnectError),
    (RuntimeError("the loop has ended"), RuntimeError),
])
def test_a_record_that_is_not_appended_fails_with_our_error(error: Exception, ours: type[Exception]) -> None:
    failures: list[Exception] = []
    TopicProducer("t", {}).send(b"k", b"v", pytest.fail, failures.append)
    Producer.made[0].sent[0].failure(error)
    assert [(type(failure), str(failure)) for failure in failures] == [(ours, str(error))]


def test_a_producer_without_metadata_raises_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = TopicProducer("t", {})
    monkeypatch.setattr(Producer, "refuse", protocol.KafkaTimeoutError("no metadata"))
    with pytest.raises(KafkaTimedOutError, match="no metadata"):
        producer.send(b"k", None, pytest.fail, pytest.fail)


def test_a_transactional_producer_that_cannot_fence_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producer, "refuse", protocol.TransactionalIdAuthorizationFailedError())
    with pytest.raises(KafkaAuthorizationError, match=r"topic t \(transactional.id i\): .* WRITE permission"):
        TransactionalTopicProducer("t", {"transactional_id": "i"}, 1)
    assert [producer.closed for producer in Producer.made] == [True]
