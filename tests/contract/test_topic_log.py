"""What every TopicLog and PrivilegedWriter must do."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from storage.errors import PrivilegedWriteError
from storage.log.interface import TopicLog
from storage.log.record import LogRecord, Position
from tests.contract.conftest import Logs

WAIT = 20


class Reader:
    """Collects what a log delivers."""

    def __init__(self, log: TopicLog) -> None:
        self.log = log
        self.records: list[LogRecord] = []
        self.errors: list[Exception] = []
        self.started = log.start(self.records.extend, self.errors.append)

    def pairs(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in self.records]


def test_reading_an_empty_topic_ends_at_once(logs: Logs) -> None:
    reader = Reader(logs.log())
    assert reader.started.result(WAIT) is None
    assert reader.log.read_to_end().result(WAIT) is None
    assert reader.records == []


def test_start_completes_after_all_existing_records_are_read(logs: Logs) -> None:
    first = Reader(logs.log())
    first.started.result(WAIT)
    sent = [first.log.send(f"k{n}".encode(), f"v{n}".encode()) for n in range(500)]
    assert [f.result(WAIT) for f in sent] == [Position(0, n) for n in range(500)]
    second = Reader(logs.log())
    second.started.result(WAIT)
    assert second.pairs() == [(f"k{n}".encode(), f"v{n}".encode()) for n in range(500)]
    assert [r.offset for r in second.records] == list(range(500))


def test_a_record_is_delivered_before_read_past_completes(logs: Logs) -> None:
    reader, other = Reader(logs.log()), Reader(logs.log())
    reader.started.result(WAIT)
    other.started.result(WAIT)
    seen: list[int] = []
    for n in range(20):
        at = reader.log.send(b"key", b"%d" % n).result(WAIT)
        reader.log.read_past([at]).add_done_callback(lambda _: seen.append(len(reader.records)))
        reader.log.read_past([at]).result(WAIT)
    assert seen == list(range(1, 21))
    other.log.read_to_end().result(WAIT)
    assert other.pairs() == reader.pairs()


def test_tombstones_and_bytes_survive(logs: Logs) -> None:
    reader = Reader(logs.log())
    reader.started.result(WAIT)
    pairs = [(b"a", b""), (b"a", None), ("ключ".encode(), bytes(range(256))), (b"b", b"x" * 500_000)]
    reader.log.read_past([reader.log.send(k, v).result(WAIT) for k, v in pairs]).result(WAIT)
    assert reader.pairs() == pairs


def test_records_sent_by_several_threads_are_all_read(logs: Logs) -> None:
    reader = Reader(logs.log())
    reader.started.result(WAIT)

    def send(name: int) -> None:
        for n in range(50):
            reader.log.send(b"%d" % name, b"%d" % n)

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader.log.send(b"last", None).result(WAIT)
    reader.log.read_to_end().result(WAIT)
    for name in range(4):
        assert [r.value for r in reader.records if r.key == b"%d" % name] == [b"%d" % n for n in range(50)]
    assert [r.offset for r in reader.records] == list(range(201))


def test_read_to_end_can_include_all_records_sent_before_it(logs: Logs) -> None:
    reader = Reader(logs.log())
    reader.started.result(WAIT)
    pairs = [(b"%d" % number, b"x" * 1000) for number in range(3000)]
    for key, value in pairs:
        reader.log.send(key, value)
    reader.log.read_to_end(own=True).result(WAIT)
    assert reader.pairs() == pairs


def test_stop_cancels_waiting_readers_and_ends_delivery(logs: Logs) -> None:
    reader, writer = Reader(logs.log()), Reader(logs.log())
    reader.started.result(WAIT)
    writer.started.result(WAIT)
    waiting = reader.log.read_past([Position(0, 7)])
    reader.log.stop()
    with pytest.raises(CancelledError):
        waiting.result(WAIT)
    with pytest.raises(CancelledError):
        reader.log.read_past([Position(0, 7)]).result(WAIT)
    writer.log.read_past([writer.log.send(b"k", b"v").result(WAIT)]).result(WAIT)
    assert reader.records == []
    reader.log.stop()


def test_privileged_writes_need_a_claim_and_are_read_back(logs: Logs) -> None:
    reader, writer = Reader(logs.log()), logs.writer()
    reader.started.result(WAIT)
    with pytest.raises(PrivilegedWriteError, match="without claiming write privileges first"):
        writer.write([(b"k", b"v")]).result(WAIT)
    writer.claim().result(WAIT)
    writer.claim().result(WAIT)
    pairs = [(b"a", b"1"), (b"b", None), (b"a", b"2")]
    reader.log.read_past(writer.write(pairs).result(WAIT)).result(WAIT)
    assert reader.pairs() == pairs
    reader.log.read_past(writer.write([(b"c", b"3")]).result(WAIT)).result(WAIT)
    reader.log.read_to_end().result(WAIT)  # the end is behind the transaction's marker
    assert reader.pairs() == [*pairs, (b"c", b"3")]


def test_a_new_leader_fences_the_old_one(logs: Logs) -> None:
    reader, old, new = Reader(logs.log()), logs.writer(), logs.writer()
    reader.started.result(WAIT)
    old.claim().result(WAIT)
    old.write([(b"old", b"1")]).result(WAIT)
    new.claim().result(WAIT)
    with pytest.raises(PrivilegedWriteError, match="fencable send"):
        old.write([(b"old", b"2")]).result(WAIT)
    with pytest.raises(PrivilegedWriteError, match="claim"):
        old.write([(b"old", b"3")]).result(WAIT)
    new.write([(b"new", b"1")]).result(WAIT)
    old.claim().result(WAIT)
    old.write([(b"old", b"4")]).result(WAIT)
    reader.log.read_to_end().result(WAIT)
    assert reader.pairs() == [(b"old", b"1"), (b"new", b"1"), (b"old", b"4")]
