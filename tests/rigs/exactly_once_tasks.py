"""An exactly-once source task against a real broker, with threads as executors and a guard that tests control."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.admin import KafkaAdmin
from spark_tasks.kafka.task_clients import connection_settings
from spark_tasks.plugins.api import Options
from spark_tasks.task import TaskContext
from storage.ids import ConnectorName, TopicName
from storage.log.topic_log import KafkaTopicLog
from storage.offsets.own_topic import OwnOffsets
from storage.offsets.stores import ConnectorOffsetStore, OffsetStores, OffsetTopic
from tests.rigs.support import wait_until
from tests.rigs.task_plugins import NumbersConnector, NumbersReader, Range
from tests.rigs.task_rigs import TaskRig
from tests.rigs.tasks import Loop, worker_settings
from tests.rigs.topic_reader import read_topic


class TransactionsConnector(NumbersConnector):
    """Numbers whose reader ends a transaction after `commit.every` of a stream and discards those up to `abort.at`; in
    the first batch beyond `break` it fails once, after half of the batch has been read.
    """

    @classmethod
    def can_define_transaction_boundaries(cls, config: Options) -> bool:  # noqa: ARG003
        return True

    @classmethod
    def data_source(cls, options: Options) -> Any:
        source = super().data_source(options)
        source.streamReader = lambda _schema: TransactionsReader(dict(options))  # type: ignore[method-assign]
        return source


class TransactionsReader(NumbersReader):
    """See TransactionsConnector."""

    def transaction(self, start: dict[str, Any], end: dict[str, Any]) -> str:
        self.folder.say("transactions", start, end)
        if end["0"] == int(self.options.get("abort.at", "-1")):
            return "abort"
        return "commit" if end["0"] % int(self.options["commit.every"]) == 0 else "continue"

    def read(self, partition: Range) -> Iterator[Any]:
        (batch,) = super().read(partition)
        half = len(batch) // 2
        yield batch.slice(0, half)
        if self.options.get("break") and partition.end > int(self.options["break"]) and self.folder.once("break"):
            wait_until((self.folder.path / "half.seen").exists, 30, "somebody who has seen the first half")
            raise ConnectionResetError("the source is gone for a moment")
        yield batch.slice(half)


class Guard:
    """A StartGuard that counts, and refuses if a test wants it to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuse: dict[str, ConnectError] = {}
        self.cancelled = threading.Event()
        self.before_verify: Callable[[], None] = lambda: None

    def fence(self) -> None:
        self._asked("fence")

    def verify(self) -> None:
        self.before_verify()
        self._asked("verify")

    def _asked(self, what: str) -> None:
        self.asked.append(what)
        if what in self.refuse:
            raise self.refuse[what]

    def cancel(self) -> None:
        self.cancelled.set()


def visible(servers: str, topic: str, *, committed: bool = True) -> list[str]:
    """The values that a reader of the topic can see now, partition by partition."""
    return [(message.value() or b"").decode() for message in read_topic(servers, topic, committed=committed)]


class OnceRig(TaskRig):
    """A topic, the worker's offsets topic, and the instances of a task."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        super().__init__(bootstrap, folder, "once", "tests.rigs.task_plugins:NumbersConnector",
                         f"{__name__}:TransactionsConnector")
        self.limit(0)
        self.offsets_topic = f"offsets-{self.name}"
        self.settings = connection_settings(self.worker)
        self.log_admin = KafkaAdmin.connect(self.settings)
        self.opened: list[Callable[[], None]] = []
        self.make_topic()
        self.make_topic(topic=self.offsets_topic)
        self.stores = OffsetStores(OffsetTopic(self.log(self.own(self.offsets_topic))), self.log)
        self.stores.worker.start().result(30)

    def own(self, topic: str) -> OwnOffsets:
        return OwnOffsets(TopicName(topic), self.settings, self.settings, self.settings)

    def log(self, own: OwnOffsets) -> KafkaTopicLog:
        admin = nullcontext(self.log_admin)
        log = KafkaTopicLog(own.topic, self.settings, admin, client_id="once", read_committed=True)
        self.opened.append(log.stop)
        return log

    def store(self, own: str | None = None) -> ConnectorOffsetStore:
        return self.stores.of(ConnectorName(self.name), self.own(own) if own else None)

    def start(self, guard: Guard | None = None, own_offsets: str | None = None, **options: str) -> Loop:
        """Start an instance of task 0; options with underscores instead of dots."""
        connector = {
            "name": self.name, "connector.class": "tests.rigs.exactly_once_tasks.TransactionsConnector",
            "topic": self.topic, "folder": str(self.notes.path),
            **{key.replace("_", "."): value for key, value in options.items()},
        }  # fmt: skip
        loop = Loop()
        context = TaskContext(
            connector_name=self.name, task=0, worker=worker_settings(self.worker), connector=connector,
            config=connector, engine=self.engine, offsets=self.store(own_offsets), wake=loop.wake,
            topic_used=lambda _topic: None, guard=guard or Guard(),
        )  # fmt: skip
        return self.run(context, loop)

    def values(self, topic: str | None = None, *, committed: bool = True) -> list[str]:
        """What a reader of the topic can see now."""
        return visible(self.bootstrap, topic or self.topic, committed=committed)

    def size(self) -> int:
        """How many records and transaction markers the topic's partition 0 has."""
        partition = TopicPartition(self.topic, 0)
        return int(self.admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(20).offset)

    def offsets(self) -> Sequence[Any]:
        return [(dict(p), dict(o)) for p, o in self.store().read()]

    def close(self) -> None:
        super().close()
        for stop in self.opened:
            stop()
        self.log_admin.close()
