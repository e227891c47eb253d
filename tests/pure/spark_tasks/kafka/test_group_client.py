"""Metadata shared by the members of a worker: which topics are requested, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.consumer.subscription_state import SubscriptionState
from kafka.errors import InvalidTopicError
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorResponse

from spark_tasks.errors import ConfigError
from spark_tasks.java.regex import compile_java
from spark_tasks.kafka.connections import Loop
from spark_tasks.kafka.group_client import GroupClient, TopicPattern, Topics, subscribe_to_pattern

SERVERS = {"bootstrap_servers": "127.0.0.1:1"}


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def client(loop: Loop) -> GroupClient:
    client = GroupClient(loop, SERVERS, every_topic=False, create_topics=False)
    assert client.manager.cluster is client.metadata
    return client


def asked(client: GroupClient) -> set[str]:
    return {topic.name for topic in client.metadata.metadata_request().topics}


def answer(client: GroupClient, *refused: str) -> None:
    """A response that knows no topic, or refuses some."""
    topics: list[Any] = [
        SimpleNamespace(name=name, error_code=29, is_internal=False, topic_id=None, partitions=[]) for name in refused
    ]
    broker = (1, "127.0.0.1", 1, None)
    client.metadata.update_metadata(SimpleNamespace(
        brokers=[broker], topics=topics, controller_id=1, cluster_id="c", API_VERSION=7))


def test_a_topic_added_while_a_request_is_in_flight_is_requested_at_once(client: GroupClient) -> None:
    one, two = Topics(client.metadata), Topics(client.metadata)
    one.set_topics(["a"])
    assert asked(client) == {"a"}
    two.set_topics(["b"])
    answer(client)
    assert (one.is_covered, two.is_covered, client.metadata.ttl()) == (True, False, 0)
    assert asked(client) == {"a", "b"}
    answer(client)
    assert two.is_covered
    assert client.metadata.ttl() > 1_000
    assert one.set_topics(["b"]).succeeded()


def test_requests_to_a_broker_that_does_not_respond_have_pauses(client: GroupClient) -> None:
    Topics(client.metadata).set_topics(["a"])
    assert client.metadata.ttl() == 0
    asked(client)
    client.metadata.failed_update(ConnectionError("gone"))
    assert client.metadata.ttl() > 0


def test_the_topics_of_a_member_that_has_left_are_not_requested(client: GroupClient) -> None:
    one, two = Topics(client.metadata), Topics(client.metadata)
    one.set_topics(["a", "both"])
    two.set_topics(["both"])
    assert not client.metadata.release(one)
    assert asked(client) == {"both"}
    assert client.metadata.release(two)


def test_a_topic_that_one_member_may_not_read_does_not_affect_others(client: GroupClient) -> None:
    one, two = Topics(client.metadata), Topics(client.metadata)
    one.set_topics(["secret"])
    two.set_topics(["a"])
    asked(client)
    answer(client, "secret", "and another one")
    assert (one.unauthorized_topics, two.unauthorized_topics) == ({"secret"}, set())


def test_an_invalid_topic_name_does_not_affect_other_members(client: GroupClient) -> None:
    one, two = Topics(client.metadata), Topics(client.metadata)
    with pytest.raises((ValueError, InvalidTopicError)):
        one.set_topics(["a topic"])
    two.set_topics(["a"])
    assert asked(client) == {"a"}


def test_the_groups_of_members_that_have_left_do_not_pile_up(client: GroupClient) -> None:
    """The client lives as long as any of the worker's members."""
    found = FindCoordinatorResponse(error_code=0, node_id=1, host="here", port=1, version=3)
    assert Topics(client.metadata).add_coordinator(found, CoordinatorType.GROUP, "g") == "coordinator-1"
    assert client.metadata.get_coordinator("g") is None
    assert client.metadata.broker_metadata("coordinator-1").host == "here"


def test_the_whole_names_of_topics_match_a_pattern_as_in_java() -> None:
    subscription = SubscriptionState()
    subscribe_to_pattern(subscription, TopicPattern(compile_java("in[0-9&&[^6]]")), None)
    matches = subscription.subscribed_pattern.match
    assert [topic for topic in ("in5", "in6", "in55", "a.in5") if matches(topic)] == ["in5"]


@pytest.mark.parametrize(("regex", "name"), [("(.|.|.|.|.)*[!?]", "orders-of-the-year"), ("(a|aa)+$", "a" * 40 + "b")])
def test_a_pattern_that_takes_long_is_given_up(regex: str, name: str) -> None:
    """All members of the worker wait meanwhile."""
    pattern = TopicPattern(compile_java(regex))
    assert not pattern.match("b")
    assert pattern.too_slow is None
    pattern.check()
    assert not pattern.match(name)
    assert pattern.too_slow == name
    assert not pattern.match("b")
    with pytest.raises(ConfigError, match=f"with the topic {name}, topics.regex takes too long to match"):
        pattern.check()


def test_a_pattern_that_takes_long_for_all_topics_together_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def fullmatch(_topic: str, timeout: float) -> None:
        now[0] += timeout / 2

    monkeypatch.setattr("spark_tasks.kafka.group_client.time", SimpleNamespace(monotonic=lambda: now[0]))
    pattern = TopicPattern(SimpleNamespace(fullmatch=fullmatch))  # type: ignore[arg-type]
    for number in range(100):
        pattern.match(f"t{number}")
        pattern.match(f"t{number}")
    assert pattern.too_slow == "t40", "what is known is not matched again"
