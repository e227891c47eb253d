"""heeler's groups as Kafka's own tools and Java client show them to an operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_tasks.kafka.group_io import GroupIo
from spark_tasks.kafka.group_settings import ConsumerSettings
from spark_tasks.kafka.membership import GroupConsumer
from tests.rigs.group_herder import FakeHerder, settled
from tests.rigs.kafka_tools import java
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka

pytestmark = pytest.mark.interop

def test_kafkas_tools_list_and_describe_the_group_of_workers(broker, topic_name):
    herders = [FakeHerder(broker.bootstrap_servers, topic_name, f"worker-{n}").join() for n in range(3)]
    try:
        wait_until(lambda: settled(*herders), 30, "the group to settle")
        listed = java("org.apache.kafka.tools.GroupsCommand", "--bootstrap-server", broker.bootstrap_servers,
                      "--list", "--protocol", "connect")
        assert [topic_name, "Classic", "connect"] in listed
        source = str(Path(__file__).parents[1] / "rigs" / "interop" / "DescribeGroup.java")
        assert java(source, broker.bootstrap_servers, topic_name) == [
            ["connect", "sessioned", "Stable"], ["worker-0"], ["worker-1"], ["worker-2"]]
    finally:
        for herder in herders:
            herder.member.stop()


def test_the_consumer_group_of_a_sink_with_its_lag(broker, topic_name):
    kafka = Kafka(broker.bootstrap_servers)
    kafka.send(kafka.create(topic_name), ["a", "b", "c"])
    group, io = f"connect-{topic_name}", GroupIo()
    client = {"bootstrap_servers": broker.bootstrap_servers, "client_id": "connector-consumer-sink-0"}
    consumer = GroupConsumer(ConsumerSettings(group, client, (topic_name,), expects_others=False), io, lambda: None)
    try:
        wait_until(lambda: consumer.poll(1000) and consumer.assignment(), 30, "the assignment")
        consumer.commit({(topic_name, 0): 1})
        reported = java("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server",
                    broker.bootstrap_servers, "--describe", "--group", group)
        heading, row = (dict(enumerate(line)) for line in reported)
        assert [heading[n] for n in range(2, 6)] == ["PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
        assert [row[n] for n in range(6)] == [group, topic_name, "0", "1", "3", "2"]
        assert row[8] == "connector-consumer-sink-0"
    finally:
        consumer.close()
        io.close()
