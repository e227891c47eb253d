"""Leaders from metadata responses. No broker is used."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError, KafkaConnectionError, NotCoordinatorError
from kafka.protocol.metadata import CoordinatorType, MetadataRequest, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse

from spark_tasks.kafka import cluster as module
from spark_tasks.kafka import connections
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.connections import Deadline, Send
from spark_tasks.kafka.errors import KafkaAuthorizationError, UnknownTopicError
from spark_tasks.kafka.identity import ProducerIdentity

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
    for one in (module, connections):  # deadlines too: with the real time, nothing but requests would pass it
        monkeypatch.setattr(one, "time", SimpleNamespace(monotonic=lambda: clock.now))
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


def test_partitions_without_a_leader_do_not_delay_the_offsets_of_others(cluster: KafkaCluster) -> None:
    asked = []

    async def list_offsets(
        node: int, items: list[Any], _which: str, _isolation: str, found: dict[Any, int], *, wait_ms: float
    ) -> Exception | None:
        asked.append((node, items))
        assert wait_ms <= 2000, "a broker that hangs must not delay the others for the timeout of a request"
        if node == 2:
            raise KafkaConnectionError("refused")
        found.update(dict.fromkeys(items, 7))
        return None

    cluster.list_offsets = list_offsets  # type: ignore[method-assign]
    wanted = [("here", 0), ("here", 1), ("there", 0), ("gone", 0)]
    found = asyncio.run(cluster.find_offsets_by_now(wanted, "latest", "read_uncommitted", Deadline(1000)))
    assert found == {("here", 0): 7}
    assert asked == [(1, [("here", 0)]), (2, [("there", 0)])]
    assert cluster.io.requests == 1  # type: ignore[attr-defined]
    assert cluster.known_leader("there", 0) is None, "it is looked up again the next time"


def test_a_partition_that_does_not_exist_is_not_looked_for_without_limit(
    cluster: KafkaCluster, clock: SimpleNamespace
) -> None:
    async def sleep(milliseconds: float) -> None:
        clock.now += milliseconds / 1000

    cluster.io.sleep = sleep  # type: ignore[method-assign]
    with pytest.raises(UnknownTopicError, match="topic 'here' has no partition 5"):
        asyncio.run(cluster.find_leader("here", 5, Deadline(math.inf)))


def test_leaders_of_topics_that_are_no_longer_used_are_dropped(cluster: KafkaCluster, clock: SimpleNamespace) -> None:
    leaders(cluster, "here")
    clock.now = 59.0
    leaders(cluster, "there")
    assert cluster.known_leader("here", 0) == 1
    clock.now = 119.0
    leaders(cluster, "there")
    assert cluster.known_leader("here", 0) is None


class MovedCoordinator:
    """The coordinator of a transactional id was at broker 1, and is at broker 2 now."""

    def __init__(self, *, runs: bool) -> None:
        self.known: int | None = 1
        self.runs = runs

    async def bootstrap(self, _timeout_ms: float) -> None:
        pass

    async def sleep(self, _milliseconds: float) -> None:
        await asyncio.sleep(0)

    def run(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        return asyncio.run(function(*arguments))

    async def coordinator(self, _transactional_id: str, _kind: CoordinatorType = CoordinatorType.TRANSACTION) -> int:
        if self.known is None:
            self.known = 2
        return self.known

    def forget_brokers(self) -> None:
        pass

    def forget_coordinator(self, _transactional_id: str, _kind: CoordinatorType) -> None:
        self.known = None

    async def send(self, _request: Any, node: int) -> InitProducerIdResponse:
        if node == 1 and not self.runs:
            raise KafkaConnectionError("refused")
        error = NotCoordinatorError.errno if node == 1 else 0
        return InitProducerIdResponse(throttle_time_ms=0, error_code=error, producer_id=7, producer_epoch=3)


@pytest.mark.parametrize("runs", [True, False], ids=["the former coordinator runs", "it has ended"])
def test_a_producer_is_initialized_at_a_coordinator_that_has_moved(cluster: KafkaCluster, runs: bool) -> None:
    """A task is restarted after the broker that had been the coordinator of its transactional id."""
    cluster.io = MovedCoordinator(runs=runs)  # type: ignore[assignment]
    found = asyncio.run(cluster.new_identity("id", 60_000, -1, -1, Deadline(5_000)))
    assert found == ProducerIdentity(7, 3, "id")


async def initialized(send: Send) -> int:
    response = await send(object())
    if response.error_code:
        raise NotCoordinatorError("moved")
    return int(response.producer_id)


@pytest.mark.parametrize("runs", [True, False], ids=["the former coordinator runs", "it has ended"])
def test_a_request_is_repeated_at_a_coordinator_that_has_moved(cluster: KafkaCluster, runs: bool) -> None:
    cluster.io = MovedCoordinator(runs=runs)  # type: ignore[assignment]
    assert cluster.at_coordinator("id", initialized, "initializing id", "WRITE permission") == 7


def test_the_error_of_a_coordinator_says_what_was_attempted_and_what_it_needs(cluster: KafkaCluster) -> None:
    async def denied(_send: Send) -> None:
        raise GroupAuthorizationFailedError

    cluster.io = MovedCoordinator(runs=True)  # type: ignore[assignment]
    with pytest.raises(KafkaAuthorizationError, match=r"^committing offsets of g: .* needs READ permission$"):
        cluster.at_coordinator("g", denied, "committing offsets of g", "READ permission", kind=CoordinatorType.GROUP)
