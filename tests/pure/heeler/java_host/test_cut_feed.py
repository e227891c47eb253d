"""Frames from heeler's part of a Java sink's chain."""

from __future__ import annotations

import json
import struct
from concurrent.futures import CancelledError
from types import SimpleNamespace

import pyarrow as pa
import pytest

from heeler.java_host import cut_feed, pieces
from heeler.java_host.cut_feed import CutFeed
from spark_tasks.data.host_records import CUT_SCHEMA, described
from spark_tasks.errors import ConnectError, ToleranceExceededError
from spark_tasks.host_frames import HEAD
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sinks.split import SinkResult
from spark_tasks.spark.executor import failed_outcome
from tests.rigs.waiting_engine import WaitingEngine

TP, OTHER = ("t", 0), ("t", 1)


class Places:
    """Of one partition, unless a test adds another."""

    def __init__(self):
        self.offsets, self.end = {TP: 0}, 10
        self.lost, self.unread = [], []

    @property
    def offset(self):
        return self.offsets[TP]

    def out_of_reach(self, place):
        self.unread.append(place)

    def at(self):
        return dict(self.offsets)

    def advance(self, place, offset):
        self.offsets[place] = offset

    def ranges(self, max_records):
        return [(place, at, min(self.end, at + max_records)) for place, at in self.offsets.items() if self.end > at]

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
    monkeypatch.setattr(pieces, "FRAME_BYTES", 1)
    answered(rig, batch(0, 1, 1, 1, 2))
    assert ranges(rig) == [(0, 1, False, 1), (1, 2, False, 3), (2, 10, False, 1)]


def test_after_a_rewind_records_not_sent_are_read_again(rig, monkeypatch):
    monkeypatch.setattr(pieces, "FRAME_BYTES", 1)
    answered(rig, batch(0, 1, 2))
    rig.feed.next()
    rig.feed.move([(TP, 0)])
    assert rig.feed.next() is None
    assert rig.engine.splits[-1].start == 0
    rig.feed.move([(TP, -1)])
    rig.engine.batches[-1].set_result([SinkResult("t", 0, 10, 10, 100, messages=([batch(0)],))])
    assert rig.feed.next() is None
    assert not rig.feed.pending, "it is held"


@pytest.fixture
def two(rig):
    """With a second partition; both are being read."""
    rig.places.offsets[OTHER] = 0
    rig.feed.open({TP: 0, OTHER: 0})
    assert rig.feed.next() is None
    return rig


def both(rig, *offsets, **more):
    rig.engine.batches[-1].set_result([SinkResult("t", 0, 10, 10, 100, messages=([batch(*offsets)],), **more),
                                       SinkResult("t", 1, 10, 10, 100, messages=([batch(4)],))])


def given(rig):
    meta, *_ = reported(rig.feed.next())
    return meta["partition"], meta["from"], meta["to"]


@pytest.mark.parametrize("to", [-1, 0])
def test_what_was_read_of_partitions_that_have_not_moved_is_not_read_again(two, monkeypatch, to):
    """Its bad records became dead letters again whenever the plugin paused, resumed or rewound another partition."""
    monkeypatch.setattr(pieces, "FRAME_BYTES", 1)
    both(two, 0, 1, 2)
    assert given(two) == (0, 0, 1)
    two.feed.move([(TP, to)])
    assert given(two) == (1, 0, 10)
    assert len(two.engine.splits) == 2


def test_a_batch_continues_for_the_partitions_that_have_not_moved(two):
    two.feed.move([(TP, -1)])
    both(two, 0, failure=failed_outcome(ToleranceExceededError("no")))
    assert given(two) == (1, 0, 10)
    assert two.feed.next() is None
    assert len(two.engine.splits) == 2, "the other one is held"
    two.feed.move([(TP, 0)])
    assert two.feed.next() is None
    assert [(split.partition, split.start) for split in two.engine.splits[2:]] == [(0, 0)]


def test_a_partition_that_resumes_where_it_was_is_not_read_again(two):
    two.feed.move([(TP, -1)])
    two.feed.move([(TP, 0)])
    both(two, 3)
    assert given(two) == (0, 0, 10)
    two.feed.move([(OTHER, 0)])
    assert given(two) == (1, 0, 10)
    assert len(two.engine.splits) == 2


def test_new_partitions_cancel_the_batch(rig):
    assert rig.feed.next() is None
    rig.feed.open({TP: 0})
    assert isinstance(rig.engine.batches[-1].exception(0), CancelledError)


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
