"""Heeler's part of a Java source's chain, in an engine at whose other end the test is."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import CancelledError
from types import MappingProxyType, SimpleNamespace

import pyarrow as pa
import pytest

from heeler.java_host import source_task
from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.dead_letters import queue_topic
from spark_tasks.dead_letters.refusals import NONE_REFUSED
from spark_tasks.host_frames import BATCH, HEAD
from spark_tasks.kafka.errors import UnknownTopicError
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.plugins.chain_cut import Cut
from spark_tasks.sources.java_source_split import JavaSourceResult
from tests.rigs.host_frames import packed
from tests.rigs.java_source_tasks import source_rig, started
from tests.rigs.raw_records import raw_batch
from tests.rigs.support import wait_until
from tests.rigs.waiting_engine import WaitingEngine


@pytest.fixture
def rig(monkeypatch):
    monkeypatch.setattr(source_task, "STEP_S", 0.01)
    engine = WaitingEngine()
    cut = Cut(converted=frozenset({"value"}))
    with source_rig(monkeypatch, MappingProxyType({"task.shutdown.graceful.timeout.ms": "300"}), engine, cut) as made:
        made.engine = engine
        yield made


def first_frame(session):
    body = packed([("t", -1, 5, None, b"1", [])], [['{"p":1}', '{"n":1}']], schemas=[(None, None)])
    session.socket.sendall(HEAD.pack(BATCH, 1, len(body)) + body)


def begun(rig):
    """The task's session, when the split of its first frame has been submitted."""
    session = rig.session = started(rig)  # kept: where it is forgotten, its connection ends
    first_frame(session)
    wait_until(lambda: rig.task.run_once() and rig.engine.batches)
    return session


def test_a_task_waits_for_a_split_over_several_steps(rig):
    """One step waited for it, however long other tasks' splits took: the task could not be paused or stopped."""
    session = begun(rig)
    assert rig.task.batch is rig.engine.batches[0]
    rig.task.pause()
    assert session.op() == "pause"
    assert rig.task.run_once().records == 0
    rig.engine.batches[0].set_result(of_one_record())
    wait_until(lambda: rig.task.run_once().records == 1)
    assert rig.kafka.appended == [("t", b"one")]
    assert len(rig.engine.batches) == 1


def of_one_record(*letters):
    """The result of a split with a record for topic t, and these letters."""
    raw = pa.RecordBatch.from_pylist([{"offset": 0, "timestamp": 5, "value": b"one"}], schema=RAW_SCHEMA)
    return [JavaSourceResult((("t", None, raw),), letters, NONE_REFUSED, SplitFigures(1, 1))]


def test_the_records_of_a_split_wait_for_the_partitions_of_their_topics_over_several_steps(rig):
    """One step waited for a minute. The split is not repeated."""
    begun(rig)
    rig.kafka.responds = False
    rig.engine.batches[0].set_result(of_one_record())
    for _ in range(3):
        assert rig.task.run_once().records == 0
    assert (rig.task.batch.running(), rig.metrics.retries) == (True, 0), "the watchdog sees that they wait"
    rig.kafka.responds = True
    wait_until(lambda: rig.task.run_once().records == 1)
    assert (rig.kafka.appended, len(rig.engine.batches)) == ([("t", b"one")], 1)


def test_what_a_split_has_made_of_its_records_is_kept_only_until_they_are_appended(rig):
    """An idle task would keep its last one."""
    begun(rig)
    result = of_one_record()
    kept = weakref.ref(result[0].records[0][2])
    rig.engine.batches[0].set_result(result)
    del result
    wait_until(lambda: rig.task.run_once().records == 1)
    rig.engine.batches.clear()
    gc.collect()
    assert kept() is None


def test_a_task_that_waits_for_a_split_can_be_stopped(rig):
    session = begun(rig)
    closing = threading.Thread(target=rig.task.close)
    closing.start()
    assert session.op() == "stop"
    session.leave()
    closing.join(10)
    assert not closing.is_alive()
    assert isinstance(rig.engine.batches[0].exception(0), CancelledError)
    assert rig.kafka.committed == []


@pytest.fixture
def looked(monkeypatch):
    """The names of the queues that were looked up. Each exists."""
    found = []
    cluster = SimpleNamespace(partitions=found.append, forget_leaders=lambda _: None)
    monkeypatch.setattr(queue_topic, "shared_cluster", lambda _: cluster)
    monkeypatch.setattr(source_task, "STEP_S", 0.01)
    return found


@pytest.fixture
def lettered(monkeypatch, looked):
    """As `rig`, with a dead letter queue."""
    engine = WaitingEngine()
    more = MappingProxyType({"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead",
                             "task.shutdown.graceful.timeout.ms": "300"})
    with source_rig(monkeypatch, more, engine, Cut(converted=frozenset({"value"}))) as made:
        made.engine = engine
        yield made


def test_a_dead_letter_queue_that_was_deleted_is_looked_up_again(lettered, looked):
    """It was not created again: the frame was repeated without end, where brokers create no topics."""
    begun(lettered)
    lettered.engine.batches[0].set_exception(UnknownTopicError("no dead"))
    wait_until(lambda: lettered.task.run_once() and len(lettered.engine.batches) == 2)
    assert looked == ["dead", "dead"]


def test_a_queue_that_was_deleted_before_letters_are_appended_is_looked_up_again(lettered, looked):
    begun(lettered)
    lettered.kafka.missing.add("dead")
    lettered.engine.batches[0].set_result(of_one_record(("dead", raw_batch([b"bad"]))))
    wait_until(lambda: lettered.task.run_once() and len(lettered.engine.batches) == 2)
    assert (looked, lettered.kafka.appended) == (["dead", "dead"], [])


def test_a_queue_that_was_deleted_is_looked_up_again_after_a_stop(lettered, looked):
    """The task continues in another host. Its first split there failed."""
    session = begun(lettered)
    lettered.woken.clear()
    session.say("retire")
    assert lettered.woken.wait(10)
    moving = threading.Thread(target=lettered.task.run_once)
    moving.start()
    assert session.op() == "stop"
    lettered.engine.batches[0].set_exception(UnknownTopicError("no dead"))
    assert session.op() == "stop"
    session.say("drained")
    session.say("stopped")
    successor = lettered.host.sessions.get(timeout=10)
    successor.say("started")
    moving.join(10)
    first_frame(successor)
    wait_until(lambda: lettered.task.run_once() and len(lettered.engine.batches) == 2)
    assert looked == ["dead", "dead"]
