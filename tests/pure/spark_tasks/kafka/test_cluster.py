"""Leaders from metadata responses. No broker is used."""

from __future__ import annotations

import asyncio
from typing import Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

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


def test_leaders_of_several_topics_are_looked_up_with_one_request() -> None:
    """A topic that does not exist, and a partition without a leader, do not keep others from being known."""
    cluster = KafkaCluster({"bootstrap_servers": ["127.0.0.1:1"]})
    cluster.io.close()
    io = Io()
    cluster.io = io  # type: ignore[assignment]
    asyncio.run(cluster.look_up_leaders(["gone", "here", "there"], Deadline(1000)))
    found = [cluster.known_leader(*tp) for tp in (("gone", 0), ("here", 0), ("here", 1), ("there", 0))]
    assert found == [None, 1, None, 2]
    assert io.requests == 1
