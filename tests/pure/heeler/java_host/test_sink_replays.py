"""Replays of a Java sink's dead letters, with a simulated host and executors, and a group and a topic in memory."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from heeler.java_host import sink_replays
from spark_tasks.dead_letters.refusals import Refused
from spark_tasks.dead_letters.replay_range import ReplayCounts
from spark_tasks.dead_letters.replayed_offsets import ReplayedOffsets
from spark_tasks.errors import BusyError, ConfigError
from spark_tasks.sinks.replay_split import ReplayResult
from spark_tasks.spark.executor import failed_outcome
from tests.rigs.host_sessions import stepped
from tests.rigs.java_sink_tasks import TP, cut_batch, frame_meta, letter, received, sink_rig, started
from tests.rigs.support import wait_until

QUEUE = ("dead", 0)
TOLERANT = {"errors.tolerance": "all", "errors.deadletterqueue.context.headers.enable": "true"}


@pytest.fixture
def rig(monkeypatch):
    with sink_rig(monkeypatch, TOLERANT) as made:
        yield made


def read(rig, *messages, upto=9, refused=0):
    """What an executor has read of the queue, up to an offset; the next session of the task."""
    wait_until(lambda: rig.task.run_once() and [one for one in rig.engine.batches if not one.done()])
    done = ReplayedOffsets(upto)
    counts = ReplayCounts(upto, done, scanned=upto, chosen=upto)
    rig.engine.batches[-1].set_result([ReplayResult(counts, messages, Refused(refused))])
    stepped(rig)


def replaying(rig, *messages, **more):
    """The session of a replay, with open partitions."""
    if not hasattr(rig, "session"):
        rig.session = started(rig)
    rig.task.replay({})
    read(rig, *messages, **more)
    session = rig.host.sessions.get(timeout=10)
    order = session.read()[1]
    assert (order["op"], order["replay"], order["task"]) == ("sink", True, 1)
    said(rig, session, "started")
    return session, session.read()[1]


def said(rig, session, op, **content):
    """What the task does with a message of the host."""
    rig.woken.clear()
    session.say(op, **content)
    stepped(rig)


def state(rig):
    return rig.task.replay(None)


def runs(rig):
    return state(rig)["state"] == "RUNNING"


def frame_of(session):
    return frame_meta(received(session))


def test_another_instance_of_the_task_puts_the_records_and_the_group_gets_the_progress(rig):
    session, opened = replaying(rig, (TP, [cut_batch(3, 5), cut_batch(4)]), (("t", 7), [cut_batch(2)]), refused=1)
    assert opened == {"op": "open", "places": [["t", 0, 3]], "generation": -1, "member": ""}
    said(rig, session, "opened")
    assert frame_of(session) == (0, 3, 6, 2)
    letter(session, 1, b"bad")
    said(rig, session, "done", written=2)
    assert session.read()[1] == {"op": "letters", "number": 1}
    assert session.op() == "commit"
    assert rig.group.letters == [("dead", b"bad")]
    said(rig, session, "commit", offsets=[["t", 0, 6, ""]])
    assert session.read()[1] == {"op": "close", "lost": False}
    said(rig, session, "closed")
    assert session.read()[1]["places"] == [["t", 0, 4], ["t", 7, 2]], "in another round, as its offset is behind"
    said(rig, session, "opened")
    assert [frame_of(session) for _ in "12"] == [(0, 4, 5, 1), (7, 2, 3, 1)]
    session.say("done", written=1)
    said(rig, session, "done", written=1)
    wait_until(lambda: rig.task.run_once() and session.op() == "commit")
    assert rig.group.progress == {}
    said(rig, session, "commit", offsets=[["t", 0, 5, ""], ["t", 7, 3, ""]])
    assert session.op() == "close"
    said(rig, session, "closed")
    assert rig.group.progress == {QUEUE: 9}
    assert rig.group.commits == [], "what the instance would commit is not the task's position"
    wait_until(lambda: rig.task.run_once() and not runs(rig))
    assert (state(rig)["state"], state(rig)["replayed"], state(rig)["refused_again"]) == ("DONE", 9, 2)
    stepped(rig)
    assert session.op() == "stop"
    said(rig, session, "stopped")
    assert session.socket.recv(1) == b""


def test_the_next_replay_begins_when_the_former_instance_has_stopped(rig):
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    said(rig, session, "failed", **{"class": "E", "message": "thrown by put"})
    assert (state(rig)["state"], "thrown by put" in state(rig)["error"]) == ("FAILED", True)
    assert session.socket.recv(1) == b"", "it is given up"
    assert rig.group.progress == {}
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    said(rig, session, "opened")
    assert frame_of(session)
    session.say("commit", offsets=[["t", 0, 4, ""]])
    said(rig, session, "done", written=1)
    wait_until(lambda: rig.task.run_once() and session.op() == "close")
    said(rig, session, "closed")
    wait_until(lambda: rig.task.run_once() and not runs(rig))
    stepped(rig)
    assert session.op() == "stop"
    rig.group.queue_end = 12
    rig.task.replay({})
    read(rig, (TP, [cut_batch(8)]), upto=12)
    assert rig.host.sessions.empty()
    said(rig, session, "stopped")
    assert rig.host.sessions.get(timeout=10).op() == "sink"


def test_records_that_the_sink_does_not_confirm_in_time_are_not_replayed(rig, monkeypatch):
    session, _ = replaying(rig, (TP, [cut_batch(3, 4)]))
    said(rig, session, "opened")
    assert frame_of(session)
    said(rig, session, "done", written=2)
    assert session.op() == "commit"
    later = [0.0]
    monkeypatch.setattr(sink_replays, "time", SimpleNamespace(monotonic=lambda: later[0]))
    said(rig, session, "commit", offsets=[["t", 0, 4, ""]])
    later[0] = 119.0
    rig.task.run_once()
    assert runs(rig)
    later[0] = 121.0
    rig.task.run_once()
    assert (state(rig)["state"], state(rig)["replayed"], rig.group.progress) == ("FAILED", 0, {})
    assert "has not confirmed within 120 s" in state(rig)["error"]


def test_a_sink_that_goes_to_another_offset_ends_the_replay(rig):
    session, _ = replaying(rig, (TP, [cut_batch(3, 4)]))
    said(rig, session, "at", places=[["t", 0, 900]])
    assert "keeps offsets itself: it wants to go to offset 900" in state(rig)["error"]


def test_a_host_that_is_replaced_gets_no_more_and_the_range_is_read_again(rig):
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    said(rig, session, "retire", why="full")
    assert session.socket.recv(1) == b""
    assert runs(rig)
    read(rig, (TP, [cut_batch(3)]))
    assert rig.host.sessions.get(timeout=10).op() == "sink"


def test_the_end_of_the_host_ends_the_replay(rig):
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    rig.woken.clear()
    session.socket.close()
    wait_until(lambda: rig.task.run_once() and state(rig)["state"] == "FAILED")
    assert "HostGoneError" in state(rig)["error"]


def test_an_error_of_the_executor_ends_the_replay_without_an_instance(rig):
    rig.session = started(rig)
    rig.task.replay({})
    wait_until(lambda: rig.task.run_once() and rig.engine.batches)
    counts = ReplayCounts(0, ReplayedOffsets())
    rig.engine.batches[-1].set_result([ReplayResult(counts, failure=failed_outcome(ValueError("no such column")))])
    stepped(rig)
    assert "no such column" in state(rig)["error"]
    assert rig.host.sessions.empty()


@pytest.mark.parametrize("how", ["pause", "close"])
def test_a_paused_task_suspends_a_replay_and_a_closed_one_ends_it(rig, how):
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    if how == "close":
        rig.task.cancel()  # the simulated host does not stop its task
        rig.task.close()
        assert session.socket.recv(1) == b""
        return
    rig.task.pause()
    said(rig, session, "opened")
    session.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        session.read()
    rig.task.resume()
    rig.task.run_once()
    session.socket.settimeout(10)
    assert frame_of(session) == (0, 3, 4, 1)


def test_a_sink_that_may_keep_offsets_itself_is_refused_unless_it_is_said_to_keep_none(rig):
    with pytest.raises(BusyError, match="not running in the Java plugin host"):
        rig.task.replay({})
    rig.session = started(rig, keeps=True)
    with pytest.raises(ConfigError, match="overrides open and preCommit"):
        rig.task.replay({"limit": 1})
    rig.task.replay({"keeps_no_offsets": True})
    assert runs(rig)
