"""kafka-python's records with ends of fetches: nothing is left out or added, and hostile batches are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from spark_tasks.kafka.consumer_records import EndMark, FetchedRecords
from spark_tasks.kafka.records.compression import compress

TP = TopicPartition("t", 3)
BYTES = st.none() | st.binary(max_size=12)
RECORDS = st.lists(
    st.tuples(st.integers(0, 10**6), BYTES, BYTES, st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)),
                                                            max_size=2)),
    min_size=1, max_size=5)
# records, codec (none, gzip), producer id, transactional, marker (None, abort, commit), offsets to leave out behind
BATCHES = st.lists(
    st.tuples(RECORDS, st.sampled_from([0, 1]), st.sampled_from([-1, 7, 8]), st.booleans(),
              st.sampled_from([None, None, 0, 1]), st.integers(0, 3)),
    max_size=6)


def batch(offset: int, records: Any, codec: int, producer: int, transactional: bool, marker: int | None) -> bytes:
    transactional = producer >= 0 and (transactional or marker is not None)
    made = DefaultRecordBatchBuilder(2, codec, transactional, producer, *(-1, -1) if producer < 0 else (0, 0), 1 << 20)
    if marker is not None:
        records = [(5, struct.pack(">hh", 0, marker), b"\0" * 6, [])]
    for n, (timestamp, key, value, headers) in enumerate(records):
        made.append(n, timestamp, key, value, headers)
    data = bytearray(made.build())
    if marker is not None:
        data[22] |= 0x20
        struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    struct.pack_into(">q", data, 0, offset)
    return bytes(data)


def log_of(batches: Any) -> tuple[bytes, list[SimpleNamespace]]:
    """The bytes of a fetch, and the aborted transactions that a broker would name."""
    data, aborted, offset, open_since = b"", [], 100, {}
    for records, codec, producer, transactional, marker, gap in batches:
        if producer >= 0 and marker is None and transactional:
            open_since.setdefault(producer, offset)
        if producer >= 0 and marker is not None:
            first = open_since.pop(producer, None)
            if marker == 0 and first is not None:
                aborted.append(SimpleNamespace(producer_id=producer, first_offset=first))
        data += batch(offset, records, codec, producer, transactional, marker if producer >= 0 else None)
        offset += (1 if marker is not None and producer >= 0 else len(records)) + gap
    return data, aborted


def read(
    kind: Callable[..., Any], data: bytes, aborted: list[SimpleNamespace], level: IsolationLevel, start: int
) -> tuple[Any, int]:
    records = kind(start, TP, MemoryRecords(data), isolation_level=level, aborted_transactions=aborted)
    found = records.take(10**6)
    records._maybe_raise_next_inline_exception()  # noqa: SLF001 - kafka-python's
    return found, records.next_fetch_offset


@given(BATCHES, st.sampled_from(list(IsolationLevel)), st.integers(0, 4))
def test_records_equal_those_that_kafka_python_reads(batches: Any, level: IsolationLevel, skip: int) -> None:
    data, aborted = log_of(batches)
    start = 100 + min(skip, len(batches[0][0]) - 1 if batches and batches[0][4] is None else 0)
    theirs, next_offset = read(Fetcher.PartitionRecords, data, aborted, level, start)
    ours, our_next = read(FetchedRecords, data, aborted, level, start)
    plain = [r for r in ours if not isinstance(r, EndMark)]
    assert theirs == plain
    assert our_next == next_offset
    # Whoever waits for the end of the fetch learns it from the last one.
    assert (ours[-1].offset + 1 if ours else start) == next_offset
    assert not any(isinstance(r, EndMark) for r in ours[:-1])


def compressed(offset: int, codec: int, content: bytes, packed: bytes | None = None) -> bytes:
    """A batch of one record whose records' bytes are these."""
    plain = batch(offset, [(5, None, content, [])], 0, -1, False, None)
    data = bytearray(plain[:61]) + (compress(codec, plain[61:]) if packed is None else packed)
    data[22] |= codec
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    return bytes(data)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_batches_that_exceed_the_decompression_limit_are_skipped(
    codec: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_tasks.kafka.consumer_records.MAX_BYTES", 5_000_000)
    large = compressed(101, codec, bytes(5_000_000))
    assert len(large) < 5_000_000 // 20
    data = compressed(100, codec, b"first") + large + compressed(102, codec, b"", packed=b"no such thing at all") + \
        compressed(103, codec, b"last") + large.replace(struct.pack(">q", 101), struct.pack(">q", 104), 1)
    found, next_offset = read(FetchedRecords, data, [], IsolationLevel.READ_UNCOMMITTED, 100)
    assert [(r.offset, r.value) for r in found if not isinstance(r, EndMark)] == [(100, b"first"), (103, b"last")]
    assert (found[-1], next_offset) == (EndMark(104), 105)
    logged = [record.getMessage() for record in caplog.records]
    assert [offset for line in logged for offset in (101, 102, 104) if f"at offsets {offset} to {offset}:" in line] == \
        [101, 102, 104]
    assert "more than the allowed 5000000 bytes" in logged[0]


@given(BATCHES.filter(bool), st.data())
def test_a_flipped_bit_is_an_error_and_no_wrong_record(batches: Any, draw: st.DataObject) -> None:
    data, aborted = log_of(batches)
    # The first 16 bytes of a batch (offset, length, leader epoch) are not covered by its checksum.
    at = draw.draw(st.integers(17, 60))
    broken = bytearray(data)
    broken[at] ^= 1 << draw.draw(st.integers(0, 7))
    with pytest.raises(CorruptRecordError):
        read(FetchedRecords, bytes(broken), aborted, IsolationLevel.READ_UNCOMMITTED, 100)


@given(BATCHES.filter(bool), st.data())
def test_a_changed_byte_under_a_valid_checksum_yields_an_error_or_no_extra_records(
    batches: Any, draw: st.DataObject
) -> None:
    # Even where the checksum is right (a broken producer).
    records, _, producer, transactional, _, _ = batches[0]
    data = bytearray(batch(100, records, 0, producer, transactional, None))
    at = draw.draw(st.integers(61, len(data) - 1))
    data[at] = draw.draw(st.integers(0, 255))
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    try:
        found, _ = read(FetchedRecords, bytes(data), [], IsolationLevel.READ_UNCOMMITTED, 0)
    except CorruptRecordError:
        return
    assert len(found) <= len(records) + 1


@pytest.mark.parametrize(("at", "value"), [(61 + 4, 60), (61 + 6, 40), (61, 80), (60, 1), (60, 3), (61 + 6, 8)])
def test_inconsistent_lengths_and_counts_are_refused(at: int, value: int) -> None:
    data = bytearray(batch(100, [(0, b"k", b"vvvv", []), (0, b"k", b"w" * 40, [])], 0, -1, False, None))
    assert [data[61 + 4], data[61 + 5 : 61 + 6], data[61 + 6]] == [2, b"k", 8]
    fine = data[at] == value
    data[at] = value
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    if fine:
        assert len(read(FetchedRecords, bytes(data), [], IsolationLevel.READ_UNCOMMITTED, 0)[0]) == 2
        return
    with pytest.raises(CorruptRecordError):
        read(FetchedRecords, bytes(data), [], IsolationLevel.READ_UNCOMMITTED, 0)


@pytest.mark.parametrize(("at", "value"), [
    (61 + 1, 0x80), (61 + 1, 0xFF),  # the first record's attributes, which mean nothing
    (61 + 10, 0xFF), (61 + 10, 0x80),  # the name of its header, which need not be UTF-8
])
def test_what_brokers_accept_is_read(at: int, value: int) -> None:
    """kafka-python takes most of them for damaged: they were read again and again, and nothing behind them."""
    data = bytearray(batch(100, [(0, b"k", b"v", [("h", b"x")]), (0, b"k", b"w", [])], 0, -1, False, None))
    assert [data[61 + 1], data[61 + 10 : 61 + 11]] == [0, b"h"]
    data[at] = value
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    found, next_offset = read(FetchedRecords, bytes(data), [], IsolationLevel.READ_UNCOMMITTED, 0)
    assert [(r.offset, r.key, r.value) for r in found] == [(100, b"k", b"v"), (101, b"k", b"w")]
    assert found[0].headers == [("h" if at == 61 + 1 else "\ufffd", b"x")]
    assert next_offset == 102
