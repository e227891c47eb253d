"""Frames from heeler's part of a Java sink's chain."""

from __future__ import annotations

import json
import struct
from concurrent.futures import CancelledError
from types import SimpleNamespace

import pyarrow as pa
import pytest

from heeler.java_host import cut_feed
from heeler.java_host.cut_feed import CutFeed
from spark_tasks.data.host_records import CUT_SCHEMA, described
from spark_tasks.errors import ConnectError, ToleranceExceededError
from spark_tasks.host_frames import HEAD
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sinks.split import SinkResult
from spark_tasks.spark.executor import failed_outcome
from tests.rigs.waiting_engine import WaitingEngine

TP = ("t", 0)


class Places:
    """Of one partition."""

    def __init__(self):
        self.offset, self.end = 0, 10
        self.lost, self.unread = [], []

    def out_of_reach(self, place):
        self.unread.append(place)

    def at(self):
        return {TP: self.offset}

    def advance(self, _place, offset):
        self.offset = offset

    def ranges(self, max_records):
        return [(TP, self.offset, min(self.end, self.offset + max_records))] if self.end > self.offset else []

    def held(self, _place, _start):
        return b""

    def out_of_range(self, *reported):
        self.lost.append(reported)


@pytest.fixture
def rig(monkeypatch):
    monkeypatch.setattr(cut_feed, "MAX_WAIT_S", 0.0)
    places, engine, woken, used = Places(), WaitingEngine(), [], []
    context = SimpleNamespace(engine=engine, id="c-0", wake=lambda: woken.append(True), metrics=TaskMetrics(),
                              topic_used=used.append)
    feed = CutFeed(places, context, b"job", tolerant=True)
    feed.open({TP: 0})
    return SimpleNamespace(feed=feed, places=places, engine=engine, woken=woken, used=used, metrics=context.metrics)


def batch(*offsets, value=b"1"):
    rows = [{"offset": n, "timestamp": n, "value": b"raw", "cut.topic": "u", "cut.timestamp": 1, "cut.value": value}
            for n in offsets]
    found = pa.RecordBatch.from_pylist(rows, schema=CUT_SCHEMA)
    return found.replace_schema_metadata(described(frozenset({"value"}), {"value": '{"type":"int8"}'}))


def answered(rig, *batches, to=10, **more):
    assert rig.feed.next() is None
    assert rig.feed.pending
    rig.engine.batches[-1].set_result([SinkResult("t", 0, to, 10, 100, messages=(list(batches),), **more)])
    assert rig.woken


def reported(frame):
    """What a frame says about itself, and the number of its records."""
    rows, size, sections, _ = struct.unpack_from("<iiii", frame, HEAD.size)
    at = HEAD.size + 16 + 8 * sections
    return json.loads(frame[at : at + size]), rows, sections


def ranges(rig):
    found = []
    while (frame := rig.feed.next()) is not None:
        meta, rows, _ = reported(frame)
        found.append((meta["from"], meta["to"], meta["reset"], rows))
        if rig.places.offset >= rig.places.end:
            break
    return found


def test_frames_cover_dropped_records(rig):
    answered(rig, batch(0, 3), batch(5))
    meta, rows, sections = reported(rig.feed.next())
    assert (rows, sections) == (2, 32)
    assert meta == {"topic": "t", "partition": 0, "from": 0, "to": 4, "reset": False, "cut": {
        "topics": ["u"], "key": {"json": False, "schema": None}, "value": {"json": True, "schema": '{"type":"int8"}'}}}
    assert ranges(rig) == [(4, 10, False, 1)]
    assert (rig.places.offset, rig.used, list(rig.feed.given)[-1][0]) == (10, ["t", "t"], 1)
    assert rig.metrics.records["read"] == 7, "the others are counted when the host is done with them"
    assert rig.feed.next() is None
    assert not rig.feed.pending


def test_a_frame_covers_a_range_without_records(rig):
    answered(rig)
    assert ranges(rig) == [(0, 10, False, 0)]
    assert rig.used == []


def test_records_made_from_one_record_stay_together(rig, monkeypatch):
    monkeypatch.setattr(cut_feed, "FRAME_BYTES", 1)
    answered(rig, batch(0, 1, 1, 1, 2))
    assert ranges(rig) == [(0, 1, False, 1), (1, 2, False, 3), (2, 10, False, 1)]


def test_after_a_rewind_records_not_sent_are_read_again(rig, monkeypatch):
    monkeypatch.setattr(cut_feed, "FRAME_BYTES", 1)
    answered(rig, batch(0, 1, 2))
    rig.feed.next()
    rig.feed.move([(TP, 0)])
    assert rig.feed.next() is None
    assert rig.engine.splits[-1].start == 0
    rig.feed.move([(TP, -1)])
    assert rig.engine.batches[-1].cancelled()
    assert rig.feed.next() is None
    assert not rig.feed.pending, "it is held"


def test_a_bad_record_that_is_not_tolerated_fails_the_task_and_nothing_is_sent(rig):
    failure = failed_outcome(ToleranceExceededError("no"))
    answered(rig, batch(0), failure=failure)
    with pytest.raises(ToleranceExceededError, match="no"):
        rig.feed.next()
    assert rig.places.offset == 0
    assert not rig.feed.pending


def test_a_range_that_is_not_in_the_log_is_reported(rig):
    answered(rig, out_of_range=(20, 30))
    assert rig.feed.next() is None
    assert rig.places.lost == [("t", 0, 20, 30)]


def test_a_partition_that_cannot_be_read_does_not_delay_the_others(rig):
    assert rig.feed.next() is None
    away = SinkResult("t", 9, 0, failure=failed_outcome(KafkaUnavailableError("no leader")), out_of_reach=True)
    rig.engine.batches[-1].set_result([away, SinkResult("t", 0, 10, 10, 100, messages=([batch(3)],))])
    assert ranges(rig) == [(0, 10, False, 1)]
    assert rig.places.unread == [("t", 9)]


def test_a_batch_that_fails_or_is_cancelled_is_forgotten(rig):
    for error, wanted in ((ConnectError("lost"), "lost"), (CancelledError(), "was cancelled")):
        rig.feed.next()
        rig.engine.batches[-1].set_exception(error)
        with pytest.raises(ConnectError, match=wanted):
            rig.feed.next()
        assert not rig.feed.pending
