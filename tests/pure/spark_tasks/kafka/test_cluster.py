"""Leaders from metadata responses. No broker is used."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from spark_tasks.kafka import cluster as module
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.connections import Deadline

TOPIC = MetadataResponse.MetadataResponseTopic
LEADERS = {"here": {0: 1, 1: -1}, "there": {0: 2}}
UNKNOWN_TOPIC = 3


class Io:
    """Knows LEADERS."""

    def __init__(self) -> None:
        self.requests = 0

    async def bootstrap(self, _timeout_ms: float) -> None:
        pass

    async def send(self, request: MetadataRequest, _node: int | None) -> MetadataResponse:
        self.requests += 1
        partition = TOPIC.MetadataResponsePartition
        return MetadataResponse(topics=[
            TOPIC(name=topic.name, error_code=0 if topic.name in LEADERS else UNKNOWN_TOPIC, partitions=[
                partition(partition_index=number, leader_id=leader)
                for number, leader in LEADERS.get(topic.name, {}).items()])
            for topic in request.topics])

    def update_metadata(self, _response: Any) -> None:
        pass


@pytest.fixture
def cluster() -> KafkaCluster:
    found = KafkaCluster({"bootstrap_servers": ["127.0.0.1:1"], "metadata_max_age_ms": 60_000})
    found.io.close()
    found.io = Io()  # type: ignore[assignment]
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def leaders(cluster: KafkaCluster, topic: str, expected: int = -1) -> dict[int, int]:
    return asyncio.run(cluster.leaders(topic, Deadline(1000), expected=expected))


def test_leaders_of_several_topics_are_looked_up_with_one_request(cluster: KafkaCluster) -> None:
    """A topic that does not exist, and a partition without a leader, do not keep others from being known."""
    asyncio.run(cluster.look_up_leaders(["gone", "here", "there"], Deadline(1000)))
    found = [cluster.known_leader(*tp) for tp in (("gone", 0), ("here", 0), ("here", 1), ("there", 0))]
    assert found == [None, 1, None, 2]
    assert cluster.io.requests == 1  # type: ignore[attr-defined]


def test_a_partition_that_was_added_is_found(
    cluster: KafkaCluster, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once if a record has it, otherwise after metadata.max.age.ms, as by Kafka's clients."""
    assert leaders(cluster, "there") == {0: 2}
    monkeypatch.setitem(LEADERS, "there", {0: 2, 1: 1})
    assert leaders(cluster, "there", expected=0) == {0: 2}
    assert leaders(cluster, "there", expected=1) == {0: 2, 1: 1}
    monkeypatch.setitem(LEADERS, "there", {0: 2, 1: 1, 2: 1})
    clock.now = 59.0
    assert leaders(cluster, "there", expected=1) == {0: 2, 1: 1}
    clock.now = 60.0
    assert leaders(cluster, "there") == {0: 2, 1: 1, 2: 1}


def test_leaders_of_topics_that_are_no_longer_used_are_dropped(cluster: KafkaCluster, clock: SimpleNamespace) -> None:
    leaders(cluster, "here")
    clock.now = 59.0
    leaders(cluster, "there")
    assert cluster.known_leader("here", 0) == 1
    clock.now = 119.0
    leaders(cluster, "there")
    assert cluster.known_leader("here", 0) is None
