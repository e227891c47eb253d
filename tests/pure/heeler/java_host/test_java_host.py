"""Java tasks whose host or Kafka fails, or that move to another host; the host is simulated."""

from __future__ import annotations

import threading

import pytest

from heeler.java_host.connection import JavaPluginError
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.sources.boundaries import Boundary, BoundaryKind
from tests.rigs.host_sessions import stepped
from tests.rigs.java_sink_tasks import sink_rig
from tests.rigs.java_sink_tasks import started as started_sink
from tests.rigs.java_source_tasks import Appender, Kafka, source_rig, started
from tests.rigs.support import wait_until


@pytest.fixture
def rig(monkeypatch):
    with source_rig(monkeypatch) as made:
        yield made


@pytest.fixture
def sink(monkeypatch):
    with sink_rig(monkeypatch) as made:
        yield made


def exits(session):
    session.say("failed", **{"class": "x.Exit", "message": "the plugin called System.exit", "trace": "at y"})
    session.socket.close()


def test_a_sink_whose_plugin_ends_its_jvm_fails_although_the_worker_is_just_sending(sink):
    """The worker only saw that it could not send; the task ran again, and ended the JVM of its neighbours again."""
    session = started_sink(sink)
    sink.group.end = 5
    sink.group.meanwhile = lambda: exits(session)
    with pytest.raises(JavaPluginError, match=r"the plugin called System\.exit"):
        sink.task.run_once()


def test_a_source_whose_plugin_ends_its_jvm_fails_although_the_worker_is_just_sending(rig, monkeypatch):
    session = started(rig)
    rig.woken.clear()
    commit = Kafka.commit

    def exiting(self, *arguments):
        exits(session)
        return commit(self, *arguments)

    monkeypatch.setattr(Kafka, "commit", exiting)
    session.frame(b"one", offset=1)
    with pytest.raises(JavaPluginError, match=r"the plugin called System\.exit"):
        wait_until(lambda: stepped(rig) is None)


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


def test_a_plugin_that_has_failed_is_not_told_to_stop(rig, monkeypatch):
    """Kafka is unavailable when what it has sent before is committed: the task tries again, and fails then."""
    session = started(rig)
    rig.woken.clear()
    errors, commit = [KafkaUnavailableError("no answer within 30 s")], Kafka.commit

    def commit_later(*arguments):
        if errors:
            raise errors.pop()
        return commit(*arguments)

    monkeypatch.setattr(Kafka, "commit", commit_later)
    session.frame(b"one", offset=1, more=True)
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    with pytest.raises(JavaPluginError):
        wait_until(lambda: rig.task.run_once() is None)
    assert (rig.metrics.retries, rig.kafka.appended) == (1, [("t", b"one")])
    assert rig.kafka.committed == [(1, [({"p": 1}, {"n": 1})])]
    assert session.socket.recv(1) == b""


def test_a_task_continues_with_the_committed_offsets_after_a_suspension(rig):
    first = started(rig)
    rig.kafka.suspended = True
    continues_in_a_new_session(rig, first)


def test_a_task_continues_with_the_committed_offsets_after_an_error_in_a_transaction(rig, monkeypatch):
    """The transaction may have records of earlier frames."""
    first = started(rig)
    rig.woken.clear()
    rig.kafka.boundary = Boundary(BoundaryKind.POLL)
    errors = [KafkaUnavailableError("no answer within 30 s")]

    def flushed(*_, **__):
        raise errors.pop()

    monkeypatch.setattr(Appender, "flushed", flushed)
    first.frame(b"one", offset=1)
    assert rig.woken.wait(10)
    continues_in_a_new_session(rig, first)
    assert errors == []


def continues_in_a_new_session(rig, first):
    """Which begins when the plugin has stopped: it may hold a port, or a replication slot."""
    running = threading.Thread(target=lambda: wait_until(lambda: rig.task.run_once().idle_ms > 1000))
    running.start()
    assert rig.host.sessions.empty()
    first.leave()
    session = rig.host.sessions.get(timeout=10)
    assert session.op() == "source"
    session.say("started")
    assert session.op() == "resume"
    running.join(10)
    assert rig.kafka.committed == []


@pytest.mark.parametrize("fails", ["flushed", "commit"])
def test_after_an_error_of_kafka_the_plugin_runs_on_and_its_records_are_appended_again(rig, monkeypatch, fails):
    """As in Kafka Connect. A second instance was started beside it, and what had been polled had to be polled again."""
    session = started(rig)
    rig.woken.clear()
    errors = [KafkaUnavailableError("no answer within 30 s")] * 2
    target = Appender if fails == "flushed" else Kafka
    works = getattr(target, fails)

    def fail(self, *arguments, **named):
        if errors and "but_for" not in named:
            raise errors.pop()
        return works(self, *arguments, **named)

    monkeypatch.setattr(target, fails, fail)
    session.frame(b"one", offset=1, wanted=True)
    session.frame(b"two", offset=2, wanted=True)
    wait_until(lambda: stepped(rig) and rig.metrics.retries, what="the first error")
    last = [({"p": 1}, {"n": 2})]
    wait_until(lambda: rig.task.run_once() and [o for _, o in rig.kafka.committed][-1:] == [last], what="the commit")
    assert rig.kafka.appended[-2:] == [("t", b"one"), ("t", b"two")]
    places = []
    while len(places) < 2:
        places += session.read()[1]["places"]
    assert [place["frame"] for place in places] == [1, 2]
    assert rig.host.sessions.empty()
    assert rig.metrics.records == {"read": 2, "write": 2}


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
