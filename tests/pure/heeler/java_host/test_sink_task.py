"""The runner of a Java sink task with a simulated host, and a group and a topic in memory."""

from __future__ import annotations

import json
import struct
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pyarrow as pa
import pytest

from heeler.java_host import feed, sink_task
from heeler.java_host.feed import AHEAD, FRAME_RECORDS
from heeler.java_host.sink_task import JavaSinkTask
from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.dead_letters import queue
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.host_frames import BATCH, HEAD
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.task import TaskContext
from tests.rigs.host_frames import packed
from tests.rigs.host_sessions import Host, failure_of, stepped
from tests.rigs.support import wait_until
from tests.rigs.tasks import worker_settings

TP = ("t", 0)


class Group:
    """The group, its member and the topic t, of whose partition 0 offsets up to `end` have records."""

    def __init__(self):
        self.end, self.done, self.commits, self.joins, self.polls = 0, {}, [], [True], 0
        self.membership = (1, "me")
        self.letters, self.away = [], False
        self.cluster = SimpleNamespace(offsets_by_now=lambda wanted, *_, **__: dict.fromkeys(wanted, 0))

    # what GroupConsumer does
    def poll(self, _timeout_ms, leaving):
        self.polls += 1
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

    def begin_commit(self, offsets, _timeout_ms, _metadata):
        answer = Future()
        if self.away:
            answer.set_exception(KafkaUnavailableError("away"))
            return answer
        self.commits.append((self.membership[0], dict(offsets), len(self.letters)))
        self.done |= offsets
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
    def append(self, topic, _partitions, raw):
        self.letters += [(topic, value) for value in raw.column("value").to_pylist()]

    def flush(self): ...


@pytest.fixture
def rig(monkeypatch):
    group, host, woken = Group(), Host(), threading.Event()

    def read_range(_cluster, _topic, _partition, start, end, **_):
        rows = [{"offset": n, "timestamp": n, "value": b"%d" % n} for n in range(start, end)]
        yield pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)

    appender = SimpleNamespace(append=group.append, flush=group.flush, close=lambda: None)
    monkeypatch.setattr(feed, "read_range", read_range)
    monkeypatch.setattr(feed, "shared_cluster", lambda _: None)
    monkeypatch.setattr(queue, "shared_cluster", lambda _: None)
    monkeypatch.setattr(ErrorHandling, "prepare", lambda _: None)
    monkeypatch.setattr(queue, "Appender", lambda *_, **__: appender)
    monkeypatch.setattr(sink_task, "GroupConsumer", lambda *_: group)
    used = []
    context = TaskContext(
        connector_name="c", task=1, worker=worker_settings({}),
        connector={"topics": "t", "consumer.override.max.poll.records": "7",
                   "errors.deadletterqueue.topic.name": "dead"},
        config={"task.class": "x.Task"}, engine=None, offsets=None, wake=woken.set, topic_used=used.append)
    settings = SinkSettings.of(context)
    task = JavaSinkTask(context, settings, host, {"class": "x.Connector", "version": "1"}, group, None)
    yield SimpleNamespace(task=task, group=group, host=host, woken=woken, used=used, metrics=context.metrics)
    task.cancel()
    task.close()


def frame(session):
    """What a frame of records says of itself, and the number of its records."""
    kind, _, size = HEAD.unpack(session.socket.recv(HEAD.size, 0x100))
    assert kind == BATCH
    body = session.socket.recv(size, 0x100)
    rows, meta, _, _ = struct.unpack_from("<iiii", body)
    reported = json.loads(body[144 : 144 + meta])
    return reported["from"], reported["to"], reported["reset"], rows


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


def started(rig):
    """The task, started, with its partition open."""
    session, order = None, None

    def begin():
        nonlocal session, order
        session = rig.host.sessions.get(timeout=10)
        order = session.read()[1]
        session.say("started")

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


def test_records_are_sent_ahead_and_only_offsets_from_the_task_are_committed(rig):
    session = started(rig)
    rig.group.end = 10 * FRAME_RECORDS
    assert rig.task.run_once().records == AHEAD * FRAME_RECORDS
    ends = [(n * FRAME_RECORDS, (n + 1) * FRAME_RECORDS, False, FRAME_RECORDS) for n in range(5)]
    assert [frame(session) for _ in range(AHEAD)] == ends[:4]
    assert rig.group.commits == []
    rig.woken.clear()
    session.say("commit", offsets=[["t", 0, 9]])
    session.say("done", written=3)
    wait_until(lambda: stepped(rig).records == FRAME_RECORDS)
    assert frame(session) == ends[4]
    assert (rig.group.commits, rig.used) == ([(2, {TP: 9}, 0)], ["t"] * 5), "each frame tells: topics can be reset"
    assert rig.metrics.records == {"read": FRAME_RECORDS, "write": 3}


def test_a_rewind_sends_the_records_again(rig):
    session = started(rig)
    rig.group.end = 5
    rig.task.run_once()
    assert frame(session) == (0, 5, False, 5)
    rig.woken.clear()
    session.say("at", places=[["t", 0, 2]])
    stepped(rig)
    assert frame(session) == (2, 5, False, 3)
    rig.woken.clear()
    session.say("at", places=[["t", 0, -1]])
    rig.group.end = 6
    stepped(rig)
    session.say("at", places=[["t", 0, 5]])
    stepped(rig)
    assert frame(session) == (5, 6, False, 1), "nothing came while it was held"


def test_a_put_longer_than_max_poll_interval_ms_keeps_the_task_out_of_its_group(rig):
    session = started(rig)
    rig.group.end = 5
    rig.task.run_once()
    rig.task.run_once()
    before = rig.group.polls
    rig.task.run_once()
    assert rig.group.polls == before
    rig.woken.clear()
    session.say("tick")
    stepped(rig)
    assert rig.group.polls == before + 1


@pytest.mark.parametrize("lost", [False, True])
def test_before_it_joins_again_the_task_closes_its_partitions(rig, lost):
    """It commits the offsets that the task returns, unless the membership is lost."""
    session = started(rig)
    rig.group.membership = None if lost else (2, "me")
    rig.group.joins.append(True)

    def close_and_open():
        reported = [session.read()[1]]
        session.say("commit", offsets=[["t", 0, 4]])
        session.say("closed")
        reported.append(session.read()[1])
        session.say("opened")
        return reported

    ((closing, found),) = beside(rig.task.run_once, close_and_open)
    assert closing == {"op": "close", "lost": lost}
    assert found == opening(rig, 0 if lost else 4)
    assert [offsets for _, offsets, _ in rig.group.commits] == ([] if lost else [{TP: 4}])


def test_dead_letters_are_written_before_offsets_and_acknowledged(rig):
    session = started(rig)
    body = packed([("dead", -1, 5, None, b"bad", [("h", b"x")])])
    session.socket.sendall(HEAD.pack(BATCH, 1, len(body)) + body)
    session.say("commit", offsets=[["t", 0, 1]])
    wait_until(lambda: stepped(rig) and rig.group.commits, what="the commit")
    assert rig.group.letters == [("dead", b"bad")]
    assert session.read()[1] == {"op": "letters", "number": 1}
    assert rig.group.commits == [(2, {TP: 1}, 1)]


def test_the_letter_of_the_record_that_fails_the_task_is_written(rig):
    """As in Java, whatever errors.tolerance is: the host sends it and then fails."""
    session = started(rig)
    rig.woken.clear()
    body = packed([("dead", -1, 5, None, b"bad", [("h", b"x")])])
    session.socket.sendall(HEAD.pack(BATCH, 1, len(body)) + body)
    session.say("commit", offsets=[["t", 0, 1]])
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    assert str(failure_of(rig)) == "x.Boom: no\nat y"
    assert rig.group.letters == [("dead", b"bad")]
    assert rig.group.commits == [(2, {TP: 1}, 1)]
    assert rig.metrics.letters == 1


def test_commits_wait_for_an_unavailable_kafka(rig):
    session = started(rig)
    rig.group.away = True
    rig.woken.clear()
    session.say("commit", offsets=[["t", 0, 1]])
    assert stepped(rig).idle_ms > 0
    rig.group.away = False
    wait_until(lambda: rig.task.run_once() and rig.group.commits, what="the commit")
    assert rig.group.done == {TP: 1}


def test_an_exception_fails_the_task_after_its_last_commit(rig):
    session = started(rig)
    rig.woken.clear()
    session.say("commit", offsets=[["t", 0, 3]])
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    assert str(failure_of(rig)) == "x.Boom: no\nat y"
    assert rig.group.done == {TP: 3}


def test_the_end_of_the_host_restarts_the_task_at_the_groups_offsets(rig):
    session = started(rig)
    rig.group.end = 5
    rig.task.run_once()
    rig.group.done[TP] = 2
    rig.woken.clear()
    session.socket.close()
    wait_until(lambda: stepped(rig) and rig.metrics.retries, what="the end to be seen")
    assert rig.task.restarting

    def begin():
        session = rig.host.sessions.get(timeout=10)
        assert session.op() == "sink"
        session.say("started")
        reported = session.read()[1]
        session.say("opened")
        return reported, frame(session)

    (reported,) = beside(lambda: wait_until(lambda: rig.task.run_once().records), begin)
    assert reported == (opening(rig, 2), (2, 5, False, 3))
    assert not rig.task.restarting


def test_a_stopped_task_commits_its_last_offsets_and_leaves_the_group(rig):
    session = started(rig)

    def stop():
        assert session.op() == "stop"
        session.say("commit", offsets=[["t", 0, 4]])
        session.say("stopped")

    beside(rig.task.close, stop)
    assert rig.group.done == {TP: 4}
    assert rig.group.membership is None


def test_a_task_that_does_not_end_is_abandoned(rig):
    session = started(rig)
    closing = threading.Thread(target=rig.task.close)
    closing.start()
    assert session.op() == "stop"
    rig.task.cancel()
    closing.join(10)
    assert not closing.is_alive()


def test_a_task_moves_to_a_new_host_and_stays_in_its_group(rig):
    first = started(rig)
    rig.group.end = 5
    rig.task.run_once()
    assert frame(first) == (0, 5, False, 5)
    for op, more in (("commit", {"offsets": [["t", 0, 3]]}), ("retire", {})):
        rig.woken.clear()
        first.say(op, **more)
        assert rig.woken.wait(10)

    def leave():
        assert first.op() == "stop"
        first.say("stopped")

    def begin():
        session = rig.host.sessions.get(timeout=10)
        assert session.op() == "sink"
        session.say("started")
        reported = session.read()[1]
        session.say("opened")
        return session, reported  # a session that is forgotten ends its connection

    _, (second, reported) = beside(rig.task.run_once, leave, begin)
    assert reported == opening(rig, 3)
    assert frame(second) == (3, 5, False, 2)
    assert rig.group.commits == [(rig.group.membership[0], {TP: 3}, 0)]
    assert rig.metrics.failures == rig.metrics.retries == 0
