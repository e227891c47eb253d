"""All brokers get other addresses while a worker runs, as when a cluster is moved: its clients find them again by the
bootstrap servers (KIP-899).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from actors.assignment.protocol import Allocation
from actors.group.coordinator import GroupSettings
from actors.group.driver import GroupDriver
from actors.messages.events import Joined, JoinPreparing
from heeler.embedded_kafka.broker import EmbeddedBroker
from heeler.embedded_kafka.ports import free_port
from spark_tasks.kafka.admin import KafkaAdmin
from spark_tasks.kafka.connections import net_client
from storage.config.state import ClusterConfigState
from storage.log.record import LogRecord
from storage.log.topic_log import KafkaTopicLog
from tests.rigs.support import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
WAIT = 60


class Moving:
    """A cluster with one broker, and the addresses that it has in turn."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = [free_port(), free_port()]
        self.clients = {"bootstrap_servers": [f"127.0.0.1:{port}" for port in self._ports],
                        "reconnect_backoff_max_ms": 1000}
        self._broker = self._started(self._ports[0])

    def _started(self, port: int) -> EmbeddedBroker:
        broker = EmbeddedBroker(port, self._folder, quick=True)
        broker.start()
        return broker

    def move(self) -> None:
        self._broker.close()
        self._ports.reverse()
        self._broker = self._started(self._ports[0])

    def close(self) -> None:
        self._broker.close()


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moving]:
    cluster = Moving(tmp_path_factory.mktemp("moving") / "broker")
    yield cluster
    cluster.close()


def test_internal_topics_are_read_and_written_at_the_new_address(moving: Moving, topic_name: str) -> None:
    admin = KafkaAdminClient(**moving.clients, kafka_client=net_client)
    admin.create_topics({topic_name: {"num_partitions": 1}}, wait_for_metadata=True)
    log = KafkaTopicLog(topic_name, moving.clients, closing(KafkaAdmin(admin)), client_id="test")
    seen: list[LogRecord] = []
    log.start(seen.extend, lambda _: None).result(WAIT)
    try:
        log.read_past([log.send(b"a", b"1").result(WAIT)]).result(WAIT)
        moving.move()
        log.read_past([log.send(b"b", b"2").result(WAIT)]).result(WAIT)
        log.read_to_end(timeout=WAIT).result(WAIT)
        assert [record.key for record in seen] == [b"a", b"b"]
    finally:
        log.stop()


def test_a_worker_joins_its_group_at_the_new_address(moving: Moving) -> None:
    events: list[Any] = []

    def tell(event: Any) -> None:
        events.append(event)
        if isinstance(event, JoinPreparing):
            member.allow(Allocation())

    def has(kind: type[Any]) -> Callable[[], bool]:
        return lambda: any(isinstance(event, kind) for event in events)

    settings = GroupSettings(group_id="g", client=moving.clients, url="http://here:1")
    member = GroupDriver(settings, ClusterConfigState, tell)
    member.start()
    try:
        member.join()
        wait_until(has(Joined), WAIT)
        moving.move()
        events.clear()
        member.rejoin()  # it may have found them before its session ended
        wait_until(has(Joined), WAIT)
    finally:
        member.close()
