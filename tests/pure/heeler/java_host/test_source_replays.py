"""Replays of a Java source's dead letters, with a simulated host, executors and Kafka."""

from __future__ import annotations

import threading
from types import MappingProxyType, SimpleNamespace

import pytest

from heeler.java_host import source_task
from spark_tasks.dead_letters import queue_topic
from spark_tasks.dead_letters.refusals import NONE_REFUSED, Refused
from spark_tasks.dead_letters.replay.letter_range import ReplayCounts
from spark_tasks.dead_letters.replay.replayed_offsets import ReplayedOffsets
from spark_tasks.errors import BusyError, RetriableError
from spark_tasks.host_frames import BATCH, HEAD
from spark_tasks.sources.java_replay_split import ConvertedRecords, HostRecords, JavaReplayResult, NewLetters
from tests.rigs.host_frames import packed
from tests.rigs.java_source_tasks import source_rig, started
from tests.rigs.raw_records import raw_batch
from tests.rigs.support import wait_until
from tests.rigs.waiting_engine import WaitingEngine

MORE = MappingProxyType({
    "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.context.headers.enable": "true"})
PROGRESS = ({"heeler.dead.letters": "dead", "partition": 0}, {"offset": 3})
ONE = HostRecords(((0, "zero"),))


@pytest.fixture
def rig(monkeypatch, request):
    monkeypatch.setattr(source_task, "STEP_S", 0.01)
    monkeypatch.setattr(queue_topic, "shared_cluster", lambda _: SimpleNamespace(partitions=lambda _: (0,)))
    engine = WaitingEngine()
    with source_rig(monkeypatch, {**MORE, **getattr(request, "param", {})}, engine) as made:
        made.engine = engine
        made.kafka.letters = 3
        made.session = started(made)
        yield made


def steps(rig, until):
    """The task's steps until this is true; returns the result."""
    return wait_until(lambda: rig.task.run_once() and until())


def read(rig, *parts, refused=NONE_REFUSED):
    """The result of the next split."""
    (batch,) = steps(rig, lambda: [one for one in rig.engine.batches if not one.done()])
    counts = ReplayCounts(3, ReplayedOffsets(3), scanned=3, chosen=3)
    batch.set_result([JavaReplayResult(counts, parts, refused)])


def opened(rig):
    """The session of the replay, after its order."""
    steps(rig, lambda: not rig.host.sessions.empty())
    session = rig.host.sessions.get_nowait()
    number, order = session.read()
    assert (number, order["op"], order["task"], order["letters"]["headers"]) == (0, "replay", 2, True)
    return session


def converted(session, number, *values, letters=()):
    """The host's response."""
    body = packed([("t" if row not in letters else "", -1, 5, None, value, []) for row, value in enumerate(values)],
                  letters=list(letters))
    session.socket.sendall(HEAD.pack(BATCH, number, len(body)) + body)


def ended(rig):
    steps(rig, lambda: rig.task.replay(None)["state"] != "RUNNING")
    return rig.task.replay(None)


def test_records_of_letters_are_converted_in_the_host_and_committed_with_the_progress(rig):
    assert rig.task.replay(None) is None
    rig.task.replay({})
    with pytest.raises(BusyError):
        rig.task.replay({})
    read(rig, HostRecords(((0, "zero"), (1, "one"))), ConvertedRecords("u", None, raw_batch([b"x"])),
         NewLetters(raw_batch([b"bad"])), refused=Refused(1))
    session = opened(rig)
    assert session.read()[1] == {"op": "convert", "number": 0, "records": [[0, "zero"], [1, "one"]]}
    rig.session.frame(b"own", offset=7)
    steps(rig, lambda: rig.kafka.committed == [(1, [({"p": 1}, {"n": 7})])])
    converted(session, 0, b"ZERO", b"again", letters=[1])
    state = ended(rig)
    assert (state["state"], state["replayed"], state["refused_again"]) == ("DONE", 3, 2)
    assert rig.kafka.appended == [("t", b"own"), ("t", b"ZERO"), ("dead", b"again"), ("u", b"x"), ("dead", b"bad")]
    assert rig.kafka.committed[1:] == [(5, [PROGRESS])]
    assert rig.metrics.letters == 2
    rig.task.run_once()
    assert session.socket.recv(1) == b"", "the replay's session ends with it"


def test_a_dry_run_appends_and_commits_nothing(rig):
    rig.task.replay({"dry_run": True})
    read(rig)
    assert ended(rig)["would_replay"] == 3
    assert (rig.kafka.appended, rig.kafka.committed) == ([], [])


def test_an_error_of_the_host_ends_the_replay_and_not_the_task(rig):
    rig.task.replay({})
    read(rig, ONE)
    session = opened(rig)
    fields = {"class": "x.Bad", "message": "no", "trace": "", "retriable": False, "permanent": False}
    session.say("failed", **fields)
    state = ended(rig)
    assert (state["state"], state["replayed"], "x.Bad" in state["error"]) == ("FAILED", 0, True)
    rig.session.frame(b"own", offset=7)
    steps(rig, lambda: rig.kafka.appended == [("t", b"own")])
    assert rig.kafka.aborts == 0, "nothing was appended"


@pytest.mark.parametrize("parts", [(), (ConvertedRecords("u", None, raw_batch([b"x"])),)])
def test_what_a_replay_has_appended_is_aborted_if_it_cannot_be_committed(rig, parts):
    commit, rig.kafka.commit = rig.kafka.commit, None

    def refuse(_offsets, _signal="commit"):
        rig.kafka.commit = commit
        raise RetriableError("the offsets topic is gone")

    rig.kafka.commit = refuse
    rig.task.replay({})
    read(rig, *parts)
    before = rig.kafka.recovered
    assert "the offsets topic is gone" in ended(rig)["error"]
    assert (rig.kafka.aborts, rig.kafka.committed) == (1, [])
    rig.session.frame(b"own", offset=7)
    steps(rig, lambda: rig.kafka.committed)
    assert rig.kafka.recovered == before + 1, "before the task appends anything else"


def test_records_that_wait_are_not_appended_to_what_a_failed_replay_has_given_up(rig):
    """They were discarded with the transaction, and their offsets committed later."""
    lanes, taken, before = rig.kafka.lanes, [], rig.kafka.recovered
    rig.kafka.lanes = lambda count: taken.append((rig.kafka.aborts, rig.kafka.recovered - before)) or lanes(count)
    rig.kafka.refused = {"u"}
    rig.task.replay({})
    read(rig, ConvertedRecords("u", None, raw_batch([b"x"])))
    rig.woken.clear()
    rig.session.frame(b"own", offset=7)
    assert rig.woken.wait(10), "it has been received"
    assert "no record for u" in ended(rig)["error"]
    steps(rig, lambda: rig.kafka.committed)
    assert rig.kafka.appended == [("t", b"own")]
    assert taken == [(0, 0), (1, 1)], "the replay's, and after the end of its transaction the task's"


@pytest.mark.parametrize("rig", [{"producer.max.block.ms": "1"}], indirect=True)
def test_a_replay_does_not_wait_without_end_for_a_topic_that_is_gone(rig):
    """The task's own records waited with it."""
    rig.kafka.missing = {"u"}
    rig.task.replay({})
    read(rig, ConvertedRecords("w", None, raw_batch([b"w"])), ConvertedRecords("u", None, raw_batch([b"x"])))
    state = ended(rig)
    assert (state["state"], "topic u" in state["error"], "max.block.ms" in state["error"]) == ("FAILED", True, True)
    rig.session.frame(b"own", offset=7)
    steps(rig, lambda: rig.kafka.appended == [("t", b"own")])


def test_a_replay_waits_for_a_topic_that_appears_in_time(rig):
    rig.kafka.missing = {"u"}
    rig.task.replay({})
    read(rig, ConvertedRecords("u", None, raw_batch([b"x"])))
    rig.task.run_once()
    rig.kafka.missing = set()
    assert ended(rig)["replayed"] == 3


def test_errors_are_reported_once(rig, caplog):
    """The report of the writer's said that the host's were not listed."""
    rig.task.replay({})
    read(rig, HostRecords(((0, "zero"), (1, "one"))), refused=Refused(1, ("the split's",), {"transform": 1}))
    session = opened(rig)
    converted(session, 0, b"ZERO", b"again", letters=[1])
    assert ended(rig)["refused_again"] == 2
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == ["the split's"]


@pytest.mark.parametrize("why", ["paused", "transaction"])
def test_a_replay_waits_while_the_task_is_paused_or_has_an_open_transaction(rig, why):
    rig.task.replay({})
    if why == "paused":
        rig.task.pause()
    rig.kafka.open = why == "transaction"
    for _ in range(3):
        rig.task.run_once()
    assert rig.engine.batches == []
    if why == "paused":
        rig.task.resume()
    rig.kafka.open = False
    read(rig, ConvertedRecords("u", None, raw_batch([b"x"])))
    assert ended(rig)["replayed"] == 3


def test_a_range_that_is_being_appended_is_committed_before_the_task_stops(rig):
    """The task's own records wait meanwhile."""
    rig.kafka.leads = False
    rig.task.replay({})
    read(rig, ConvertedRecords("u", None, raw_batch([b"x"])))
    steps(rig, rig.kafka.waits.is_set)
    rig.session.frame(b"own", offset=7)
    rig.task.run_once()
    assert rig.kafka.committed == []
    rig.kafka.leads = True
    closing = threading.Thread(target=rig.task.close)
    closing.start()
    while rig.session.op() != "stop":
        pass
    rig.session.say("drained")
    while rig.session.op() != "finish":
        pass
    rig.session.say("stopped")
    closing.join(10)
    assert rig.kafka.committed[0] == (1, [PROGRESS])
    assert rig.task.replay(None)["replayed"] == 3


def test_a_replay_continues_in_another_host(rig):
    rig.task.replay({})
    read(rig, ONE)
    session = opened(rig)
    session.say("retire")
    read(rig, ONE)
    assert session.socket.recv(1 << 16).endswith(b"}"), "the order"
    assert session.socket.recv(1) == b""
    successor = opened(rig)
    converted(successor, 0, b"ZERO")
    assert ended(rig)["replayed"] == 3
    assert rig.kafka.appended == [("t", b"ZERO")]


def test_frames_of_letters_are_not_collected_without_a_limit(rig, monkeypatch):
    """They counted as nothing until the commit."""
    monkeypatch.setattr(source_task, "STEP_S", 10)
    monkeypatch.setattr(source_task, "STEP_BYTES", 1)
    for number in (1, 2):
        rig.woken.clear()
        converted(rig.session, number, b"bad", letters=[0])
        assert rig.woken.wait(10), "it has been received"
    steps(rig, lambda: len(rig.kafka.appended) == 2)
    assert [count for count, _ in rig.kafka.committed] == [1, 2]


def test_plugins_do_not_see_the_progress(rig):
    rig.kafka.read = lambda: [PROGRESS, ({"of": "count"}, {"next": 1})]
    rig.session.say("offsets", -1)
    assert rig.session.read() == (-1, {"op": "answer", "pairs": [['{"of":"count"}', '{"next":1}']]})
