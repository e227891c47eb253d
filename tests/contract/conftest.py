"""The same tests for the logs in memory and over Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Protocol

import pytest

from storage.log.interface import PrivilegedWriter, TopicLog
from tests.rigs.memory_log import MemoryPrivilegedWriter, MemoryTopic, MemoryTopicLog


class Logs(Protocol):
    """Creates logs and writers of one topic with one partition; the twins share what is written."""

    def log(self) -> TopicLog: ...
    def writer(self) -> PrivilegedWriter: ...


class MemoryLogs:
    def __init__(self, name: str) -> None:
        self.topic = MemoryTopic(name)
        self.made: list[Callable[[], None]] = []

    def log(self) -> TopicLog:
        log = MemoryTopicLog(self.topic)
        self.made.append(log.stop)
        return log

    def writer(self) -> PrivilegedWriter:
        return MemoryPrivilegedWriter(self.topic, "leader")


class KafkaLogs:
    def __init__(self, servers: str, name: str) -> None:
        from kafka.admin import KafkaAdminClient

        from spark_tasks.kafka.admin import KafkaAdmin
        from storage.log.topic_log import KafkaTopicLog

        self.kind = KafkaTopicLog
        self.name = name
        self.clients = {"bootstrap_servers": servers}
        self.admin = KafkaAdminClient(**self.clients)
        self.log_admin = KafkaAdmin(self.admin)
        self.made: list[Callable[[], None]] = []
        self.admin.create_topics({name: {"num_partitions": 1, "configs": {"cleanup.policy": "compact"}}})

    def log(self) -> TopicLog:
        log = self.kind(self.name, self.clients, nullcontext(self.log_admin), client_id="test", read_committed=True)
        self.made.append(log.stop)
        return log

    def writer(self) -> PrivilegedWriter:
        from storage.log.privileged_writer import KafkaPrivilegedWriter

        writer = KafkaPrivilegedWriter(
            self.name, self.clients, transactional_id=f"leader-{self.name}", client_id="test-leader"
        )
        self.made.append(writer.close)
        return writer


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.integration)])
def logs(request: pytest.FixtureRequest, topic_name: str) -> Iterator[Logs]:
    if request.param == "memory":
        made: MemoryLogs | KafkaLogs = MemoryLogs(topic_name)
    else:
        made = KafkaLogs(request.getfixturevalue("broker").bootstrap_servers, topic_name)
    yield made
    for stop in made.made:
        stop()
    if isinstance(made, KafkaLogs):
        made.admin.close()
