"""MirrorMaker from Maven Central on a real worker, between two brokers. `make connectors`."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from heeler.embedded_kafka.broker import EmbeddedBroker
from heeler.embedded_kafka.jars import KAFKA_VERSION
from heeler.java_host.install import Coordinates, install
from tests.rigs.support import wait_until
from tests.rigs.workers import PATIENT, Kafka, processes_of, running_worker

pytestmark = [pytest.mark.connectors, pytest.mark.timeout(900)]

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
SOON_S = 120.0
PARTITIONS = 3
READ = 100  # offsets that a group has read of each partition; before the last one that is told none is translated


@pytest.fixture
def west():
    with EmbeddedBroker() as broker:
        yield Kafka(broker.bootstrap_servers)


@pytest.fixture
def rig(broker, tmp_path):
    jars = tmp_path / "jars"
    jars.mkdir()
    install(Coordinates.parse(f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}"), jars, print)
    more = {"plugin_path": str(jars), "exactly_once_source_support": "enabled", "offset_flush_interval_ms": "500"}
    with running_worker(Kafka(broker.bootstrap_servers), tmp_path / "worker", "mirror", **more, **PATIENT) as rig:
        yield rig


def fill(kafka, first, count):
    for partition in range(PARTITIONS):
        numbers = range(first, first + count)
        kafka.send("orders", [f"order {n}" for n in numbers], [f"k{n}" for n in numbers],
                   headers=[("of", b"west")], partition=partition)


def records(kafka, topic):
    return [(m.partition(), m.key(), m.value(), m.headers(), m.timestamp()) for m in kafka.messages(topic)]


def read_by(group, kafka, topic):
    """The broker may still be making the topic of groups."""
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": group})
    places = [TopicPartition(topic, p, READ) for p in range(PARTITIONS)]

    def done():
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR}:
                raise
            return False
        return True

    try:
        wait_until(done, SOON_S, "the group's commit")
    finally:
        consumer.close()


def committed(kafka, group, topic):
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, p) for p in range(PARTITIONS)])
    found = kafka.admin.list_consumer_group_offsets([asked])[group].result(10)
    return [p.offset for p in found.topic_partitions]


def mirror(rig, west, name, **more):
    return rig.create(name, {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{name.capitalize()}Connector",
        "source.cluster.alias": "west", "target.cluster.alias": "east",
        "source.cluster.bootstrap.servers": west.servers, "target.cluster.bootstrap.servers": rig.kafka.servers,
        "key.converter": BYTES, "value.converter": BYTES, "header.converter": BYTES, **more},
        ["RUNNING"] * (1 + int(more.get("tasks.max", "1"))))


def test_mirror_maker_copies_every_record_once_though_its_host_is_killed(rig, west):
    """Records with keys, headers and times in their partitions; a group's offsets are translated, which takes the
    offsets that `commitRecord` is told; the host is killed, and nothing is missing or doubled.
    """
    west.create("orders", PARTITIONS)
    fill(west, 0, 100)
    read_by("readers", west, "orders")
    mirror(rig, west, "source", **{
        "topics": "orders", "replication.factor": "1", "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false", "offset.lag.max": "0", "tasks.max": "2"})
    rig.wait_records("west.orders", 100 * PARTITIONS, SOON_S)
    mirror(rig, west, "heartbeat", **{
        "heartbeats.topic.replication.factor": "1", "emit.heartbeats.interval.seconds": "1"})
    rig.wait_records("heartbeats", 2, SOON_S)
    mirror(rig, west, "checkpoint", **{
        "groups": "readers", "checkpoints.topic.replication.factor": "1", "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1", "offset-syncs.topic.replication.factor": "1"})
    wait_until(lambda: committed(rig.kafka, "readers", "west.orders") == [READ] * PARTITIONS, SOON_S,
               "the group's offsets")
    (host,) = [p for p in processes_of(rig.process) if p.name() == "java" and "heeler.host.Host" in p.cmdline()]
    host.kill()
    fill(west, 100, 100)
    rig.wait_records("west.orders", 200 * PARTITIONS, SOON_S)
    assert records(rig.kafka, "west.orders") == records(west, "orders")
    offsets = rig.call("GET", "/connectors/source/offsets")["offsets"]
    assert {json.dumps(o["partition"], sort_keys=True): o["offset"] for o in offsets} == {
        f'{{"cluster": "west", "partition": {p}, "topic": "orders"}}': {"offset": 199} for p in range(PARTITIONS)}
    for name in ("checkpoint", "heartbeat", "source"):
        rig.delete(name)
