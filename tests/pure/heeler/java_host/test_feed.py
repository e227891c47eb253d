"""The frames of a Java sink's records, while some partitions cannot be read."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace

import pyarrow as pa

from heeler.java_host import feed
from heeler.java_host.feed import Feed
from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.host_frames import HEAD
from spark_tasks.kafka.errors import KafkaUnavailableError, UnknownTopicError
from spark_tasks.kafka.watcher import EndWatcher
from spark_tasks.sinks.positions import Positions

DEAD = [("t", n) for n in range(1, 6)]
HEALTHY = [("t", 0), ("t", 6)]
NOTHING = pa.RecordBatch.from_pylist([], schema=RAW_SCHEMA)


class Log:
    """The topic t, whose partitions have ten records each, except those that are `lost`, or whose broker is `slow`."""

    def __init__(self, lost=(), slow=()):
        self.lost, self.slow = set(lost), set(slow)
        self.reads = []
        self.io = SimpleNamespace(start=lambda *_: None)

    def offsets_by_now(self, wanted, *_, **__):
        return {place: 10 for place in wanted if place not in self.lost}

    def offsets(self, *_, **__):
        raise KafkaUnavailableError("no leader")

    def forget_leaders(self, _topic): ...

    def known_leader(self, *place):
        return None if place in self.lost else 2 if place in self.slow else 1

    def read_range(self, _cluster, topic, partition, start, end, **_):
        place = topic, partition
        self.reads.append(place)
        if place in self.lost:
            yield NOTHING
            raise (UnknownTopicError if partition % 2 else KafkaUnavailableError)(f"{place}")
        while place in self.slow:
            yield NOTHING
        rows = [{"offset": n, "timestamp": n, "value": b"%d" % n} for n in range(start, end)]
        yield pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)


def fed(monkeypatch, log):
    """A feed at the beginning of all partitions, whose ends are known."""
    monkeypatch.setattr(feed, "read_range", log.read_range)
    monkeypatch.setattr(feed, "shared_cluster", lambda _: log)
    places = frozenset([*DEAD, *HEALTHY])
    positions = Positions(EndWatcher(log), "read_uncommitted", "earliest", None)
    positions.assign(places, lambda wanted: dict.fromkeys(wanted, 0))
    lost, log.lost = log.lost, set()
    positions.ranges(1)
    log.lost = lost
    made = Feed(positions, {}, "read_uncommitted", 0, lambda _: None)
    made.open(positions.at())
    return made


def passed(found):
    """The partitions and ranges of the frames up to the first time that there is none, or an error."""
    frames = []
    try:
        while (frame := found.next()) is not None:
            _, size, sections, _ = struct.unpack_from("<iiii", frame, HEAD.size)
            at = HEAD.size + 16 + 8 * sections
            meta = json.loads(frame[at : at + size])
            frames.append(((meta["topic"], meta["partition"]), meta["from"], meta["to"]))
    except (KafkaUnavailableError, UnknownTopicError):
        frames.append("error")
    return frames


def test_partitions_that_cannot_be_read_delay_the_others_once(monkeypatch):
    """Each of them did, for five seconds, one after the other."""
    log = Log(lost=DEAD)
    found = fed(monkeypatch, log)
    seen = []
    while len(seen) < 3:
        seen += passed(found)
    assert sorted(one for one in seen if one != "error") == [(place, 0, 10) for place in HEALTHY]
    while found.pending:
        passed(found)
    assert passed(found) == []
    assert [place for place in log.reads if place in DEAD] == DEAD[:4], "the last one is not read before it responds"


def test_a_broker_that_does_not_respond_delays_no_partitions_of_others(monkeypatch):
    """The task waited for each of its partitions, and could not be stopped meanwhile."""
    log = Log(slow=DEAD)
    found = fed(monkeypatch, log)
    seen = passed(found)
    assert seen == [(place, 0, 10) for place in HEALTHY]
    assert found.pending
    assert passed(found) == []
    assert [place for place in log.reads if place in DEAD] == DEAD[:1], "it responds to one request after the other"
    log.slow.clear()
    while found.pending:
        seen += passed(found)
    seen += passed(found)
    assert sorted(seen) == [(("t", n), 0, 10) for n in range(7)]
    assert not found.pending


def test_a_read_that_waits_is_given_up_when_the_plugin_moves(monkeypatch):
    log = Log(slow=DEAD[:1])
    found = fed(monkeypatch, log)
    passed(found)
    assert found.pending
    found.move([(DEAD[0], 7)])
    assert not found.pending
    log.slow.clear()
    assert (DEAD[0], 7, 10) in passed(found)


def test_partitions_of_a_slow_broker_take_turns(monkeypatch):
    """The first one, which always had new records, was read again and again, and the others never."""
    log = Log()
    places = dict.fromkeys([("t", 0), ("t", 1), ("t", 2)], 0)
    endless = SimpleNamespace(
        ranges=lambda _: [(place, at, at + 5) for place, at in places.items()],
        advance=places.__setitem__, held=lambda *_: 0,
    )  # fmt: skip
    monkeypatch.setattr(feed, "shared_cluster", lambda _: log)
    found = Feed(endless, {}, "read_uncommitted", 0, lambda _: None)

    def read_late(_cluster, _topic, _partition, start, end, **_):
        yield NOTHING
        rows = [{"offset": n, "timestamp": n, "value": b"%d" % n} for n in range(start, end)]
        yield pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)

    monkeypatch.setattr(feed, "read_range", read_late)
    for _ in range(30):
        found.next()
    assert min(places.values()) > 0, places
