"""A Java worker and a heeler worker in one exactly-once group: each leads, each fences for the other, and a file source
moves between them, also one that writes to another Kafka. A read_committed reader sees each line once, in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from heeler.broker import EmbeddedBroker
from heeler.rest_client import RestClient, RestError
from heeler.worker_process import WorkerProcess
from tests.exactly_once_rig import visible
from tests.integration.workers import STRING, Kafka
from tests.interop.java_worker import TIMES, JavaWorker
from tests.support import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.integration, pytest.mark.timeout(400)]

SOON_S = 90.0


class Mixed:
    """Both workers, their Kafka, a file, the topic that it goes to, and the Kafka that has this topic."""

    def __init__(self, kafka: Kafka, there: Kafka, folder: Path, group: str) -> None:
        self.kafka, self.there, self.folder, self.group = kafka, there, folder, group
        self.topic = there.create(f"{group}-lines")
        clients = ("producer", "consumer", "admin") if there is not kafka else ()
        self.overrides = {f"{kind}.override.bootstrap.servers": there.servers for kind in clients}
        settings = {
            "bootstrap.servers": kafka.servers, "group.id": group, "key.converter": STRING, "value.converter": STRING,
            **{f"{kind}.storage.topic": f"{group}-{kind}s" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "offset.storage.partitions": "1", "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "1000",
        }  # fmt: skip
        self.java = JavaWorker(folder, settings)
        self.heeler = WorkerProcess(folder, {**settings, **TIMES})
        self.offsets_topic = settings["offset.storage.topic"]
        self.config_topic = settings["config.storage.topic"]
        self.lines: list[str] = []
        self.file = folder / "in.txt"
        self.file.touch()

    def create(self, rest: RestClient, **more: str) -> None:
        self.call(rest, "PUT", "/connectors/lines/config", {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1",
            "file": str(self.file), "topic": self.topic, "exactly.once.support": "required",
            **self.overrides, **more})

    def call(self, rest: RestClient, method: str, path: str, body: Any = None) -> Any:
        """Once the worker can do it: it may not know yet who leads."""
        def answered() -> list[Any]:
            try:
                return [rest.call(method, path, body)]
            except (RestError, OSError) as error:
                raise AssertionError(str(error)) from error

        return wait_until(answered, SOON_S, f"{method} {path} to be answered")[0]

    def append(self, count: int) -> None:
        more = [f"line {n}" for n in range(len(self.lines), len(self.lines) + count)]
        with self.file.open("a") as out:
            out.writelines(f"{line}\n" for line in more)
        self.lines += more

    def arrive(self) -> None:
        def all_there() -> bool:
            found = visible(self.there.servers, self.topic)
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

    def stop(self, rest: RestClient) -> Producer:
        """Stop the connector. As if it had had a second task (a file source never has), which does not know of that:
        the task count record says so, and its producer is what this returns. Only a round of fencing can reach it.
        """
        self.call(rest, "PUT", "/connectors/lines/stop")
        wait_until(lambda: rest.states("lines") == ["STOPPED"], SOON_S, "the connector to stop")
        zombie = Producer({"bootstrap.servers": self.there.servers, "transactional.id": f"{self.group}-lines-1"})
        zombie.init_transactions(30)
        zombie.begin_transaction()
        self.kafka.send(self.config_topic, ['{"task-count":2}'], ["tasks-fencing-lines"])
        return zombie

    def alter(self, rest: RestClient) -> None:
        """Set the offsets that this leader finds, which the other worker wrote, and go on."""
        found = self.call(rest, "GET", "/connectors/lines/offsets")
        position = sum(len(line) + 1 for line in self.lines)
        assert found == {"offsets": [{"partition": {"filename": str(self.file)}, "offset": {"position": position}}]}
        self.call(rest, "PATCH", "/connectors/lines/offsets", found)
        self.call(rest, "PUT", "/connectors/lines/resume")

    def offset_keys(self) -> set[bytes]:
        return {message.key() for message in self.there.messages(self.offsets_topic)}

    def counts(self) -> list[Any]:
        return [json.loads(m.value()) for m in self.kafka.messages(self.config_topic)
                if m.key() == b"tasks-fencing-lines"]


@pytest.fixture
def kafka(broker: Any) -> Kafka:
    """The workers' Kafka."""
    return Kafka(broker.bootstrap_servers)


@pytest.fixture
def there(kafka: Kafka, request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """The Kafka that the source writes to."""
    if request.param == "same Kafka":
        yield kafka
    else:
        with EmbeddedBroker(quick=True) as other:
            yield Kafka(other.bootstrap_servers)


@pytest.fixture
def mixed(kafka: Kafka, there: Kafka, tmp_path: Path, topic_name: str) -> Iterator[Mixed]:
    made = Mixed(kafka, there, tmp_path, topic_name)
    yield made
    made.java.stop(0)
    made.heeler.kill()


@pytest.mark.parametrize(("first", "there"), [("java", "same Kafka"), ("heeler", "another Kafka")], indirect=["there"])
def test_a_source_moves_between_java_and_heeler(mixed: Mixed, first: str) -> None:
    """`first` leads and begins; the other one takes over its stopped connector when it is killed, fences what is left
    of it, and is killed in its turn.
    """
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
    zombie = mixed.stop(rests[first])
    kill(first)
    mixed.alter(rests[second])
    mixed.append(1000)
    mixed.arrive()
    zombie.produce(mixed.topic, "too late")
    with pytest.raises(KafkaException, match="fenced"):
        zombie.commit_transaction(30)
    assert mixed.counts()[-2:] == [{"task-count": 2}, {"task-count": 1}]
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
