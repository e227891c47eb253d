"""Source and sink tasks against a real broker; executors are threads here, Spark is in test_engine and the worker's
tests.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, cast

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from spark_tasks.runners import Runners
from spark_tasks.task import TaskContext
from tests.rigs.support import wait_until
from tests.rigs.task_plugins import Folder
from tests.rigs.tasks import Loop, MemoryOffsets, ThreadEngine, context_of, plugins_with
from tests.rigs.topic_reader import read_topic

STRING = "org.apache.kafka.connect.storage.StringConverter"
_NO_BROKER = {KafkaError._TIMED_OUT, KafkaError.INVALID_REPLICATION_FACTOR}  # noqa: SLF001 - librdkafka's name


class TaskRig:
    """One connector `self.name`, its topic `self.topic`, its tasks, and what its plugin noted."""

    def __init__(self, bootstrap: str, folder: Path, kind: str, *plugins: str) -> None:
        self.bootstrap = bootstrap
        self.name = f"{kind}-{uuid.uuid4().hex[:8]}"
        self.topic = f"topic-{self.name}"
        self.worker = {"bootstrap.servers": bootstrap, "key.converter": STRING, "value.converter": STRING}
        self.notes = Folder(str(folder))
        self.engine = ThreadEngine()
        self.runners = Runners(plugins_with(*plugins), cast("Any", self.engine))
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.loops: list[Loop] = []
        self.used: list[str] = []

    def make_topic(self, partitions: int = 1, topic: str = "", **config: str) -> None:
        """Create `self.topic`, or another topic. A broker that was suspended has to register again."""
        wanted = NewTopic(topic or self.topic, partitions, 1, config=config)
        attempts: list[int] = []  # the errors of those that have failed

        def made() -> bool:
            try:
                self.admin.create_topics([wanted], request_timeout=5)[wanted.topic].result(10)
            except KafkaException as error:
                attempts.append(error.args[0].code())
                if attempts[-1] == KafkaError.TOPIC_ALREADY_EXISTS and KafkaError._TIMED_OUT in attempts:  # noqa: SLF001
                    return True
                if attempts[-1] not in _NO_BROKER:
                    raise
                # librdkafka's client waits in vain for a controller if no broker was registered when it first asked.
                self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
                return False
            return True

        wait_until(made, 60, f"the topic {wanted.topic}")

    def limit(self, count: int) -> None:
        """Set how many records a source has from now on."""
        (self.notes.path / "new-limit").write_text(str(count))
        (self.notes.path / "new-limit").rename(self.notes.path / "limit")

    def run(self, context: TaskContext, loop: Loop) -> Loop:
        """Start a task, which `close` stops."""
        loop.start(self.runners.make(context))
        self.loops.append(loop)
        return loop

    def close(self) -> None:
        self.engine.free.set()
        for loop in self.loops:
            loop.stop()
        self.runners.close()


class SinkRig(TaskRig):
    """The topic has two partitions."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        super().__init__(bootstrap, folder, "sink", "tests.rigs.task_plugins:NotesConnector",
                         "tests.rigs.task_plugins:RowsConnector")
        # Without idempotence librdkafka may reorder the first requests to a new topic.
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self.make_topic(2)

    def produce(self, count: int, topic: str = "", start: int = 0) -> None:
        """Produce the values "0", "1", …; even ones go to partition 0."""
        for n in range(start, start + count):
            self.producer.produce(topic or self.topic, str(n).encode(), partition=n % 2)
        self.producer.flush(20)

    def start(self, task: int = 0, **options: str) -> Loop:
        connector = {
            "name": self.name, "connector.class": "tests.rigs.task_plugins.NotesConnector",
            "folder": str(self.notes.path), "consumer.override.session.timeout.ms": "6000",
            "consumer.override.heartbeat.interval.ms": "300", "topics": self.topic, **options,
        }  # fmt: skip
        connector = {key: value for key, value in connector.items() if value}
        loop = Loop()
        context = context_of(self.engine, self.worker, connector, loop.wake, task, topic_used=self.used.append)
        self.metrics = context.metrics  # of the last task
        return self.run(context, loop)

    def values(self) -> list[str]:
        return [value for _, _, _, values in self.notes.recorded("writes") for value in values]

    def committed(self) -> dict[int, int]:
        wanted = [ConsumerGroupTopicPartitions(f"connect-{self.name}")]
        found = self.admin.list_consumer_group_offsets(wanted)[f"connect-{self.name}"].result(20)
        return {tp.partition: tp.offset for tp in found.topic_partitions if tp.topic == self.topic}


class SourceRig(TaskRig):
    """Its offsets are in memory; a test creates the topic."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        super().__init__(bootstrap, folder, "source", "tests.rigs.task_plugins:NumbersConnector",
                         "tests.rigs.task_plugins:SimpleConnector")
        self.limit(0)
        self.offsets = MemoryOffsets()

    def start(self, **options: str) -> Loop:
        connector = {
            "name": self.name, "connector.class": "tests.rigs.task_plugins.NumbersConnector", "topic": self.topic,
            "folder": str(self.notes.path), **options,
        }  # fmt: skip
        loop = Loop()
        context = context_of(
            self.engine, self.worker, connector, loop.wake, offsets=self.offsets, topic_used=self.used.append
        )
        self.metrics = context.metrics
        return self.run(context, loop)

    def records(self) -> dict[int, list[str]]:
        """Values by partition, in order."""
        found: dict[int, list[str]] = {
            number: [] for number in self.admin.list_topics(self.topic, timeout=20).topics[self.topic].partitions}
        for message in read_topic(self.bootstrap, self.topic):
            found[message.partition()].append((message.value() or b"").decode())
        return found

    def values(self) -> list[str]:
        return [value for values in self.records().values() for value in values]
