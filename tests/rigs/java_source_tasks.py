"""The task of a Java source, with a simulated host, and a Kafka in memory."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace

import numpy as np
from kafka.protocol.producer import ProduceResponse

from heeler.java_host import frame_writer, source_task
from heeler.java_host.source_task import JavaSourceTask
from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.kafka.errors import KafkaUnavailableError, UnknownTopicError
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.task import TaskContext
from tests.rigs.host_sessions import Host
from tests.rigs.lone_host import STRINGS
from tests.rigs.loop_cluster import Cluster
from tests.rigs.tasks import Loop, worker_settings

JSON = "org.apache.kafka.connect.json.JsonConverter"


class Kafka:
    """What was appended and committed; a Delivery and an OffsetStore at once."""

    boundary = None
    due_ms = None

    def __init__(self):
        self.appended, self.committed, self.aborts, self.final = [], [], 0, True
        self.open = False  # whether a transaction is
        self.recovered = 0
        self.letters = 0  # the end of the dead letter queue
        self.signals = []
        self.suspended = False
        self.leads = True
        self.waits = threading.Event()  # for a leader
        self.responds = True
        self.missing = set()  # topics that do not exist
        self.refused = set()  # topics to which nothing can be appended

    def start(self): ...
    def cancel(self): ...
    def close(self): ...
    def close_soon(self): ...
    def written(self, uses): ...

    def recover(self):
        self.suspended = False
        self.recovered += 1

    def offsets(self, places, which, *_, timeout_ms):  # noqa: ARG002
        return dict.fromkeys(places, 0 if which == "earliest" else self.letters)

    def partitions(self, topic, *, timeout_ms, create=False):
        assert create == (topic != "dead"), "the brokers create topics, but no queue"
        if topic in self.missing:
            raise UnknownTopicError(f"no {topic}")
        if not self.responds:
            raise KafkaUnavailableError(f"no broker has responded within {timeout_ms} ms")
        return (0,)

    def check(self):
        if self.suspended:
            raise RetriableError("this process was suspended")

    def lanes(self, count):
        return [Lane(None)] * count

    def commit(self, offsets, signal="commit"):
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
        if topic in self._kafka.refused:
            raise ConnectError(f"no record for {topic} can be appended")
        start = len(self._kafka.appended) + len(self._batch)
        self._batch += [(topic, value) for value in raw.column("value").to_pylist()]
        if landed is not None:
            landed(1, np.arange(min(2, len(raw)))[::-1], start)
            landed(4, np.arange(2, len(raw)), -1)

    def flushed(self, within_s, *, but_for=0):
        if self._closed.is_set():
            raise KafkaUnavailableError("the appender was closed")
        if but_for or not self._batch:
            return True
        if not self._kafka.leads:
            self._kafka.waits.set()
            if not self._closed.wait(within_s):
                return False
            raise KafkaUnavailableError("the appender was closed")
        self._kafka.appended += self._batch
        self._batch = []
        return True

    def close(self):
        self._closed.set()


@contextmanager
def source_rig(monkeypatch, more=MappingProxyType({}), engine=None, cut=None):
    """A task, its host and Kafka simulated. `more`: of the worker's properties, and `errors.*` of the connector. `cut`:
    heeler's part of the chain, which runs in the `engine`.
    """
    errors = {key: value for key, value in more.items() if key.startswith("errors.")}
    kafka, host, woken = Kafka(), Host(), threading.Event()

    monkeypatch.setattr(frame_writer, "Appender", lambda *_, **__: Appender(kafka))
    monkeypatch.setattr(source_task, "shared_cluster", lambda _: kafka)
    used = []
    context = TaskContext(
        connector_name="c", task=2,
        worker=worker_settings({"key.converter": JSON, "key.converter.schemas.enable": "false",
                                "value.converter": JSON, **more}),
        connector={"value.converter": "own.Converter" if cut is None else JSON, **errors},
        config={"task.class": "x.Task"}, engine=engine, offsets=kafka, wake=woken.set, topic_used=used.append)
    named = {"class": "x.Connector", "version": "1"}
    task = JavaSourceTask(context, SourceSettings.of(context), host, named, kafka, cut)
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


class SilentBroker:
    """Answers no request before it is told to `speak`."""

    def __init__(self):
        self.asked, self._speaks = threading.Event(), Future()

    def speak(self):
        self._speaks.set_result(None)

    async def answer(self, request):
        self.asked.set()
        await asyncio.wrap_future(self._speaks)
        topic_type = ProduceResponse.TopicProduceResponse
        part_type = topic_type.PartitionProduceResponse
        return ProduceResponse(responses=[
            topic_type(name=topic.name, partition_responses=[
                part_type(index=part.index, error_code=0) for part in topic.partition_data])
            for topic in request.topic_data])


@contextmanager
def scripted_source(monkeypatch, host, notes, polls, boundary=None):
    """A running task of tests/rigs/java/Script.java in a real host, whose records go to a broker that is silent."""
    kafka, broker, loop = Kafka(), SilentBroker(), Loop()
    kafka.boundary = boundary
    cluster = Cluster(broker)
    monkeypatch.setattr(source_task, "shared_cluster", lambda _: cluster)
    context = TaskContext(
        connector_name="c", task=0, worker=worker_settings({"task.shutdown.graceful.timeout.ms": "1000"}),
        connector={"connector.class": "heeler.tests.Script", "producer.override.max.request.size": "8000000",
                   "key.converter": STRINGS, "value.converter": STRINGS},
        config={"task.class": "heeler.tests.Script$Scripted", "polls": polls, "notes": str(notes)}, engine=None,
        offsets=kafka, wake=loop.wake, topic_used=lambda _: None)
    task = JavaSourceTask(
        context, SourceSettings.of(context), host, {"class": "heeler.tests.Script", "version": "1"}, kafka)
    loop.start(task)
    try:
        yield SimpleNamespace(task=task, kafka=kafka, broker=broker, loop=loop, metrics=context.metrics)
    finally:
        task.cancel()
        loop.stop()
        cluster.io.close()
