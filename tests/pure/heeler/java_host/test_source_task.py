"""The runner of a Java source task with a simulated host, and a Kafka writer in memory."""

from __future__ import annotations

import re
import select
import threading
from base64 import b64decode
from types import SimpleNamespace

import numpy as np
import pytest

from heeler.java_host import frame_writer, source_task
from heeler.java_host.source_task import JavaSourceTask
from spark_tasks.errors import RetriableError, StartCancelledError
from spark_tasks.host_frames import BATCH, HEAD
from spark_tasks.kafka.errors import InvalidTopicError
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.task import TaskContext
from tests.rigs.host_frames import packed
from tests.rigs.host_sessions import Host, failure_of, stepped
from tests.rigs.support import wait_until
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


@pytest.fixture
def rig(monkeypatch, request):
    """A parameter: more of the worker's properties, and `errors.*` of the connector."""
    more = getattr(request, "param", {})
    errors = {key: value for key, value in more.items() if key.startswith("errors.")}
    kafka, host, woken = Kafka(), Host(), threading.Event()

    class Appender:
        def __init__(self, *_arguments, **_more):
            self.sequences, self._batch = {}, []

        def append(self, topic, _partitions, raw, landed):
            start = len(kafka.appended) + len(self._batch)
            self._batch += [(topic, value) for value in raw.column("value").to_pylist()]
            if landed is not None:
                landed(1, np.arange(min(2, len(raw)))[::-1], start)
                landed(4, np.arange(2, len(raw)), -1)

        def flush(self):
            kafka.appended += self._batch
            self._batch = []

        def close(self): ...

    monkeypatch.setattr(frame_writer, "Appender", Appender)
    monkeypatch.setattr(source_task, "shared_cluster", lambda _: None)
    used = []
    context = TaskContext(
        connector_name="c", task=2,
        worker=worker_settings({"key.converter": JSON, "key.converter.schemas.enable": "false",
                                "value.converter": JSON, **more}),
        connector={"value.converter": "own.Converter", **errors}, config={"task.class": "x.Task"}, engine=None,
        offsets=kafka, wake=woken.set, topic_used=used.append)
    task = JavaSourceTask(context, SourceSettings.of(context), host, {"class": "x.Connector", "version": "1"}, kafka)
    rig = SimpleNamespace(task=task, kafka=kafka, host=host, woken=woken, used=used, metrics=context.metrics)
    yield rig
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


def test_the_workers_converters_are_used_if_none_are_configured(rig):
    connector = started(rig).order["connector"]
    assert connector == {"name": "c", "key.converter": JSON, "key.converter.schemas.enable": "false",
                         "value.converter": "own.Converter"}


def test_the_host_gets_the_offsets_when_it_requests_them(rig):
    session = started(rig)
    session.say("offsets", -1)
    assert session.read() == (-1, {"op": "answer", "pairs": [['{"of":"count"}', '{"next":9007199254740993}']]})


def test_records_commits_and_failures_are_counted(rig):
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", b"two", offset=2)
    wait_until(lambda: stepped(rig).records == 2)
    metrics = rig.metrics
    assert (metrics.kind, metrics.records, metrics.commits["done"]) == ("source", {"read": 2, "write": 2}, 1)
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    failure_of(rig)
    assert (metrics.failures, metrics.errors) == (1, {"task": 1})


def test_commits_that_fail_are_counted(rig):
    def refuse(_offsets, _signal):
        raise RetriableError("the offsets topic is gone")

    rig.kafka.commit = refuse
    session = started(rig)
    session.frame(b"one", offset=1)
    wait_until(lambda: rig.task.run_once() and rig.metrics.retries == 1)
    assert rig.metrics.commits == {"done": 0, "failed": 1, "skipped": 0}


def test_frames_are_appended_committed_and_acknowledged(rig):
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", b"two", offset=2)
    wait_until(lambda: stepped(rig).records == 2)
    assert (rig.kafka.appended, rig.used) == ([("t", b"one"), ("t", b"two")], ["t"])
    assert rig.kafka.committed == [(2, [({"p": 1}, {"n": 2})])]
    assert session.read()[1] == {"op": "acknowledge", "frame": 1, "places": []}
    assert rig.task.run_once().idle_ms > 1000
    session.frame(b"three", offset=3)
    wait_until(lambda: stepped(rig).records == 1)
    assert rig.used == ["t", "t"], "each step tells: topics can be reset"


def test_commit_record_gets_the_positions_of_written_records(rig):
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", b"two", b"three", offset=3, wanted=True)
    wait_until(lambda: stepped(rig).records == 3)
    (place,) = session.read()[1]["places"]
    assert place["frame"] == 1
    assert np.frombuffer(b64decode(place["partitions"]), "<i4").tolist() == [1, 1, 4]
    assert np.frombuffer(b64decode(place["offsets"]), "<i8").tolist() == [1, 0, -1]


@pytest.mark.parametrize("rig", [{"errors.tolerance": "all", "errors.log.enable": "true"}], indirect=True)
def test_records_that_cannot_be_written_are_left_out_if_errors_are_tolerated(rig, caplog):
    """KIP-779. They failed the task, whatever errors.tolerance is. Plugins get no metadata of them."""
    session = started(rig)
    rig.woken.clear()
    large = bytes(1_100_000)
    body = packed([("t", -1, 5, None, b"one", []), ("bad name/", -1, 5, None, b"two", []),
                   ("t", -1, 5, None, large, []), ("t", -1, 5, None, b"four", [])],
                  [['{"p":1}', '{"n":4}']], wanted=True)  # fmt: skip
    session.socket.sendall(HEAD.pack(BATCH, 1, len(body)) + body)
    wait_until(lambda: stepped(rig).records == 2)
    assert rig.kafka.appended == [("t", b"one"), ("t", b"four")]
    assert rig.kafka.committed == [(2, [({"p": 1}, {"n": 4})])]
    [place] = session.read()[1]["places"]
    assert np.frombuffer(b64decode(place["partitions"]), "<i4").tolist() == [1, -2, -2, 1]
    assert rig.metrics.skipped == 2
    assert re.findall(r"stage 'KAFKA_PRODUCE' .*\.(\w+Exception)", caplog.text) == [
        "RecordTooLargeException", "InvalidTopicException"]


def test_a_record_for_an_invalid_topic_fails_the_task(rig):
    session = started(rig)
    body = packed([("bad name/", -1, 5, None, b"two", [])], [['{"p":1}', '{"n":4}']])
    session.socket.sendall(HEAD.pack(BATCH, 1, len(body)) + body)
    with pytest.raises(InvalidTopicError, match="'bad name/' is not a valid name of a topic"):
        wait_until(lambda: stepped(rig) is None)
    assert rig.kafka.committed == []


@pytest.mark.parametrize("rig", [{"offset.flush.interval.ms": "1"}], indirect=True)
def test_commit_is_called_periodically_even_without_records(rig):
    """Kafka Connect calls it every offset.flush.interval.ms; MirrorMaker sends its pending offsets there."""
    session = started(rig)
    wait_until(lambda: rig.task.run_once().idle_ms == 1 and select.select([session.socket], [], [], 0)[0])
    assert session.read()[1] == {"op": "acknowledge", "frame": 0, "places": []}


def test_a_transaction_ends_where_the_plugin_says(rig):
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", offset=1)
    session.frame(b"two", offset=2, signal="commit")
    session.frame(b"three", offset=3, signal="abort")
    session.frame(b"four", offset=4)
    wait_until(lambda: rig.task.run_once() and len(rig.kafka.appended) == 4)
    ends = [(count, signal) for (count, _), signal in zip(rig.kafka.committed, rig.kafka.signals, strict=True)]
    assert {(2, "commit"), (3, "abort"), (4, "continue")} <= set(ends)


def test_records_of_one_poll_are_committed_together(rig):
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", offset=1, more=True)
    assert rig.woken.wait(10)
    stepping = threading.Thread(target=rig.task.run_once)
    stepping.start()
    session.frame(b"two", offset=2)
    stepping.join(10)
    assert rig.kafka.committed == [(2, [({"p": 1}, {"n": 2})])]


def test_records_sent_before_a_failure_are_committed(rig):
    session = started(rig)
    session.frame(b"one", offset=1)
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    assert str(failure_of(rig)) == "x.Boom: no\nat y"
    assert rig.kafka.committed == [(1, [({"p": 1}, {"n": 1})])]


def test_a_poll_that_failed_in_the_middle_is_not_committed(rig):
    session = started(rig)
    session.frame(b"one", offset=1, more=True)
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    failure_of(rig)
    assert rig.kafka.committed == []
    assert rig.kafka.aborts == 1


def test_the_end_of_the_host_restarts_the_task(rig):
    session = started(rig)
    session.frame(b"one", offset=1)
    session.socket.close()
    wait_until(lambda: stepped(rig) and rig.kafka.aborts, what="the end to be seen")
    assert rig.task.restarting
    assert rig.kafka.committed == [(1, [({"p": 1}, {"n": 1})])], "what had come is kept"
    running = threading.Thread(target=lambda: wait_until(lambda: rig.task.run_once().idle_ms > 1000))
    running.start()
    session = rig.host.sessions.get(timeout=10)
    assert session.op() == "source"
    session.say("started")
    assert session.op() == "resume"
    running.join(10)
    assert not rig.task.restarting


def test_a_task_continues_with_the_committed_offsets_after_a_suspension(rig):
    started(rig)
    rig.kafka.suspended = True
    running = threading.Thread(target=lambda: wait_until(lambda: rig.task.run_once().idle_ms > 1000))
    running.start()
    session = rig.host.sessions.get(timeout=10)
    assert session.op() == "source"
    session.say("started")
    assert session.op() == "resume"
    running.join(10)
    assert rig.kafka.committed == []


def test_pause_and_resume_are_sent_once(rig):
    session = started(rig)
    rig.task.pause()
    assert session.op() == "pause"
    rig.task.run_once()
    session.frame(b"late", offset=1)
    wait_until(lambda: stepped(rig).records == 1, what="what was polled before the pause")
    assert session.op() == "acknowledge"
    rig.task.resume()
    rig.task.run_once()
    assert session.op() == "resume"


def test_a_stopped_task_commits_its_last_records(rig):
    session = started(rig)
    rig.kafka.final = False  # a transaction by time, which the end of the task ends
    closing = threading.Thread(target=rig.task.close)
    closing.start()
    assert session.op() == "stop"
    session.frame(b"last", offset=9)
    session.say("drained")
    assert session.read()[1] == {"op": "acknowledge", "frame": 1, "places": []}
    assert rig.kafka.committed == [(1, [({"p": 1}, {"n": 9})])]
    assert session.op() == "finish"
    session.say("stopped")
    closing.join(10)
    assert session.socket.recv(1) == b""


@pytest.mark.parametrize("end", ["stopped", "failed"])  # a stop that throws is no reason to fail the task
def test_a_task_commits_its_last_records_before_it_leaves_a_replaced_host(rig, end):
    first = started(rig)
    rig.woken.clear()
    first.frame(b"one", offset=1)
    first.say("retire")
    running = threading.Thread(target=lambda: wait_until(lambda: stepped(rig).idle_ms > 1000))
    running.start()
    while first.op() != "stop":  # the first frame may be acknowledged before
        pass
    first.frame(b"last", offset=2)
    first.say("drained")
    while first.op() != "finish":
        pass
    first.say(end, **{"class": "x.Boom", "message": "no", "trace": "at y"})
    second = rig.host.sessions.get(timeout=10)
    assert second.op() == "source"
    second.say("started")
    assert second.op() == "resume"
    running.join(10)
    assert rig.kafka.appended == [("t", b"one"), ("t", b"last")]
    assert rig.kafka.committed[-1] == (2, [({"p": 1}, {"n": 2})])
    assert rig.metrics.failures == rig.metrics.retries == 0


def test_a_task_that_does_not_end_is_abandoned(rig):
    session = started(rig)
    closing = threading.Thread(target=rig.task.close)
    closing.start()
    assert session.op() == "stop"
    session.frame(b"too late", offset=9)
    rig.task.cancel()
    closing.join(10)
    assert not closing.is_alive()
    assert rig.kafka.committed == []


def test_a_start_that_hangs_can_be_stopped(rig):
    seen = []

    def start():
        try:
            rig.task.start()
        except StartCancelledError as error:
            seen.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    session = rig.host.sessions.get(timeout=10)  # kept: where it is forgotten, its connection ends
    assert session.op() == "source"
    rig.task.stop_starting()
    thread.join(10)
    assert len(seen) == 1
