"""The runner of a Java sink task with a simulated host, and a group and a topic in memory."""

from __future__ import annotations

import threading

import pytest

from heeler.java_host import feed, sink_task
from heeler.java_host.feed import AHEAD, FRAME_RECORDS
from heeler.java_host.session import Session
from spark_tasks.host_frames import batch
from spark_tasks.kafka.errors import KafkaUnavailableError
from tests.rigs.host_frames import packed
from tests.rigs.host_sessions import failure_of, stepped
from tests.rigs.java_sink_tasks import TP, beside, frame, letter, opening, sink_rig, started
from tests.rigs.support import wait_until

MANY = 10_000  # events that one step must not take


@pytest.fixture
def rig(monkeypatch):
    with sink_rig(monkeypatch) as made:
        yield made


def test_records_are_sent_ahead_and_only_offsets_from_the_task_are_committed(rig):
    session = started(rig)
    rig.group.end = 10 * FRAME_RECORDS
    assert rig.task.run_once().records == AHEAD * FRAME_RECORDS
    ends = [(n * FRAME_RECORDS, (n + 1) * FRAME_RECORDS, False, FRAME_RECORDS) for n in range(5)]
    assert [frame(session) for _ in range(AHEAD)] == ends[:4]
    assert rig.group.commits == []
    rig.woken.clear()
    session.say("commit", offsets=[["t", 0, 9, "why"]])
    session.say("done", written=3)
    wait_until(lambda: stepped(rig).records == FRAME_RECORDS)
    assert frame(session) == ends[4]
    assert (rig.group.commits, rig.used) == ([(2, {TP: 9}, 0)], ["t"] * 5), "each frame tells: topics can be reset"
    assert rig.metrics.records == {"read": FRAME_RECORDS, "write": 3}
    assert rig.group.texts == {TP: "why"}


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


def test_partitions_are_opened_when_the_start_of_all_is_known(rig):
    """The plugin would not know a partition that gets its leader later, and the host would skip its records."""
    led, found = ("t", 1), {}
    rig.group.assignment = lambda: frozenset([TP, led])
    rig.group.done[TP] = 0
    rig.group.cluster.offsets_by_now = lambda *_, **__: dict(found)
    session = None

    def begin():
        nonlocal session
        session = rig.host.sessions.get(timeout=10)
        assert session.op() == "sink"
        session.say("started")

    beside(rig.task.start, begin)
    assert rig.task.run_once().idle_ms > 0
    assert rig.metrics.retries == 1
    found[led] = 3

    def opened():
        reported = session.read()[1]
        session.say("opened")
        return reported

    def goes_on():
        wait_until(lambda: rig.task.run_once() and rig.group.polls > 1)

    (reported,) = beside(goes_on, opened)
    assert (reported["op"], sorted(reported["places"])) == ("open", [["t", 0, 0], ["t", 1, 3]])


def test_a_partition_that_cannot_be_read_does_not_delay_the_others(rig, monkeypatch):
    session, lost, readable = started(rig), ("t", 1), feed.read_range

    def read_range(cluster, topic, partition, *more, **others):
        if partition == 1:
            raise KafkaUnavailableError("no leader")
        return readable(cluster, topic, partition, *more, **others)

    monkeypatch.setattr(feed, "read_range", read_range)
    rig.group.assignment = lambda: frozenset([TP, lost])
    rig.group.done |= {TP: 0, lost: 0}
    gone = []
    rig.group.lose = gone.append
    rig.group.joins.append(True)

    def again():
        assert session.op() == "close"
        session.say("closed")
        assert session.op() == "open"
        rig.group.end = 5
        session.say("opened")

    beside(rig.task.run_once, again)
    wait_until(lambda: stepped(rig) and gone)
    assert (frame(session), set(gone)) == ((0, 5, False, 5), {lost})


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
        session.say("commit", offsets=[["t", 0, 4, ""]])
        session.say("closed")
        reported.append(session.read()[1])
        session.say("opened")
        return reported

    ((closing, found),) = beside(rig.task.run_once, close_and_open)
    assert closing == {"op": "close", "lost": lost}
    assert found == opening(rig, 0 if lost else 4)
    assert [offsets for _, offsets, _ in rig.group.commits] == ([] if lost else [{TP: 4}])


def test_the_host_is_told_that_the_task_has_no_partitions_any_more(rig):
    """It forgets which of them the plugin had paused."""
    session = started(rig)
    rig.group.assignment = frozenset
    rig.group.joins.append(True)

    def close_and_open():
        assert session.op() == "close"
        session.say("closed")
        reported = session.read()[1]
        session.say("opened")
        return reported["op"], reported["places"]

    assert beside(rig.task.run_once, close_and_open) == [("open", [])]


def test_dead_letters_are_written_before_offsets_and_acknowledged(rig):
    session = started(rig)
    letter(session, 1, b"bad")
    session.say("commit", offsets=[["t", 0, 1, ""]])
    wait_until(lambda: stepped(rig) and rig.group.commits, what="the commit")
    assert rig.group.letters == [("dead", b"bad")]
    assert session.read()[1] == {"op": "letters", "number": 1}
    assert rig.group.commits == [(2, {TP: 1}, 1)]


@pytest.mark.parametrize("end", ["stop", "close"])
def test_dead_letters_that_come_last_are_written_before_the_last_offsets(rig, end):
    """They came together with the offsets while an earlier letter was being written, and were dropped."""
    session = started(rig)
    rig.group.joins += [True] if end == "close" else []

    def play():
        assert session.op() == end
        letter(session, 1, b"one")
        rig.group.writes.wait(10)
        letter(session, 2, b"two")
        session.say("commit", offsets=[["t", 0, 4, ""]])
        session.say("closed" if end == "close" else "stopped")
        rig.group.may_write.set()
        assert [session.read()[1] for _ in "12"] == [{"op": "letters", "number": number} for number in (1, 2)]
        if end == "close":
            assert session.op() == "open"
            session.say("opened")

    rig.group.may_write.clear()
    beside(rig.task.close if end == "stop" else rig.task.run_once, play)
    assert [(offsets, letters) for _, offsets, letters in rig.group.commits] == [({TP: 4}, 2)]


def test_the_letter_of_the_record_that_fails_the_task_is_written(rig):
    """As in Java, whatever errors.tolerance is: the host sends it and then fails."""
    session = started(rig)
    rig.woken.clear()
    letter(session, 1, b"bad")
    session.say("commit", offsets=[["t", 0, 1, ""]])
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    assert str(failure_of(rig)) == "x.Boom: no\nat y"
    assert rig.group.letters == [("dead", b"bad")]
    assert rig.group.commits == [(2, {TP: 1}, 1)]
    assert rig.metrics.letters == 1


def test_commits_wait_for_an_unavailable_kafka(rig):
    session = started(rig)
    rig.group.away = True
    rig.woken.clear()
    session.say("commit", offsets=[["t", 0, 1, ""]])
    assert stepped(rig).idle_ms > 0
    rig.group.away = False
    wait_until(lambda: rig.task.run_once() and rig.group.commits, what="the commit")
    assert rig.group.done == {TP: 1}


def test_an_exception_fails_the_task_after_its_last_commit(rig):
    session = started(rig)
    rig.woken.clear()
    session.say("commit", offsets=[["t", 0, 3, ""]])
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
        session.say("commit", offsets=[["t", 0, 4, ""]])
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
    for op, more in (("commit", {"offsets": [["t", 0, 3, ""]]}), ("retire", {})):
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


@pytest.mark.parametrize("what", ["letter", "tick"])
def test_events_without_an_end_do_not_keep_the_task_in_a_step(rig, monkeypatch, what):
    """A plugin may report bad records all the time. The task could not be stopped, and kept all letters."""
    session = started(rig)
    taken, value = [], bytes(1 << 19)
    reported = {"op": "tick"} if what == "tick" else batch(1, packed([("dead", -1, 5, None, value, [])]))

    def next_event(_session, *, wait):
        taken.append(wait)
        assert len(taken) < MANY
        return reported

    with monkeypatch.context() as patch:
        if what == "tick":
            patch.setattr(sink_task, "EVENTS_S", 0.0)
        patch.setattr(Session, "next", next_event)
        rig.task.run_once()
    assert rig.group.letters == [("dead", value)] * (0 if what == "tick" else 16)
    assert what == "tick" or session.op() == "letters"
