"""A Java worker and a heeler worker in one exactly-once group: each leads, each fences for the other, and a file source
and one with several tasks move between them, also ones that write to another Kafka. A read_committed reader sees each
record once, in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from heeler.cli.client.rest_client import RestClient, RestError
from heeler.cli.support.worker_process import WorkerProcess
from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.rigs.connector_states import states_of
from tests.rigs.exactly_once_tasks import visible
from tests.rigs.jar_sets import TEST_PLUGINS
from tests.rigs.java_worker import TIMES, JavaWorker
from tests.rigs.support import wait_until
from tests.rigs.workers import SPARK_MS, STRING, Kafka

pytestmark = [pytest.mark.interop, pytest.mark.integration, pytest.mark.timeout(400)]

SOON_S = 90.0
PLUGINS = Path(__file__).parents[1] / "rigs" / "interop" / "plugins"


class Mixed:
    """Both workers, their Kafka, the Kafka that they write to, a file and the topic that it goes to, and the topic that
    tasks count in.
    """

    def __init__(self, kafka: Kafka, there: Kafka, folder: Path, group: str) -> None:
        self.kafka, self.there, self.folder, self.group = kafka, there, folder, group
        self.topic, self.numbers = there.create(f"{group}-lines"), there.create(f"{group}-numbers")
        clients = ("producer", "consumer", "admin") if there is not kafka else ()
        self.overrides = {f"{kind}.override.bootstrap.servers": there.servers for kind in clients}
        settings = {
            "bootstrap.servers": kafka.servers, "group.id": group, "key.converter": STRING, "value.converter": STRING,
            **{f"{kind}.storage.topic": f"{group}-{kind}s" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "offset.storage.partitions": "1", "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "1000",
        }  # fmt: skip
        self.java = JavaWorker(folder, settings, TEST_PLUGINS)
        self.heeler = WorkerProcess(folder, {
            **settings, **TIMES, "plugin.path": str(PLUGINS), "heeler.spark.start.delay.ms": SPARK_MS})
        self.offsets_topic = settings["offset.storage.topic"]
        self.config_topic = settings["config.storage.topic"]
        self.counted: dict[str, int] = {}
        self.lines: list[str] = []
        self.file = folder / "in.txt"
        self.file.touch()

    def create(self, rest: RestClient, **more: str) -> None:
        self.call(rest, "PUT", "/connectors/lines/config", {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1",
            "file": str(self.file), "topic": self.topic, "exactly.once.support": "required",
            **self.overrides, **more})

    def count(self, rest: RestClient, tasks: int) -> None:
        self.call(rest, "PUT", "/connectors/numbers/config", {
            "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector", "tasks.max": str(tasks),
            "topic": self.numbers, "throughput": "50", "transaction.boundary": "interval",
            "transaction.boundary.interval.ms": "200", **self.overrides})

    def last_numbers(self) -> dict[str, int]:
        """By task; each number is there once and in order."""
        found: dict[str, int] = {}
        for message in self.there.messages(self.numbers):
            task, number = (message.key() or b"").decode(), int(message.value() or b"")
            assert number == found.get(task, -1) + 1, f"task {task}: {number} after {found.get(task)}"
            found[task] = number
        return found

    def count_on(self, tasks: int) -> None:
        """Wait until each of the tasks has counted on."""
        def more() -> bool:
            found = self.last_numbers()
            assert all(found.get(str(n), -1) > self.counted.get(str(n), -1) for n in range(tasks)), found
            self.counted = found
            return True

        wait_until(more, SOON_S, "all tasks to count on, with each number once and in order")

    def call(self, rest: RestClient, method: str, path: str, body: Any = None) -> Any:
        """Retry the request until the worker can serve it: it may not know the leader yet."""
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

    def share(self, rest: RestClient) -> None:
        """Wait until both workers run tasks. A task that is still to start would have a stopped connector's producers
        fenced.
        """
        def both() -> bool:
            parts: list[Any] = []
            for name in ("lines", "numbers"):
                try:
                    status = rest.call("GET", f"/connectors/{name}/status")
                except (RestError, OSError) as error:
                    raise AssertionError(str(error)) from error
                parts += [status["connector"], *status["tasks"]]
            assert [part["state"] for part in parts] == ["RUNNING"] * 5, parts
            return len({part["worker_id"] for part in parts if "id" in part}) == 2

        wait_until(both, SOON_S, "tasks to run on both workers")

    def stop(self, rest: RestClient) -> Producer:
        """Stop the connectors. As if the second task that counts did not know of that: its producer is what this
        returns. Where one task is left, only a round of fencing can reach it.
        """
        for name in ("lines", "numbers"):
            self.call(rest, "PUT", f"/connectors/{name}/stop")
        wait_until(lambda: states_of(rest, "lines") == states_of(rest, "numbers") == ["STOPPED"], SOON_S, "the stops")
        self.counted = self.last_numbers()
        zombie = Producer({"bootstrap.servers": self.there.servers, "transactional.id": f"{self.group}-numbers-1"})
        zombie.init_transactions(30)
        zombie.begin_transaction()
        return zombie

    def alter(self, rest: RestClient) -> None:
        """Set the offsets that this leader finds, which the other worker wrote, and resume."""
        found = self.call(rest, "GET", "/connectors/lines/offsets")
        position = sum(len(line) + 1 for line in self.lines)
        assert found == {"offsets": [{"partition": {"filename": str(self.file)}, "offset": {"position": position}}]}
        self.call(rest, "PATCH", "/connectors/lines/offsets", found)
        for name in ("lines", "numbers"):
            self.call(rest, "PUT", f"/connectors/{name}/resume")

    def offset_keys(self) -> set[bytes]:
        return {message.key() for message in self.there.messages(self.offsets_topic)}

    def task_counts(self, name: str) -> list[Any]:
        return [json.loads(m.value()) for m in self.kafka.messages(self.config_topic)
                if m.key() == f"tasks-fencing-{name}".encode()]


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
    made.java.close()
    made.heeler.kill()


@pytest.mark.parametrize(("first", "there"), [
    ("java", "same Kafka"),  # heeler asks a Java leader to fence, and fences for Java when it leads
    pytest.param("heeler", "another Kafka", marks=pytest.mark.nightly),
], indirect=["there"])
def test_sources_move_between_java_and_heeler(mixed: Mixed, first: str) -> None:
    """`first` leads and starts; when it is killed, the other one takes over its stopped connectors, fences what is left
    of them, and is then killed itself.
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
    mixed.count(rests[first], 2)
    mixed.append(1000)
    mixed.arrive()
    assert mixed.owner(rests[first]) == first
    start(second)
    mixed.share(rests[first])
    mixed.append(500)
    mixed.arrive()
    mixed.count_on(2)
    zombie = mixed.stop(rests[first])
    kill(first)
    mixed.count(rests[second], 1)
    mixed.alter(rests[second])
    mixed.append(1000)
    mixed.arrive()
    fenced = [{"task-count": 2}, {"task-count": 1}]
    wait_until(lambda: mixed.task_counts("numbers") == fenced, SOON_S, "the record of a round of fencing")
    zombie.produce(mixed.numbers, "too late")
    with pytest.raises(KafkaException, match="fenced"):
        zombie.commit_transaction(30)
    mixed.count_on(1)
    assert mixed.owner(rests[second]) == second
    start(first)
    mixed.create(rests[first], **{"batch.size": "5000"})  # whoever leads fences, whoever runs the task asks for it
    mixed.append(1000)
    mixed.arrive()
    kill(second)
    mixed.append(1000)
    mixed.arrive()
    assert mixed.owner(rests[first]) == first
    mixed.count_on(1)
    assert len(mixed.offset_keys()) == 3, "both use the same bytes as the key of an offset"
    assert mixed.task_counts("lines")
