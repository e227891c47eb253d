"""The runner of a Java source task with a simulated host, and a Kafka writer in memory."""

from __future__ import annotations

import re
import select
import threading
from base64 import b64decode

import numpy as np
import pytest

from heeler.java_host import arrivals, source_task
from heeler.java_host.connection import JavaPluginError
from spark_tasks.errors import RetriableError, StartCancelledError
from spark_tasks.host_frames import BATCH, HEAD
from spark_tasks.kafka.errors import InvalidTopicError, KafkaUnavailableError
from spark_tasks.sources.boundaries import Boundary, BoundaryKind
from tests.rigs.host_frames import packed
from tests.rigs.host_sessions import failure_of, stepped
from tests.rigs.java_source_tasks import JSON, source_rig, started
from tests.rigs.support import wait_until


@pytest.fixture
def rig(monkeypatch, request):
    """A parameter: more of the worker's properties, and `errors.*` of the connector."""
    with source_rig(monkeypatch, getattr(request, "param", {})) as made:
        yield made


def with_offsets_refused(rig, attempts):
    """Returns the session after a frame whose offsets could not be written in so many attempts."""
    def refuse(_offsets, _signal):
        raise RetriableError("the offsets topic is gone")

    rig.kafka.commit = refuse
    session = started(rig)
    session.frame(b"one", offset=1)
    wait_until(lambda: rig.task.run_once() and rig.metrics.retries == attempts)
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
    with_offsets_refused(rig, 1)
    assert rig.metrics.commits == {"done": 0, "failed": 1, "skipped": 0}


@pytest.mark.parametrize("stops", [False, True])
def test_records_whose_offsets_cannot_be_written_are_not_appended_again(rig, stops):
    """As in Kafka Connect: they were, at each attempt, for as long as the offsets topic was not available."""
    commit = rig.kafka.commit

    session = with_offsets_refused(rig, 3)
    assert rig.kafka.appended == [("t", b"one")]
    rig.kafka.commit = commit
    if stops:
        closing = threading.Thread(target=rig.task.close)
        closing.start()
        assert session.op() == "stop"
        session.say("drained")
        assert session.read()[1] == {"op": "acknowledge", "frame": 1, "places": []}
        session.say("stopped")
        closing.join(10)
    else:
        wait_until(lambda: rig.task.run_once().records == 1)
        assert session.read()[1] == {"op": "acknowledge", "frame": 1, "places": []}
    assert rig.kafka.appended == [("t", b"one")]
    assert rig.kafka.committed == [(1, [({"p": 1}, {"n": 1})])]


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
    leaving = threading.Thread(target=session.leave)
    leaving.start()
    with pytest.raises(InvalidTopicError, match="'bad name/' is not a valid name of a topic"):
        wait_until(lambda: stepped(rig) is None)
    leaving.join(10)
    assert not leaving.is_alive(), "the plugin has stopped before the task is FAILED, as in Kafka Connect"
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
    assert stepped(rig).records == 0, "it does not wait for the rest, which may take long"
    session.frame(b"two", offset=2)
    wait_until(lambda: stepped(rig).records == 2)
    assert rig.kafka.committed == [(2, [({"p": 1}, {"n": 2})])]


def test_the_polls_before_one_that_takes_long_are_committed(rig):
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", offset=1)
    session.frame(b"two", offset=2, more=True)
    wait_until(lambda: stepped(rig).records == 1)
    assert rig.kafka.committed == [(1, [({"p": 1}, {"n": 1})])]
    session.frame(b"three", offset=3)
    wait_until(lambda: stepped(rig).records == 2)
    assert rig.kafka.committed[1:] == [(3, [({"p": 1}, {"n": 3})])]


def test_a_poll_that_is_too_large_to_be_kept_is_written_as_it_comes(rig, monkeypatch):
    """No step waits for its rest: the task could not be stopped meanwhile."""
    monkeypatch.setattr(arrivals, "KEPT_BYTES", 1)
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", offset=1, more=True)
    assert stepped(rig).records == 0
    rig.task.pause()
    assert session.op() == "pause"
    session.frame(b"two", offset=2)
    wait_until(lambda: stepped(rig).records == 2)
    assert rig.kafka.committed == [(2, [({"p": 1}, {"n": 2})])]


def test_a_transaction_that_is_due_does_not_have_the_task_spin_within_a_poll(rig, monkeypatch):
    """It cannot be committed before the rest has arrived."""
    monkeypatch.setattr(arrivals, "KEPT_BYTES", 1)
    session = started(rig)
    rig.woken.clear()
    rig.kafka.due_ms = 0.0
    assert rig.task.run_once().idle_ms == 1
    session.frame(b"one", offset=1, more=True)
    wait_until(lambda: stepped(rig).idle_ms > 1000)


def test_a_poll_whose_rest_does_not_arrive_is_an_open_batch(rig, monkeypatch):
    """So the watchdog reports a plugin's converter or transform that hangs in the middle of a large poll."""
    monkeypatch.setattr(arrivals, "KEPT_BYTES", 1)
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", offset=1, more=True)
    assert stepped(rig).records == 0
    assert not rig.task.batch.done()


def test_the_calls_of_a_plugin_whose_host_does_not_say_are_not_known(rig):
    """They were taken for none, so that a plugin that hangs was reported as recovered."""
    session = started(rig)
    session.socket.close()
    assert rig.task.plugin_calls() is None


def test_what_is_acknowledged_is_no_batch_in_flight(rig):
    """The watchdog reported it as stalled while offsets could not be written."""
    with_offsets_refused(rig, 1)
    assert rig.task.batch.done()


def test_records_wait_for_the_partitions_of_their_topics_over_several_steps(rig, monkeypatch):
    """One step waited for a minute, and failed then."""
    monkeypatch.setattr(source_task, "STEP_S", 0.01)
    rig.kafka.responds = False
    session = started(rig)
    session.frame(b"one", offset=1)
    assert rig.woken.wait(10)
    wait_until(lambda: rig.task.run_once().idle_ms == 0, what="a step that waits for Kafka")
    waiting = rig.task.batch
    assert waiting.running(), "the watchdog sees that it makes no progress"
    assert (rig.task.run_once().records, rig.metrics.retries) == (0, 0)
    assert rig.task.batch is waiting
    rig.kafka.responds = True
    wait_until(lambda: rig.task.run_once().records == 1)
    assert rig.kafka.appended == [("t", b"one")]
    assert rig.task.batch is None


@pytest.mark.parametrize("boundary", [None, Boundary(BoundaryKind.POLL)])
@pytest.mark.parametrize("rig", [{"task.shutdown.graceful.timeout.ms": "300"}], indirect=True)
def test_a_task_whose_records_wait_for_kafka_can_be_stopped(rig, monkeypatch, boundary):
    """It was abandoned: the step waited for Kafka, without limit."""
    monkeypatch.setattr(source_task, "STEP_S", 0.01)
    rig.kafka.boundary = boundary
    rig.kafka.leads = False
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", offset=1)
    wait_until(lambda: rig.task.run_once() and rig.kafka.waits.is_set())
    assert rig.task.batch.running(), "the watchdog sees that it makes no progress"
    closing = threading.Thread(target=rig.task.close)
    closing.start()
    assert session.op() == "stop"
    session.leave()
    closing.join(10)
    assert not closing.is_alive()
    assert (rig.kafka.committed, rig.kafka.aborts) == ([], 1)
    assert rig.task.batch is None


def test_records_that_waited_for_kafka_are_appended_once(rig, monkeypatch):
    monkeypatch.setattr(source_task, "STEP_S", 0.01)
    rig.kafka.leads = False
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", offset=1)
    wait_until(lambda: rig.task.run_once() and rig.kafka.waits.is_set())
    session.frame(b"two", offset=2)
    assert rig.task.run_once().records == 0
    rig.kafka.leads = True
    wait_until(lambda: rig.task.run_once() and len(rig.kafka.committed) == 2)
    assert rig.kafka.appended == [("t", b"one"), ("t", b"two")]


def test_records_sent_before_a_failure_are_committed(rig):
    session = started(rig)
    session.frame(b"one", offset=1)
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    assert str(failure_of(rig)) == "x.Boom: no\nat y"
    assert rig.kafka.committed == [(1, [({"p": 1}, {"n": 1})])]


def test_a_failure_is_known_if_the_host_ends_while_it_waits_behind_frames(rig, monkeypatch):
    """It was lost: the task was restarted in a new host, and again, as if the host had ended for no reason."""
    monkeypatch.setattr(source_task, "STEP_S", 0.01)
    rig.kafka.leads = False
    session = started(rig)
    session.frame(b"one", offset=1)
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    wait_until(lambda: rig.task.run_once() and rig.kafka.waits.is_set())
    session.socket.close()
    rig.kafka.leads = True
    with pytest.raises(JavaPluginError, match=r"x\.Boom: no"):
        wait_until(lambda: rig.task.run_once() is None)


@pytest.mark.parametrize(("boundary", "committed"), [(None, 1), (Boundary(BoundaryKind.POLL), 0)])
def test_a_poll_that_failed_in_the_middle_is_committed_only_without_transactions(rig, boundary, committed):
    """As in Kafka Connect: at least once, the records before the bad one are not repeated."""
    rig.kafka.boundary = boundary
    session = started(rig)
    session.frame(b"one", offset=1, more=True)
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    failure_of(rig)
    assert len(rig.kafka.committed) == committed
    assert rig.kafka.aborts == 1


def test_the_polls_before_one_that_failed_in_the_middle_are_committed(rig):
    rig.kafka.boundary = Boundary(BoundaryKind.POLL)
    session = started(rig)
    session.frame(b"one", offset=1)
    session.frame(b"two", offset=2, more=True)
    session.say("failed", **{"class": "x.Boom", "message": "no", "trace": "at y"})
    with pytest.raises(JavaPluginError):
        wait_until(lambda: rig.task.run_once() is None)
    assert rig.kafka.committed == [(1, [({"p": 1}, {"n": 1})])]


def test_a_poll_in_whose_middle_the_host_has_ended_is_not_committed(rig):
    session = started(rig)
    session.frame(b"one", offset=1, more=True)
    session.socket.close()
    wait_until(lambda: stepped(rig) and rig.kafka.aborts, what="the end to be seen")
    assert rig.kafka.committed == []


def test_a_poll_that_is_not_converted_at_a_stop_is_not_committed(rig):
    """The host sends the records that it has converted: the others may have the same offset."""
    session = started(rig)
    closing = threading.Thread(target=rig.task.close)
    closing.start()
    assert session.op() == "stop"
    session.frame(b"one", offset=1, more=True)
    session.say("drained")
    assert session.op() == "finish"
    session.say("stopped")
    closing.join(10)
    assert rig.kafka.committed == []
    assert rig.kafka.aborts == 1


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


@pytest.mark.parametrize("how", ["close", "retire"])
def test_a_stopped_task_commits_all_transactions_that_the_plugin_has_ended(rig, how):
    """Only the first was; then the next frame was taken for an answer, and the task failed."""
    session = started(rig)
    rig.woken.clear()
    if how == "retire":
        session.say("retire")
        assert rig.woken.wait(10)
    ending = threading.Thread(target=rig.task.close if how == "close" else rig.task.run_once)
    ending.start()
    assert session.op() == "stop"
    session.frame(b"one", offset=1, signal="commit")
    session.frame(b"two", offset=2, signal="commit")
    session.say("drained")
    while session.op() != "finish":
        pass
    session.say("stopped")
    if how == "retire":
        successor = rig.host.sessions.get(timeout=10)
        successor.say("started")
    ending.join(10)
    assert rig.kafka.committed == [(1, [({"p": 1}, {"n": 1})]), (2, [({"p": 1}, {"n": 2})])]
    assert rig.kafka.signals == ["commit", "commit"]


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


def test_a_task_that_waits_for_a_broker_is_abandoned(rig):
    rig.kafka.leads = False
    session = started(rig)
    rig.woken.clear()
    session.frame(b"one", offset=1)
    assert rig.woken.wait(10)
    seen = []

    def run():
        try:
            rig.task.run_once()
        except KafkaUnavailableError as error:
            seen.append(error)

    running = threading.Thread(target=run)
    running.start()
    assert rig.kafka.waits.wait(10)
    rig.task.cancel()
    running.join(5)
    assert (len(seen), rig.kafka.committed) == (1, [])


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
