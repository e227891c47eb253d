"""How the frames of a Java source's task are appended."""

from __future__ import annotations

import base64
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from heeler.java_host import frame_writer
from heeler.java_host.frame_writer import FrameWriter
from heeler.java_host.time_budget import TimeBudget
from heeler.java_host.topic_requests import TopicRequests
from spark_tasks.dead_letters import queue_writes
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import NONE_REFUSED
from spark_tasks.host_frames import REFUSED, Batch
from spark_tasks.kafka.errors import (
    KafkaAuthorizationError,
    KafkaUnavailableError,
    RecordRefusedError,
    UnknownTopicError,
)
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.metrics.task import SplitFigures, TaskMetrics
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.java_source_split import JavaSourceResult
from tests.rigs.raw_records import raw_batch
from tests.rigs.support import wait_until


@pytest.fixture
def appender(monkeypatch):
    """A broker that appends to partition 4 and refuses the value b"bad", whose answers come with `flushed`."""
    rig = SimpleNamespace(sequences={}, answers=[])

    def append(_topic, _partitions, raw, landed=None, on_refusal=None):
        bad = [row for row, value in enumerate(raw.column("value").to_pylist()) if value == b"bad"]
        rig.answers.append((np.delete(np.arange(len(raw)), bad), bad, landed, on_refusal))

    def flushed(_within_s, *, but_for=0):
        if but_for:
            return True
        for good, bad, landed, on_refusal in rig.answers:
            for row in bad:
                on_refusal(row, RecordRefusedError("no key", 87))
            landed(4, good, 10)
        rig.answers.clear()
        return True

    rig.append, rig.flushed, rig.close = append, flushed, lambda: None
    monkeypatch.setattr(frame_writer, "Appender", lambda *_, **__: rig)
    return rig


@pytest.mark.usefixtures("appender")
def test_records_that_a_broker_refuses_are_bad_ones_of_which_the_plugin_is_told():
    handling = ErrorHandling(connector="c", tolerant=True, log=True)
    cluster = SimpleNamespace(partitions=lambda *_, **__: range(5))
    writer = FrameWriter(cluster, {}, lambda: Lane(None), lambda _: None, None, handling, creation=None)
    raw = raw_batch([b"a", b"bad", b"c", b"bad"])
    frame = Batch(
        7, ("t", "u"), np.array([0, 0, 1, 1], np.int32), np.full(4, -1, np.int32), raw, (), False, True, None)
    assert writer.write(frame, TimeBudget(1))
    assert (writer.records, writer.refused.count) == (4, 0), "the broker has not answered yet"
    assert writer.flush(TimeBudget(1))
    assert (writer.records, writer.refused.count, writer.refused.by_phase) == (2, 2, {"write": 2})
    assert "org.apache.kafka.common.InvalidRecordException: no key" in writer.refused.lines[0]
    (positions,) = (one.to_json() for one in writer.positions)
    partitions = np.frombuffer(base64.b64decode(positions["partitions"]), np.int32)
    assert partitions.tolist() == [4, REFUSED, 4, REFUSED]


def test_a_letter_that_only_the_broker_finds_too_large_is_counted_and_fails_nothing(monkeypatch):
    """The split has counted it as written, as it does not write it."""
    letters = raw_batch([b"a", b"b"])
    appended = []

    class Appender:
        def __init__(self, *_, **__): ...

        def flushed(self, *_, **__):
            return True

        def append(self, topic, _partitions, raw, *, on_refusal):
            appended.append((topic, raw))
            on_refusal(1, RecordTooLargeError(1, 9, None, topic))

    monkeypatch.setattr(frame_writer, "Appender", Appender)
    cluster = SimpleNamespace(partitions=lambda *_, **__: range(5))
    taken = JavaSourceResult((), (("dead", letters),), NONE_REFUSED, SplitFigures())
    taking = SimpleNamespace(taken=lambda *_: taken, withdraw=lambda: None)
    writer = FrameWriter(cluster, {}, lambda: Lane(None), lambda _: None, taking,
                         ErrorHandling(tolerant=True, queue="dead"), creation=None)
    none = np.array([], np.int32)
    frame = Batch(1, (), none, none, letters.slice(0, 0), (), False, False, None, cut=SimpleNamespace())
    assert writer.write(frame, TimeBudget(1))
    assert appended == [("dead", letters)]
    metrics = TaskMetrics()
    metrics.refused({}, 0, 2, 0)
    writer.refused.report_to(metrics, skipped=True)
    assert (metrics.letters, metrics.lost_letters) == (1, 1)


def test_letters_of_the_host_and_of_records_that_a_broker_refuses_are_appended_to_the_queue(appender):
    """As for Python sources. Those of records that are refused follow with the flush."""
    appended = []
    append = appender.append
    appender.append = lambda topic, partitions, raw, landed=None, on_refusal=None: (
        appended.append((topic, raw.column("value").to_pylist())),
        append(topic, partitions, raw, landed or (lambda *_: None), on_refusal))
    cluster = SimpleNamespace(partitions=lambda *_, **__: range(5))
    handling = ErrorHandling(connector="c", tolerant=True, queue="dead", with_headers=True)
    writer = FrameWriter(cluster, {}, lambda: Lane(None), lambda _: None, None, handling, creation=None)
    zeros = np.zeros(2, np.int32)
    frame = Batch(1, ("t", ""), zeros, zeros - 1, raw_batch([b"a", b"bad"]), (), False, True, None,
                  letters=raw_batch([b"letter"]))
    assert writer.write(frame, TimeBudget(1))
    assert appended == [("t", [b"a", b"bad"]), ("dead", [b"letter"])]
    assert writer.letter_size == frame.letters.nbytes > 0
    appender.append = lambda topic, _partitions, raw, on_refusal=None: appended.append(  # noqa: ARG005
        (topic, [raw.column("value").to_pylist(), [h["key"] for h in raw.column("headers").to_pylist()[0]]]))
    assert writer.flush(TimeBudget(1))
    assert writer.flushed
    topic, (values, headers) = appended[2]
    assert (topic, values, headers[-1]) == ("dead", [b"bad"], "heeler.letter.produced")
    assert (writer.records, writer.refused.count, writer.refused.letters) == (1, 1, 2)


def test_the_letter_of_a_record_that_fails_the_task_is_written_apart(appender, monkeypatch):
    """The failure aborts the transaction, if there is one."""
    apart = []
    monkeypatch.setattr(queue_writes, "write_apart", lambda _, topic, raw, __: apart.append((topic, raw)))
    cluster = SimpleNamespace(partitions=lambda *_, **__: range(5))
    writer = FrameWriter(cluster, {}, lambda: Lane(None), lambda _: None, None, ErrorHandling(queue="dead"),
                         creation=None)
    none, letter = np.array([], np.int32), raw_batch([b"letter"])
    frame = Batch(1, (), none, none, letter.slice(0, 0), (), True, False, None, letters=letter)
    assert writer.write(frame, TimeBudget(1))
    assert apart == [("dead", letter)]
    assert appender.answers == []


class Topics:
    """A cluster with these errors in place of the partitions of topics. `asked`: whether to create which topic."""

    def __init__(self, **errors):
        self.errors, self.asked = errors, []

    def partitions(self, topic, *, create, timeout_ms):
        assert timeout_ms <= 1000
        self.asked.append((topic, create))
        if topic in self.errors:
            raise self.errors[topic]
        return range(5)


CREATES = SimpleNamespace(ensure=lambda _cluster, _topic: None)


def writer_of(
    cluster, *, taken=None, lane=Lane(None), brokers_create=True, creation=CREATES,  # noqa: B008 - it is immutable
):
    taking = None if taken is None else SimpleNamespace(taken=lambda *_: taken, withdraw=lambda: None)
    return FrameWriter(
        cluster, {}, lambda: lane, lambda _: None, taking, ErrorHandling(),
        creation=None if brokers_create else TopicRequests(creation, cluster))


def frame_of(*values, cut=None):
    zeros = np.zeros(len(values), np.int32)
    return Batch(1, ("t",), zeros, zeros, raw_batch(list(values)), (), False, False, None, cut)


@pytest.mark.parametrize("taken", [None, JavaSourceResult(
    (("t", None, raw_batch([b"a"])),), (), NONE_REFUSED, SplitFigures())])
@pytest.mark.parametrize(("error", "brokers_create", "written"), [
    (KafkaUnavailableError("away"), True, False), (KafkaUnavailableError("away"), False, False),
    (UnknownTopicError("no t"), True, False), (UnknownTopicError("no t"), False, True),
    (KafkaAuthorizationError("not for you"), True, True)])
def test_records_wait_for_topics_that_brokers_create_or_do_not_tell_of(
    appender, taken, error, brokers_create, written
):
    """Those of heeler's part of the chain were appended at once, which waits for a minute."""
    cluster = Topics(t=error)
    writer = writer_of(cluster, taken=taken, brokers_create=brokers_create)
    frame = frame_of(b"a", cut=None if taken is None else SimpleNamespace())
    assert writer.write(frame, TimeBudget(1)) == written
    assert (cluster.asked, bool(appender.answers)) == ([("t", brokers_create)], written)
    cluster.errors.clear()
    if not written:
        assert writer.write(frame, TimeBudget(1))


def test_a_topic_whose_creation_hangs_holds_the_task_no_longer_than_its_patience(appender):
    """The task could neither be paused nor stopped for minutes. It has one request, which goes on."""
    responds, asked = threading.Event(), []

    def ensure(_cluster, topic):
        asked.append(topic)
        responds.wait(60)

    writer = writer_of(Topics(t=UnknownTopicError("no t")), brokers_create=False,
                       creation=SimpleNamespace(ensure=ensure))
    for _ in range(3):
        assert not writer.write(frame_of(b"a"), TimeBudget(0.01))
    assert (asked, appender.answers) == (["t"], [])
    responds.set()
    wait_until(lambda: writer.write(frame_of(b"a"), TimeBudget(1)))
    assert len(appender.answers) == 1


@pytest.mark.usefixtures("appender")
def test_records_for_an_invalid_topic_are_bad_ones_and_create_no_topic():
    """The request to create it failed the task, although errors are tolerated."""
    created = []
    cluster = Topics(**{"bad name/": UnknownTopicError("no such topic")})
    creation = SimpleNamespace(ensure=lambda _cluster, topic: created.append(topic))
    writer = FrameWriter(
        cluster, {}, lambda: Lane(None), lambda _: None, None, ErrorHandling(tolerant=True),
        creation=TopicRequests(creation, cluster))
    assert writer.write(replace(frame_of(b"a"), topics=("bad name/",)), TimeBudget(1))
    assert (created, writer.refused.count) == ([], 1)


@pytest.mark.parametrize("brokers_create", [True, False])
def test_a_queue_that_does_not_exist_any_more_is_an_error_at_once(appender, brokers_create):
    """So the task looks it up and creates it, before it writes any of the records again."""
    taken = JavaSourceResult(
        (("t", None, raw_batch([b"a"])),), (("dead", raw_batch([b"b"])),), NONE_REFUSED, SplitFigures())
    cluster = Topics(dead=UnknownTopicError("no dead"))
    writer = writer_of(cluster, taken=taken, brokers_create=brokers_create)
    with pytest.raises(UnknownTopicError):
        writer.write(frame_of(b"a", cut=SimpleNamespace()), TimeBudget(1))
    assert (cluster.asked, appender.answers) == ([("t", brokers_create), ("dead", False)], [])


@pytest.mark.usefixtures("appender")
@pytest.mark.parametrize(("lane", "kept", "added"), [
    (Lane(None), 1, set()), (Lane(ProducerIdentity(7, 0)), 1, set()),
    (Lane(ProducerIdentity(7, 0, "id"), added=frozenset({("t", 0)})), 0, {("t", 0)})])
def test_only_frames_that_may_be_appended_again_are_kept(lane, kept, added):
    """A transaction can have many, and after its end the host begins with the committed offsets."""
    writer = writer_of(Topics(), lane=lane)
    assert writer.write(frame_of(b"a"), TimeBudget(1))
    assert (len(writer.frames), writer.added) == (kept, added)
