"""Members of sinks' consumer groups on one worker, with a real broker: what they share, and what they do not."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import kafka.errors as protocol
import psutil
import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from kafka.coordinator.base import BaseCoordinator
from kafka.protocol.consumer import HeartbeatRequest

from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.kafka import membership
from spark_tasks.kafka.connections import Manager
from spark_tasks.kafka.errors import MetadataTooLargeError
from spark_tasks.kafka.group_io import COMMIT_PAUSE_S, GroupIo
from spark_tasks.kafka.group_settings import ConsumerSettings, assignors
from spark_tasks.kafka.membership import GroupConsumer
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def test_a_worker_ends_although_tasks_are_still_members(broker, topic_name):
    """Two tasks did not stop in time: one does nothing, the other is closing while a third waits for the group."""
    Kafka(broker.bootstrap_servers).create(topic_name)
    io, client = GroupIo(), {"bootstrap_servers": broker.bootstrap_servers}
    members = [GroupConsumer(ConsumerSettings(f"{topic_name}-{n}", client, (topic_name,)), io, lambda: None)
               for n in range(3)]
    for member in members[:2]:
        wait_until(lambda member=member: member.poll(1000) and member.assignment(), 30, "the assignment")
    assert (len(io.members), io.commit_pause_s) == (3, COMMIT_PAUSE_S)
    before = {thread for thread in threading.enumerate() if "heeler-sinks" in thread.name}
    assert len(before) == 1
    ends = [threading.Thread(target=io.close), threading.Thread(target=members[0].close)]
    for end in ends:
        end.start()
    for end in ends:
        end.join(20)
        assert not end.is_alive()
    assert not any(thread.is_alive() for thread in before)
    for member in members:
        member.close()  # whenever its task gets that far
    assert not io.members
    with pytest.raises(ConnectError):
        GroupConsumer(ConsumerSettings(topic_name, client, (topic_name,)), io, lambda: None)


@pytest.fixture
def io() -> Iterator[GroupIo]:
    io = GroupIo()
    yield io
    io.close()


def member(io: GroupIo, broker, group: str, topic: str, client_id: str = "") -> GroupConsumer:
    client = {"bootstrap_servers": broker.bootstrap_servers}
    return GroupConsumer(ConsumerSettings(group, client, (topic,), client_id=client_id), io, lambda: None)


def join(consumer: GroupConsumer) -> None:
    wait_until(lambda: consumer.poll(1000) and consumer.assignment(), 30, "the assignment")


def connections(broker) -> set[int]:
    """The local ports of this process's connections to the broker."""
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    found = psutil.Process().net_connections("tcp")
    return {c.laddr.port for c in found if c.raddr and c.raddr.port == port and c.status == psutil.CONN_ESTABLISHED}


def test_a_join_that_waits_for_another_member_blocks_no_others(broker, topic_name, io):
    """A broker answers the requests of a connection one by one, and this JoinGroup takes as long as the test."""
    kafka = Kafka(broker.bootstrap_servers)
    kafka.create(topic_name)
    first, second, other = (member(io, broker, f"{topic_name}-{group}", topic_name) for group in "aab")
    join(first)
    join(other)
    assert not second.poll(1000)  # the first member is asked to join again, and does not
    assert not second.poll(1000)
    other.commit({(topic_name, 0): 1})
    assert other.committed([(topic_name, 0)]) == {(topic_name, 0): 1}
    second.close()
    join(first)
    first.close()
    other.close()


def test_idle_members_share_their_connections_and_keep_their_own_client_ids(broker, topic_name, io, monkeypatch):
    monkeypatch.setattr(membership, "SETTLED_S", 0.0)
    Kafka(broker.bootstrap_servers).create(topic_name)
    before = connections(broker)
    members = [member(io, broker, f"{topic_name}-{n}", topic_name, f"connector-consumer-c-{n}") for n in range(5)]
    for consumer in members:
        join(consumer)
    assert all(c.generation()[1].startswith(f"connector-consumer-c-{n}-") for n, c in enumerate(members))
    assert len(connections(broker) - before) > 2, "each had one for its join"
    # One to the broker for metadata, and one to it as coordinator.
    wait_until(lambda: all(consumer.poll(1000) for consumer in members) and len(connections(broker) - before) == 2, 30,
               "the members' own connections to be closed")
    for consumer in members:
        consumer.close()
    wait_until(lambda: not connections(broker) - before, 30, "the shared connections to be closed")


def test_a_topic_that_a_sink_may_not_read_fails_that_sink_alone(broker, topic_name, io):
    kafka = Kafka(broker.bootstrap_servers)
    kafka.create(topic_name)
    kafka.create(f"{topic_name}-secret")
    with kafka.denied(AclOperation.DESCRIBE, ResourceType.TOPIC, f"{topic_name}-secret"):
        allowed = member(io, broker, f"{topic_name}-a", topic_name)
        refused = member(io, broker, f"{topic_name}-b", f"{topic_name}-secret")
        with pytest.raises(ConnectError, match=f"{topic_name}-secret"):
            wait_until(lambda: refused.poll(1000) and False, 30, "the refusal")
        join(allowed)
        allowed.close()
        refused.close()


def test_offsets_of_a_deleted_topic_do_not_keep_the_others_from_being_committed(broker, topic_name, io):
    kafka, gone = Kafka(broker.bootstrap_servers), f"{topic_name}-gone"
    for topic in (topic_name, gone):
        kafka.create(topic)
    settings = ConsumerSettings(topic_name, {"bootstrap_servers": broker.bootstrap_servers}, (topic_name, gone))
    one = GroupConsumer(settings, io, lambda: None)
    wait_until(lambda: one.poll(1000) and len(one.assignment()) == 2, 30, "the assignment")
    one.commit({(topic_name, 0): 1, (gone, 0): 1})
    kafka.admin.delete_topics([gone])[gone].result(20)

    def committed() -> bool:
        one.commit({(topic_name, 0): 2, (gone, 0): 2}, timeout_ms=20_000)
        return True

    wait_until(committed, 30, "the commit")
    assert one.committed([(topic_name, 0)]) == {(topic_name, 0): 2}
    one.close()


def test_metadata_larger_than_the_broker_allows_is_refused_and_the_member_stays(broker, topic_name, io):
    Kafka(broker.bootstrap_servers).create(topic_name)
    one = member(io, broker, topic_name, topic_name)
    join(one)
    with pytest.raises(MetadataTooLargeError, match=r"offset\.metadata\.max\.bytes"):
        one.commit({(topic_name, 0): 1}, metadata="x" * 5000)
    one.commit({(topic_name, 0): 2})
    assert one.committed([(topic_name, 0)]) == {(topic_name, 0): 2}
    one.close()


@pytest.mark.parametrize("strategy", [
    "RangeAssignor,CooperativeStickyAssignor", "CooperativeStickyAssignor", "CooperativeStickyAssignor,RangeAssignor"])
def test_members_with_the_cooperative_assignor_and_another_one_share_a_group(broker, topic_name, io, strategy):
    """Java's default, and both ends of a rolling change (KIP-429)."""
    Kafka(broker.bootstrap_servers).create(topic_name, partitions=4)
    client = {"bootstrap_servers": broker.bootstrap_servers}
    members = [GroupConsumer(
        ConsumerSettings(topic_name, client, (topic_name,), assignors=assignors(names.split(","))), io, lambda: None)
        for names in (strategy, "RangeAssignor,CooperativeStickyAssignor")]

    def shared() -> bool:
        joined = [member.poll(200) for member in members]
        return all(joined) and sorted(len(member.assignment()) for member in members) == [2, 2]

    wait_until(shared, 40, "two partitions for each")
    for member in members:
        member.close()


def test_settings_that_do_not_fit_together_leave_no_member_behind(broker, topic_name, io):
    client = {"bootstrap_servers": broker.bootstrap_servers}
    wrong = ConsumerSettings(
        topic_name, client, (topic_name,), session_timeout_ms=6000, heartbeat_interval_ms=6000)
    for _ in range(3):
        with pytest.raises(ConfigError, match=r"consumer\.override"):
            GroupConsumer(wrong, io, lambda: None)
    assert not io.members
    shared, topics = io.client(client, every_topic=False, create_topics=True)
    assert shared.metadata.release(topics), "the last one"


def test_a_topic_that_is_created_later_is_found(broker, topic_name, io):
    other = f"{topic_name}-other"
    Kafka(broker.bootstrap_servers).create(other)
    client = {"bootstrap_servers": broker.bootstrap_servers}
    early = GroupConsumer(
        ConsumerSettings(topic_name, client, (topic_name,), allow_auto_create_topics=False), io, lambda: None)
    late = GroupConsumer(
        ConsumerSettings(other, client, (other,), allow_auto_create_topics=False), io, lambda: None)
    join(late)
    wait_until(lambda: early.poll(1000), 30, "it to join without partitions")
    assert not early.assignment()
    Kafka(broker.bootstrap_servers).create(topic_name)
    join(early)
    early.close()
    late.close()


def test_the_response_to_an_old_heartbeat_does_not_end_a_membership(broker, topic_name, io, monkeypatch):
    """Heartbeats and joins have a connection each: a heartbeat may reach the broker when its generation is over."""
    Kafka(broker.bootstrap_servers).create(topic_name)
    answered: list[int] = []
    send, loop = Manager.send, io.net()

    def slowly(manager, request, *where, **how):
        async def late():
            await loop.sleep(0.5)
            response = await send(manager, request, *where, **how)
            answered.append(response.error_code)
            return response

        if isinstance(request, HeartbeatRequest):
            return manager.call_soon(late)
        return send(manager, request, *where, **how)

    monkeypatch.setattr(Manager, "send", slowly)
    client = {"bootstrap_servers": broker.bootstrap_servers}
    members = [GroupConsumer(ConsumerSettings(topic_name, client, (topic_name,), heartbeat_interval_ms=1), io,
                             lambda: None) for _ in range(4)]
    join(members[0])  # there is metadata of the topic from now on
    wait_until(lambda: sum(one.poll(100) for one in members) == 4, 30, "all to be members")
    answered.clear()
    while protocol.IllegalGenerationError.errno not in answered:
        before = members[0].generation()
        members.pop().close()
        wait_until(lambda before=before: sum(one.poll(100) for one in members) == len(members)
                   and members[0].generation() != before, 30, "the others to be members again")
        generations, count = [one.generation() for one in members], len(answered)
        wait_until(lambda count=count: len(answered) > count + 2 * len(members), 30, "answers to all heartbeats")
        assert [one.generation() for one in members] == generations
    for one in members:
        one.close()


def test_a_member_whose_heartbeats_have_ended_joins_again(broker, topic_name, io, monkeypatch):
    """Otherwise the group would remove it when its session times out."""
    Kafka(broker.bootstrap_servers).create(topic_name)
    consumer, (failures, poll) = member(io, broker, topic_name, topic_name), ([], BaseCoordinator.poll_heartbeat)
    join(consumer)
    assert consumer.stays()
    before = consumer.generation()

    def poll_heartbeat(coordinator):
        if not failures:
            failures.append(protocol.KafkaConnectionError("the heartbeats have failed"))
            raise failures[0]
        return poll(coordinator)

    monkeypatch.setattr(BaseCoordinator, "poll_heartbeat", poll_heartbeat)
    assert not consumer.stays()
    join(consumer)
    assert consumer.generation() != before
    assert consumer.stays()
    consumer.close()
