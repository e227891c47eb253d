"""The task of a Java source, with a simulated host, and a Kafka in memory."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace

import numpy as np

from heeler.java_host import frame_writer, source_task
from heeler.java_host.source_task import JavaSourceTask
from spark_tasks.errors import RetriableError
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.task import TaskContext
from tests.rigs.host_sessions import Host
from tests.rigs.tasks import worker_settings

JSON = "org.apache.kafka.connect.json.JsonConverter"


class Kafka:
    """What was appended and committed; a Delivery and an OffsetStore at once."""

    boundary = None
    due_ms = None

    def __init__(self):
        self.appended, self.committed, self.aborts, self.final = [], [], 0, True
        self.signals = []
        self.suspended = False
        self.leads = True
        self.waits = threading.Event()  # for a leader

    def start(self): ...
    def cancel(self): ...
    def close(self): ...
    def close_soon(self): ...
    def written(self, sequences): ...

    def recover(self):
        self.suspended = False

    def check(self):
        if self.suspended:
            raise RetriableError("this process was suspended")

    def lanes(self, count):
        return [Lane(None)] * count

    def commit(self, offsets, signal):
        self.committed.append((len(self.appended), offsets))
        self.signals.append(signal)
        return self.final

    def settle(self, *, finish):
        return finish and not self.final

    def abort(self):
        self.aborts += 1

    def failure(self, error):
        return error

    def read(self):
        return [({"of": "count"}, {"next": 9007199254740993})]


class Appender:
    """Appends to such a Kafka."""

    def __init__(self, kafka):
        self._kafka = kafka
        self.sequences, self._batch, self._closed = {}, [], threading.Event()

    def append(self, topic, _partitions, raw, landed=None, on_refusal=None):  # noqa: ARG002
        start = len(self._kafka.appended) + len(self._batch)
        self._batch += [(topic, value) for value in raw.column("value").to_pylist()]
        if landed is not None:
            landed(1, np.arange(min(2, len(raw)))[::-1], start)
            landed(4, np.arange(2, len(raw)), -1)

    def flush(self):
        if not self._kafka.leads:
            self._kafka.waits.set()
            self._closed.wait(10)
            raise KafkaUnavailableError("the appender was closed")
        self._kafka.appended += self._batch
        self._batch = []

    def close(self):
        self._closed.set()


@contextmanager
def source_rig(monkeypatch, more=MappingProxyType({})):
    """A task, its host and Kafka simulated. `more`: of the worker's properties, and `errors.*` of the connector."""
    errors = {key: value for key, value in more.items() if key.startswith("errors.")}
    kafka, host, woken = Kafka(), Host(), threading.Event()

    monkeypatch.setattr(frame_writer, "Appender", lambda *_, **__: Appender(kafka))
    monkeypatch.setattr(source_task, "shared_cluster", lambda _: None)
    used = []
    context = TaskContext(
        connector_name="c", task=2,
        worker=worker_settings({"key.converter": JSON, "key.converter.schemas.enable": "false",
                                "value.converter": JSON, **more}),
        connector={"value.converter": "own.Converter", **errors}, config={"task.class": "x.Task"}, engine=None,
        offsets=kafka, wake=woken.set, topic_used=used.append)
    task = JavaSourceTask(context, SourceSettings.of(context), host, {"class": "x.Connector", "version": "1"}, kafka)
    yield SimpleNamespace(task=task, kafka=kafka, host=host, woken=woken, used=used, metrics=context.metrics)
    task.cancel()
    task.close()


def started(rig):
    """The task, started, and the session that it has."""
    thread = threading.Thread(target=rig.task.start)
    thread.start()
    session = rig.host.sessions.get(timeout=10)
    session.order = session.read()[1]
    session.say("started")
    thread.join(10)
    rig.task.run_once()
    assert session.op() == "resume"
    return session
