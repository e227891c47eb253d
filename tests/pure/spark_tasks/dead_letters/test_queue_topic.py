"""When the topic of a dead letter queue is created, and what is said if it cannot be used."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spark_tasks.dead_letters import queue_topic
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.queue_topic import QueueTopic
from spark_tasks.errors import ConfigError, ConnectError, PermanentError
from spark_tasks.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError, UnknownTopicError


@pytest.fixture
def kafka(monkeypatch):
    """`topics`: those that exist; `calls`: what was asked; `denied`: an error of every lookup."""
    there = SimpleNamespace(topics=set(), calls=[], denied=None)

    def partitions(topic):
        there.calls.append(("look", topic))
        if there.denied is not None:
            raise there.denied
        if topic not in there.topics:
            raise UnknownTopicError(f"no {topic}")

    def create(_admin, topic, settings):
        there.calls.append(("create", topic, settings.partitions, settings.replication_factor))
        there.topics.add(topic)

    cluster = SimpleNamespace(partitions=partitions, forget_leaders=lambda topic: there.calls.append(("forget", topic)))
    monkeypatch.setattr(queue_topic, "shared_cluster", lambda _client: cluster)
    monkeypatch.setattr(queue_topic, "create_topic", create)
    return there


def test_a_queue_is_created_once_and_again_after_it_was_deleted(kafka):
    """A batch whose letters could not be written was repeated without end, where brokers create no topics."""
    queue = QueueTopic(ErrorHandling(queue="dead", replication_factor=2))
    queue.prepare()
    queue.prepare()
    created = [("look", "dead"), ("create", "dead", 1, 2)]
    assert kafka.calls == created
    queue.batch_failed(KafkaUnavailableError("away"))
    queue.prepare()
    assert kafka.calls == created
    kafka.topics.clear()
    queue.batch_failed(UnknownTopicError("no dead"))
    queue.prepare()
    assert kafka.calls == [*created, ("forget", "dead"), *created]


def test_without_a_queue_nothing_is_asked(kafka):
    queue = QueueTopic(ErrorHandling())
    queue.prepare()
    queue.batch_failed(UnknownTopicError("no t"))
    queue.prepare()
    assert kafka.calls == []


@pytest.mark.parametrize(("error", "kind"), [
    (KafkaAuthorizationError("may not see it"), PermanentError), (ConnectError("no"), ConnectError)])
def test_the_error_says_what_the_topic_is_for(kafka, error, kind):
    kafka.denied = error
    with pytest.raises(ConnectError, match=f"^Could not initialize dead letter queue with topic=dead: {error}$") as why:
        QueueTopic(ErrorHandling(queue="dead")).prepare()
    assert type(why.value) is kind


def test_an_outage_is_tried_again(kafka):
    queue = QueueTopic(ErrorHandling(queue="dead"))
    kafka.denied = KafkaUnavailableError("away")
    with pytest.raises(KafkaUnavailableError):
        queue.prepare()
    kafka.denied = None
    queue.prepare()
    assert kafka.topics == {"dead"}


def test_an_impossible_name_is_said(kafka):
    with pytest.raises(ConfigError, match=r"errors\.deadletterqueue\.topic\.name: 'bad topic!' is not a valid name"):
        QueueTopic(ErrorHandling(queue="bad topic!")).prepare()
    assert kafka.calls == []
