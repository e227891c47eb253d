"""A Java worker and a heeler worker in one exactly-once group: each leads, each fences for the other, and a file source
moves between them. A read_committed reader sees each line once, in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from heeler.rest_client import RestClient, RestError
from heeler.worker_process import WorkerProcess
from tests.integration.workers import STRING, Kafka
from tests.interop.java_worker import JavaWorker
from tests.support import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.integration, pytest.mark.timeout(400)]

SOON_S = 90.0


class Mixed:
    """Both workers, a file, and the topic that it goes to."""

    def __init__(self, kafka: Kafka, folder: Path, group: str) -> None:
        self.kafka, self.folder = kafka, folder
        self.topic = kafka.create(f"{group}-lines")
        settings = {
            "bootstrap.servers": kafka.servers, "group.id": group, "key.converter": STRING, "value.converter": STRING,
            **{f"{kind}.storage.topic": f"{group}-{kind}s" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "offset.storage.partitions": "1", "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "1000",
        }  # fmt: skip
        self.java = JavaWorker(folder, settings)
        self.heeler = WorkerProcess(folder, {**settings, "scheduled.rebalance.max.delay.ms": "0",
                                             "session.timeout.ms": "6000", "heartbeat.interval.ms": "500"})
        self.offsets_topic = settings["offset.storage.topic"]
        self.config_topic = settings["config.storage.topic"]
        self.lines: list[str] = []
        self.file = folder / "in.txt"
        self.file.touch()

    def create(self, rest: RestClient, **more: str) -> None:
        config = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1",
                  "file": str(self.file), "topic": self.topic, "exactly.once.support": "required", **more}

        def put() -> bool:
            try:
                rest.put_config("lines", config)
            except (RestError, OSError) as error:
                raise AssertionError(str(error)) from error
            return True

        wait_until(put, SOON_S, "the connector to be taken")

    def append(self, count: int) -> None:
        more = [f"line {n}" for n in range(len(self.lines), len(self.lines) + count)]
        with self.file.open("a") as out:
            out.writelines(f"{line}\n" for line in more)
        self.lines += more

    def committed(self) -> list[str]:
        consumer = Consumer({"bootstrap.servers": self.kafka.servers, "group.id": "interop",
                             "enable.partition.eof": True, "enable.auto.commit": False,
                             "isolation.level": "read_committed"})
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        found: list[str] = []
        while True:
            message = consumer.poll(20)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                consumer.close()
                return found
            found.append(message.value().decode())

    def arrive(self) -> None:
        def all_there() -> bool:
            found = self.committed()
            assert found == self.lines[: len(found)], "lost, doubled or out of order"
            assert len(found) == len(self.lines), f"{len(found)} of {len(self.lines)} lines"
            return True

        wait_until(all_there, SOON_S, "all lines, each once and in order")

    def owner(self, rest: RestClient) -> str:
        """Who runs the task: "java" or "heeler"."""
        def running() -> Any:
            try:
                status = rest.call("GET", "/connectors/lines/status")
            except (RestError, OSError) as error:
                raise AssertionError(str(error)) from error
            states = [status["connector"]["state"], *(t["state"] for t in status["tasks"])]
            assert states == ["RUNNING", "RUNNING"], status
            return status["tasks"][0]["worker_id"]

        worker = wait_until(running, SOON_S, "the task to run")
        return "java" if worker.endswith(f":{self.java.port}") else "heeler"

    def offset_keys(self) -> set[bytes]:
        return {message.key() for message in self.kafka.messages(self.offsets_topic)}

    def counts(self) -> list[Any]:
        return [json.loads(m.value()) for m in self.kafka.messages(self.config_topic)
                if m.key() == b"tasks-fencing-lines"]


@pytest.fixture
def mixed(broker: Any, tmp_path: Path, topic_name: str) -> Iterator[Mixed]:
    made = Mixed(Kafka(broker.bootstrap_servers), tmp_path, topic_name)
    yield made
    made.java.stop(0)
    made.heeler.kill()


@pytest.mark.parametrize("first", ["java", "heeler"])
def test_a_source_moves_between_java_and_heeler(mixed: Mixed, first: str) -> None:
    """`first` leads and begins; the other one takes over when it is killed, and is killed in its turn."""
    rests = {"java": mixed.java.rest, "heeler": mixed.heeler.rest}
    second = "heeler" if first == "java" else "java"

    def start(name: str) -> None:
        if name == "java":
            mixed.java.start()
        else:
            mixed.heeler.start().wait_ready(90)

    def kill(name: str) -> None:
        if name == "java":
            mixed.java.stop(0)
        else:
            mixed.heeler.kill()

    start(first)
    mixed.create(rests[first])
    mixed.append(1000)
    mixed.arrive()
    assert mixed.owner(rests[first]) == first
    start(second)
    mixed.append(500)
    mixed.arrive()
    kill(first)
    mixed.append(1000)
    mixed.arrive()
    assert mixed.owner(rests[second]) == second
    start(first)
    mixed.create(rests[first], **{"batch.size": "5000"})  # whoever leads fences, whoever runs the task asks for it
    mixed.append(1000)
    mixed.arrive()
    kill(second)
    mixed.append(1000)
    mixed.arrive()
    assert mixed.owner(rests[first]) == first
    assert len(mixed.offset_keys()) == 1, "both use the same bytes as the key of an offset"
    assert mixed.counts()
