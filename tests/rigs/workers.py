"""Real worker processes for tests, and Kafka seen by librdkafka: an independent reader and writer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from heeler.cli.client.rest_client import RestClient, RestError
from heeler.cli.support.worker_process import WorkerProcess
from tests.rigs.connector_states import states_of
from tests.rigs.nursery import launcher
from tests.rigs.support import wait_until

PLUGINS = Path(__file__).with_name("plugins")
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
READY_S = 60.0  # a worker on a busy machine
SOON_S = 30.0  # anything that a connector does
SPARK_MS = "60000"  # most workers of tests end earlier, and Spark would take half of their CPU time
PATIENT = {"session_timeout_ms": "10000", "consumer_session_timeout_ms": "10000"}  # of a worker that nobody stops
_BEING_MADE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION}


class Kafka:
    """The broker, as any other program sees it."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})
        self._looker = self._consumer()  # creating one takes longer than all its requests

    def create(self, topic: str, partitions: int = 1, **config: Any) -> str:
        """Create a topic, with Kafka's settings (underscores instead of dots)."""
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
        return topic

    def configure(self, topic: str, key: str, value: str) -> None:
        """Change one of a topic's settings."""
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    @contextmanager
    def denied(self, operation: AclOperation, kind: ResourceType, name: str) -> Iterator[None]:
        """As long as this is open, an ACL denies everybody the operation on the resource with this name."""
        rule = (kind, name, ResourcePatternType.LITERAL, "User:*", "*", operation, AclPermissionType.DENY)
        [made] = self.admin.create_acls([AclBinding(*rule)]).values()
        made.result(30)
        try:
            yield
        finally:
            [deleted] = self.admin.delete_acls([AclBindingFilter(*rule)]).values()
            deleted.result(30)

    def send(self, topic: str, values: Sequence[str | None], keys: Sequence[str | None] | None = None,
             headers: Any = None, partition: int = -1) -> None:
        """Send records; they are acknowledged when this returns."""
        # With more requests at a time, librdkafka may reorder the first ones to a new topic.
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5,
                             "max.in.flight.requests.per.connection": 1,
                             "queue.buffering.max.messages": 500_000, "log_level": 0})
        failed: list[Any] = []

        def delivered(error: Any, _message: Message) -> None:
            if error is not None:
                failed.append(error)

        for n, value in enumerate(values):
            more = {} if partition < 0 else {"partition": partition}
            producer.produce(topic, value, keys[n] if keys else None, headers=headers, on_delivery=delivered, **more)
        assert producer.flush(30) == 0
        assert not failed, failed[0]

    def end(self, topic: str) -> int:
        """The sum of the end offsets of a topic's partitions; 0 if the topic does not exist, or not completely yet."""
        try:
            found = self._looker.list_topics(topic, 10).topics[topic].partitions
            return sum(self._looker.get_watermark_offsets(TopicPartition(topic, p), 10)[1] for p in found)
        except KafkaException as error:
            if error.args[0].code() in _BEING_MADE:
                return 0
            raise

    def messages(self, topic: str) -> list[Message]:
        """All records that exist now, by partition."""
        consumer = self._consumer()
        found: list[Message] = []
        try:
            for p in sorted(consumer.list_topics(topic, 10).topics[topic].partitions):
                place = TopicPartition(topic, p)
                low, high = consumer.get_watermark_offsets(place, 10)
                consumer.assign([TopicPartition(topic, p, low)])
                while low < high and (at := max(low, consumer.position([place])[0].offset)) < high:
                    for message in consumer.consume(min(10_000, high - at), 0.2):  # more would be waited for
                        assert message.error() is None, message.error()
                        found.append(message)
        finally:
            consumer.close()
        return found

    def values(self, topic: str) -> list[str | None]:
        """The values of all records that exist now, by partition."""
        raw = (message.value() for message in self.messages(topic))
        return [None if value is None else value.decode() for value in raw]

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """Delete records, like retention."""
        places = [TopicPartition(topic, partition, offset)]
        for deleted in self.admin.delete_records(places).values():
            assert deleted.result(30).low_watermark == offset

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets of a consumer group by topic and partition."""
        answer = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
        return {(p.topic, p.partition): p.offset for p in answer.topic_partitions}

    def group_state(self, group: str) -> str:
        """The state of any group according to the broker, such as STABLE or EMPTY; DEAD if it does not exist."""
        for listed in self.admin.list_consumer_groups().result(30).valid:
            if listed.group_id == group:
                return str(listed.state.name)
        return "DEAD"

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.servers, "group.id": "tests", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "reconnect.backoff.max.ms": 500, "log_level": 0})


@dataclass(slots=True)
class Rig:
    """A worker process, its Kafka, and a folder for files."""

    process: WorkerProcess
    kafka: Kafka
    folder: Path
    created: list[str] = field(default_factory=list)

    @property
    def rest(self) -> RestClient:
        """The worker's REST API."""
        return self.process.rest

    def create(self, name: str, config: Mapping[str, str], states: Sequence[str] | None = None) -> str:
        """Create or change a connector; with `states`, wait until it and its tasks have these states."""
        if name not in self.created:
            self.created.append(name)
        self.rest.put_config(name, dict(config))
        if states is not None:
            self.wait_states(name, states)
        return name

    def wait_states(self, name: str, states: Sequence[str], within: float = SOON_S) -> None:
        """Wait until the connector and then each task are in these states."""

        def same() -> bool:
            found = states_of(self.rest, name)
            assert found == list(states), f"{name}: {found}, expected {list(states)}; {self.rest.failure(name)}"
            return True

        wait_until(same, within, f"{name} to be {list(states)}")

    def wait_records(self, topic: str, count: int, within: float = SOON_S) -> None:
        """Wait until the topic has this many records."""

        def there() -> bool:
            found = self.kafka.end(topic)
            assert found >= count, f"{found} of {count} records in {topic}; {self.process.tail()}"
            return True

        wait_until(there, within, f"{count} records in {topic}")

    def wait_lines(self, file: Path, lines: Sequence[str], within: float = SOON_S) -> None:
        """Wait until the file has exactly these lines."""

        def there() -> bool:
            found = file.read_text().splitlines() if file.exists() else []
            assert found == list(lines), f"{file} has {len(found)} lines: {found[:5]} … {found[-5:]}"
            return True

        wait_until(there, within, f"the lines of {file}")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A request; raises RestError for statuses from 400 on."""
        return self.rest.call(method, path, body)

    def refused(self, method: str, path: str, body: Any = None) -> RestError:
        """The error of a request that has to fail."""
        try:
            answer = self.rest.call(method, path, body)
        except RestError as error:
            return error
        raise AssertionError(f"{method} {path} was answered with {answer}")

    def delete(self, name: str) -> None:
        """Delete a connector and wait until its status is gone."""
        self.call("DELETE", f"/connectors/{quote(name, safe='')}")
        wait_until(lambda: states_of(self.rest, name) == [], SOON_S, f"the end of {name}")
        if name in self.created:
            self.created.remove(name)

    def tidy(self) -> None:
        """Delete what was created here and still exists."""
        there = set(self.call("GET", "/connectors"))
        for name in self.created:
            if name in there:
                self.call("DELETE", f"/connectors/{quote(name, safe='')}")
        self.created.clear()


def worker_settings(servers: str, group: str, **more: str) -> dict[str, str]:
    """A worker's properties for tests: short times, its own group and internal topics.

    `more`: with underscores instead of dots.
    """
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "key.converter": STRING,
        "value.converter": STRING,
        **{f"{kind}.storage.topic": f"{group}-{kind}s" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "offset.storage.partitions": "2",
        "status.storage.partitions": "1",
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "500",
        "task.shutdown.graceful.timeout.ms": "2000",
        "consumer.session.timeout.ms": "3000",
        "consumer.heartbeat.interval.ms": "500",
        "plugin.path": str(PLUGINS),
        "heeler.spark.start.delay.ms": SPARK_MS,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


@contextmanager
def running_worker(kafka: Kafka, folder: Path, group: str, **more: str) -> Iterator[Rig]:
    """A worker that responds to REST; stopped with SIGTERM at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with WorkerProcess(folder, worker_settings(kafka.servers, group, **more), launch=launcher()) as process:
        process.wait_ready(READY_S)
        yield Rig(process, kafka, folder)


@contextmanager
def shared(worker: Rig, folder: Path) -> Iterator[Rig]:
    """A worker that several tests use, with a folder for this test; its connectors are deleted afterwards."""
    assert worker.process.exit_code() is None, worker.process.tail()
    own = Rig(worker.process, worker.kafka, folder)
    yield own
    own.tidy()


def processes_of(worker: WorkerProcess) -> list[psutil.Process]:
    """The guarding shell, the worker, Spark's JVM, Python workers and so on that are alive."""
    shell = psutil.Process(worker.pid)
    return [shell, *filter(is_alive, shell.children(recursive=True))]


def is_alive(process: psutil.Process) -> bool:
    """Whether it has not ended. Parents of executor processes read how one has ended some time later."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def jvms() -> list[psutil.Process]:
    """Spark's JVMs of engines in this process; the worker that many tests share has one too."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            of_a_worker = any(" -m heeler worker " in " ".join(parent.cmdline()) for parent in process.parents())
            if process.name() == "java" and "SparkSubmit" in " ".join(process.cmdline()) and not of_a_worker:
                found.append(process)
        except psutil.Error:
            continue  # it has just ended
    return found


def has_ended(process: psutil.Process) -> bool:
    """Whether a process has ended. (So has a zombie; its parent, or init, has to remove it.)"""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def existing(ids: str) -> list[psutil.Process]:
    """The processes that there still are of these, which are separated by spaces."""
    found = []
    for pid in ids.split():
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(int(pid)))
    return found


def wait_gone(processes: Sequence[psutil.Process]) -> None:
    """Wait until none of these processes is alive."""
    wait_until(lambda: all(map(has_ended, processes)), what=f"the end of {processes}")


def leftovers(folder: Path) -> list[str]:
    """What is left in a folder of temporary files, except for what JVMs forget."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.startswith("hsperfdata"))


def pause_between(earlier: float, seconds: float) -> None:
    """Wait until `seconds` after the (monotonic) time `earlier`: for something that must not happen in that time."""
    time.sleep(max(0.0, earlier + seconds - time.monotonic()))
