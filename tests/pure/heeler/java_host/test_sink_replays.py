"""Replays of a Java sink's dead letters, with a simulated host and executors, and a group and a topic in memory."""

from __future__ import annotations

import select
from types import SimpleNamespace

import pytest

from heeler.java_host import sink_replays
from spark_tasks.dead_letters.refusals import Refused
from spark_tasks.dead_letters.replay.letter_range import ReplayCounts
from spark_tasks.dead_letters.replay.replayed_offsets import ReplayedOffsets
from spark_tasks.errors import BusyError, ConfigError
from spark_tasks.sinks.replay_split import ReplayResult
from spark_tasks.spark.executor import failed_outcome
from tests.rigs.java_sink_tasks import TP, cut_batch, frame_meta, letter, received, sink_rig, started
from tests.rigs.support import wait_until

QUEUE = ("dead", 0)
TOLERANT = {"errors.tolerance": "all", "errors.deadletterqueue.context.headers.enable": "true"}


@pytest.fixture
def rig(monkeypatch):
    with sink_rig(monkeypatch, TOLERANT) as made:
        yield made


def steps(rig, until):
    """The task's steps until this is true; returns the result."""
    return wait_until(lambda: rig.task.run_once() and until())


def read(rig, *messages, upto=9, refused=0):
    """What an executor has read of the queue, up to an offset."""
    (batch,) = steps(rig, lambda: [one for one in rig.engine.batches if not one.done()])
    counts = ReplayCounts(upto, ReplayedOffsets(upto), scanned=upto, chosen=upto)
    batch.set_result([ReplayResult(counts, messages, Refused(refused))])


def opened(rig):
    """The session of the next instance of the task."""
    steps(rig, lambda: not rig.host.sessions.empty())
    session = rig.host.sessions.get_nowait()
    order = heard(rig, session)
    assert (order["op"], order["replay"], order["task"]) == ("sink", True, 1)
    return session


def replaying(rig, *messages, **more):
    """The session of a replay, and what it is told when its task has started."""
    if not hasattr(rig, "session"):
        rig.session = started(rig)
    rig.task.replay({})
    read(rig, *messages, **more)
    session = opened(rig)
    session.say("started")
    return session, heard(rig, session)


def awaited(rig, session):
    steps(rig, lambda: select.select([session.socket], [], [], 0)[0])


def heard(rig, session):
    awaited(rig, session)
    return session.read()[1]


def frame_of(rig, session):
    awaited(rig, session)
    return frame_meta(received(session))


def closed(rig, session):
    awaited(rig, session)
    return session.socket.recv(1) == b""


def state(rig):
    return rig.task.replay(None)


def runs(rig):
    return state(rig)["state"] == "RUNNING"


def over(rig):
    """The state of the replay when it has ended."""
    steps(rig, lambda: not runs(rig))
    return state(rig)


def test_another_instance_of_the_task_puts_the_records_and_the_group_gets_the_progress(rig):
    session, told = replaying(rig, (TP, [cut_batch(3, 5), cut_batch(4)]), (("t", 7), [cut_batch(2)]), refused=1)
    assert told == {"op": "open", "places": [["t", 0, 3]], "generation": -1, "member": ""}
    session.say("opened")
    assert frame_of(rig, session) == (0, 3, 6, 2)
    letter(session, 1, b"bad")
    assert heard(rig, session) == {"op": "letters", "number": 1}
    assert rig.group.letters == [("dead", b"bad")]
    session.say("done", written=2)
    assert heard(rig, session) == {"op": "commit"}
    session.say("commit", offsets=[["t", 0, 6, ""]])
    assert heard(rig, session) == {"op": "close", "lost": False}
    session.say("closed")
    assert heard(rig, session)["places"] == [["t", 0, 4], ["t", 7, 2]], "in another round, as its offset is behind"
    session.say("opened")
    assert [frame_of(rig, session) for _ in "12"] == [(0, 4, 5, 1), (7, 2, 3, 1)]
    session.say("done", written=1)
    session.say("done", written=1)
    assert heard(rig, session) == {"op": "commit"}
    session.say("commit", offsets=[["t", 0, 5, ""], ["t", 7, 3, ""]])
    assert heard(rig, session)["op"] == "close"
    assert rig.group.progress == {}
    session.say("closed")
    ended = over(rig)
    assert (ended["state"], ended["replayed"], ended["refused_again"]) == ("DONE", 9, 2)
    assert rig.group.progress == {QUEUE: 9}
    assert rig.group.commits == [], "what the instance would commit is not the task's position"
    assert heard(rig, session) == {"op": "stop"}
    session.say("stopped")
    assert closed(rig, session)


def test_the_next_replay_begins_when_the_former_instance_has_stopped(rig):
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    session.say("failed", **{"class": "E", "message": "thrown by put"})
    assert "thrown by put" in over(rig)["error"]
    assert closed(rig, session), "it is given up"
    assert rig.group.progress == {}
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    session.say("opened")
    frame_of(rig, session)
    session.say("commit", offsets=[["t", 0, 4, ""]])
    session.say("done", written=1)
    assert heard(rig, session)["op"] == "close"
    session.say("closed")
    assert over(rig)["state"] == "DONE"
    assert heard(rig, session) == {"op": "stop"}
    rig.group.queue_end = 12
    rig.task.replay({})
    read(rig, (TP, [cut_batch(8)]), upto=12)
    rig.task.run_once()
    assert rig.host.sessions.empty()
    session.say("stopped")
    opened(rig)


def test_records_that_the_sink_does_not_confirm_in_time_are_not_replayed(rig, monkeypatch):
    session, _ = replaying(rig, (TP, [cut_batch(3, 4)]), (("t", 1), [cut_batch(0)]))
    session.say("opened")
    assert [frame_of(rig, session)[0] for _ in "12"] == [0, 1]
    session.say("done", written=2)
    session.say("done", written=1)
    later = [0.0]
    monkeypatch.setattr(sink_replays, "time", SimpleNamespace(monotonic=lambda: later[0]))
    assert heard(rig, session) == {"op": "commit"}
    later[0] = 119.0
    session.say("commit", offsets=[["t", 0, 4, ""]])
    letter(session, 1, b"bad")
    assert heard(rig, session)["op"] == "letters", "so the offset has been heard of too"
    later[0] = 238.0
    rig.task.run_once()
    assert runs(rig), "some more are confirmed all the time"
    later[0] = 240.0
    rig.task.run_once()
    assert (state(rig)["state"], state(rig)["replayed"], rig.group.progress) == ("FAILED", 0, {})
    assert "has not confirmed within 120 s" in state(rig)["error"]


def test_a_sink_that_goes_to_another_offset_ends_the_replay(rig):
    session, _ = replaying(rig, (TP, [cut_batch(3, 4)]))
    session.say("at", places=[["t", 0, 900]])
    assert "keeps offsets itself: it wants to go to offset 900" in over(rig)["error"]


def test_a_host_that_is_replaced_gets_no_more_and_the_range_is_read_again(rig):
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    session.say("retire", why="full")
    assert closed(rig, session)
    assert runs(rig)
    read(rig, (TP, [cut_batch(3)]))
    opened(rig)


def test_the_end_of_the_host_ends_the_replay(rig):
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    session.socket.close()
    assert "HostGoneError" in over(rig)["error"]


def test_an_error_of_the_executor_ends_the_replay_without_an_instance(rig):
    rig.session = started(rig)
    rig.task.replay({})
    (batch,) = steps(rig, lambda: rig.engine.batches)
    failure = failed_outcome(ValueError("no such column"))
    batch.set_result([ReplayResult(ReplayCounts(0, ReplayedOffsets()), failure=failure)])
    assert "no such column" in over(rig)["error"]
    assert rig.host.sessions.empty()


def test_a_paused_task_suspends_a_replay(rig):
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    rig.task.pause()
    rig.woken.clear()
    session.say("opened")
    assert rig.woken.wait(10)
    rig.task.run_once()
    assert select.select([session.socket], [], [], 0)[0] == []
    rig.task.resume()
    assert frame_of(rig, session) == (0, 3, 4, 1)


def test_a_closed_task_ends_a_replay(rig):
    session, _ = replaying(rig, (TP, [cut_batch(3)]))
    rig.task.cancel()  # the simulated host does not stop its task
    rig.task.close()
    assert session.socket.recv(1) == b""


def test_a_sink_that_may_keep_offsets_itself_is_refused_unless_it_is_said_to_keep_none(rig):
    with pytest.raises(BusyError, match="not running in the Java plugin host"):
        rig.task.replay({})
    rig.session = started(rig, keeps=True)
    with pytest.raises(ConfigError, match="overrides open and preCommit"):
        rig.task.replay({"limit": 1})
    rig.task.replay({"keeps_no_offsets": True})
    assert runs(rig)
