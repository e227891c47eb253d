"""The task of a Java sink, with a simulated host, and a group and a topic in memory."""

from __future__ import annotations

import json
import struct
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace

import pyarrow as pa

from heeler.java_host import feed, sink_task
from heeler.java_host.sink_task import JavaSinkTask
from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.data.host_records import CUT_SCHEMA, described
from spark_tasks.dead_letters import queue_writes
from spark_tasks.dead_letters.queue_topic import QueueTopic
from spark_tasks.host_frames import BATCH, HEAD
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.task import TaskContext
from tests.rigs.host_frames import packed
from tests.rigs.host_sessions import Host
from tests.rigs.tasks import worker_settings
from tests.rigs.waiting_engine import WaitingEngine

TP = ("t", 0)


class Group:
    """The group, its member and the topic t, of whose partition 0 offsets up to `end` have records."""

    def __init__(self):
        self.end, self.done, self.commits, self.joins, self.polls = 0, {}, [], [True], 0
        self.membership = (1, "me")
        self.letters, self.away, self.texts = [], False, {}
        self.writes, self.may_write = threading.Event(), threading.Event()
        self.may_write.set()
        self.meanwhile = lambda: None  # called while the task polls the group
        self.queue_end, self.progress = 9, {}  # of the dead letter queue
        self.cluster = SimpleNamespace(
            offsets_by_now=lambda wanted, *_, **__: dict.fromkeys(wanted, 0), known_leader=lambda *_: 1,
            partitions=lambda *_, **__: [0], offsets=lambda places, which, *_, **__: dict.fromkeys(
                places, self.queue_end if which == "latest" else 0))

    # what GroupConsumer does
    def poll(self, _timeout_ms, leaving):
        self.polls += 1
        self.meanwhile()
        if self.joins:
            leaving()
            self.membership = (2, "me")
        return True

    def take_change(self):
        return bool(self.joins) and self.joins.pop()

    def assignment(self):
        return frozenset([TP])

    def generation(self):
        return self.membership

    def committed(self, _partitions):
        return dict(self.done)

    def committed_with_metadata(self, place):
        return (self.progress[place], "") if place in self.progress else None

    def commit(self, offsets, _timeout_ms, _metadata):
        self.progress |= offsets

    def begin_commit(self, offsets, _timeout_ms, metadata):
        answer = Future()
        if self.away:
            answer.set_exception(KafkaUnavailableError("away"))
            return answer
        self.commits.append((self.membership[0], dict(offsets), len(self.letters)))
        self.done |= offsets
        self.texts |= metadata
        answer.set_result(None)
        return answer

    def close(self):
        self.membership = None

    # what EndWatcher does
    def ends(self, partitions, _isolation):
        return dict.fromkeys(partitions, self.end)

    def refresh(self, wanted, isolation, **_):
        return self.ends(wanted, isolation)

    def records(self, _partition, _offset):
        return b""

    def arm(self, *_): return True
    def forget(self, _): ...
    def of(self, _): return self

    # what an Appender does
    def append(self, topic, _partitions, raw, **_):
        self.letters += [(topic, value) for value in raw.column("value").to_pylist()]

    def flush(self):
        self.writes.set()
        assert self.may_write.wait(10)


@contextmanager
def sink_rig(monkeypatch, more=MappingProxyType({})):
    """A task; its host, executors, group and Kafka are simulated. `more`: the connector's configuration."""
    group, host, woken = Group(), Host(), threading.Event()

    def read_range(_cluster, _topic, _partition, start, end, **_):
        rows = [{"offset": n, "timestamp": n, "value": b"%d" % n} for n in range(start, end)]
        yield pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)

    appender = SimpleNamespace(append=group.append, flush=group.flush, close=lambda: None)
    monkeypatch.setattr(feed, "read_range", read_range)
    monkeypatch.setattr(feed, "shared_cluster", lambda _: group.cluster)
    monkeypatch.setattr(queue_writes, "shared_cluster", lambda _: None)
    monkeypatch.setattr(QueueTopic, "prepare", lambda _: None)
    monkeypatch.setattr(queue_writes, "Appender", lambda *_, **__: appender)
    monkeypatch.setattr(sink_task, "GroupConsumer", lambda *_: group)
    used, engine = [], WaitingEngine()
    context = TaskContext(
        connector_name="c", task=1, worker=worker_settings({}),
        connector={"topics": "t", "consumer.override.max.poll.records": "7",
                   "errors.deadletterqueue.topic.name": "dead", **more},
        config={"task.class": "x.Task"}, engine=engine, offsets=None, wake=woken.set, topic_used=used.append)
    settings = SinkSettings.of(context)
    task = JavaSinkTask(context, settings, host, {"class": "x.Connector", "version": "1"}, group, None)
    yield SimpleNamespace(task=task, group=group, host=host, woken=woken, used=used, engine=engine,
                          metrics=context.metrics)
    task.cancel()
    task.close()


def received(session):
    """The next frame of records."""
    head = session.socket.recv(HEAD.size, 0x100)
    kind, _, size = HEAD.unpack(head)
    assert kind == BATCH
    return head + session.socket.recv(size, 0x100)


def parsed(frame):
    """What a frame of records says of itself, and the number of its records."""
    rows, meta, sections, _ = struct.unpack_from("<iiii", frame, HEAD.size)
    begin = HEAD.size + 16 + 8 * sections
    return json.loads(frame[begin : begin + meta]), rows


def frame(session):
    """Start, end, reset and number of records of the next frame."""
    reported, rows = parsed(received(session))
    return reported["from"], reported["to"], reported["reset"], rows


def frame_meta(frame):
    """Partition, start, end and number of records of a frame."""
    reported, rows = parsed(frame)
    return reported["partition"], reported["from"], reported["to"], rows


def cut_batch(*offsets):
    """Records with these offsets, as heeler's part of a chain returns them."""
    rows = [{"offset": n, "timestamp": n, "value": b"x", "cut.topic": "t", "cut.timestamp": n, "cut.value": b"x"}
            for n in offsets]
    return pa.RecordBatch.from_pylist(rows, CUT_SCHEMA).replace_schema_metadata(described(frozenset(), {}))


def letter(session, number, value):
    body = packed([("dead", -1, 5, None, value, [("h", b"x")])])
    session.socket.sendall(HEAD.pack(BATCH, number, len(body)) + body)


def opening(rig, offset):
    generation, member = rig.group.membership
    return {"op": "open", "places": [["t", 0, offset]], "generation": generation, "member": member}


def beside(step, *others):
    """Run `step` while the host does the others."""
    raised = []

    def run():
        try:
            step()
        except Exception as error:  # noqa: BLE001 - shown below
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    found = [other() for other in others]
    thread.join(10)
    assert not thread.is_alive()
    if raised:
        raise raised[0]
    return found


def started(rig, **more):
    """The task, started, with its partition open. `more`: what its host says of it."""
    session, order = None, None

    def begin():
        nonlocal session, order
        session = rig.host.sessions.get(timeout=10)
        order = session.read()[1]
        session.say("started", **more)

    beside(rig.task.start, begin)
    assert (order["op"], order["maxPollRecords"], order["flush"]) == ("sink", 7, 60_000)
    opened(rig, session)
    return session


def opened(rig, session):
    def answer():
        reported = session.read()[1]
        session.say("opened")
        return reported

    (reported,) = beside(rig.task.run_once, answer)
    assert reported == opening(rig, rig.group.done.get(TP, 0))
