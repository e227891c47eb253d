"""Records that wait for the task that reads them: it takes what the log has from its position on, or nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.kafka.held_records import HeldRecords
from spark_tasks.kafka.records.layout import HEADER_BYTES, LOG_OVERHEAD, MAGIC, PREFIX, SUFFIX

TP, OTHER = ("t", 0), ("t", 1)


def batch(offset: int, count: int = 1, size: int = 0) -> bytes:
    """A batch of `count` records, of which only the header is true."""
    body = SUFFIX.pack(0, count - 1, 0, 0, -1, -1, -1, count) + bytes(size)
    return PREFIX.pack(offset, len(body) + PREFIX.size - LOG_OVERHEAD, 0, MAGIC, 0) + body


def test_later_records_are_appended() -> None:
    held = HeldRecords(10_000, 10_000)
    held.add(TP, 5, batch(5) + batch(6, 2))
    held.add(TP, 8, batch(8))
    assert TP in held
    assert held.take(TP, 5) == batch(5) + batch(6, 2) + batch(8)
    assert held.take(TP, 6) == batch(5) + batch(6, 2) + batch(8), "pieces are not cut"
    assert held.take(TP, 8) == batch(8)
    assert (held.take(TP, 9), held.take(TP, 5)) == (b"", b"")
    assert (held.end(TP), held.end(OTHER)) == (9, -1)


def test_after_a_gap_only_newer_records_are_held() -> None:
    held = HeldRecords(10_000, 10_000)
    held.add(TP, 5, batch(5))
    held.add(TP, 7, batch(7))
    assert (held.take(TP, 5), held.take(TP, 7)) == (b"", batch(7))


def test_an_incomplete_batch_is_left_out() -> None:
    held = HeldRecords(10_000, 10_000)
    held.add(TP, 5, batch(5) + batch(6, size=10)[:-1])
    assert held.take(TP, 5) == batch(5)
    held.add(OTHER, 5, batch(5)[:-1])
    held.add(OTHER, 6, b"")
    assert OTHER not in held


def test_bytes_that_are_not_a_batch_are_not_held() -> None:
    held = HeldRecords(10_000, 10_000)
    held.add(TP, 0, bytes(100))
    held.add(TP, 0, PREFIX.pack(0, 3, 0, MAGIC, 0) + bytes(HEADER_BYTES))
    held.add(TP, 0, PREFIX.pack(0, -1, 0, MAGIC, 0) + bytes(HEADER_BYTES))
    held.add(TP, 9, batch(5))
    assert (TP in held, held.size) == (False, 0)


def test_the_number_of_bytes_is_limited() -> None:
    held = HeldRecords(3 * HEADER_BYTES, 2 * HEADER_BYTES)
    held.add(TP, 0, batch(0))
    held.add(OTHER, 0, batch(0) + batch(1))
    assert (held.size, held.take(TP, 0)) == (3 * HEADER_BYTES, batch(0))
    held.add(OTHER, 2, batch(2))  # too much of one: the reader is too late to use it
    assert (held.take(OTHER, 0), held.take(OTHER, 2)) == (b"", batch(2))
    held.add(OTHER, 3, batch(3))
    held.add(("t", 2), 0, batch(0))
    assert (TP in held, held.size) == (False, 3 * HEADER_BYTES), "the one that was added to first"
    held.keep({("t", 2)})
    assert (OTHER in held, held.size) == (False, HEADER_BYTES)
    held.drop(("t", 2))
    assert held.size == 0


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(1, 3)), max_size=20), st.integers(0, 30))
def test_taken_records_start_at_the_position_and_have_no_gap(adds: list[tuple[int, int, int]], position: int) -> None:
    held, ends = HeldRecords(900, 600), [0, 0]
    for number, gap, count in adds:
        at = ends[number] + max(0, gap - 2)
        held.add(("t", number), at, batch(at, count))
        ends[number] = at + count
    for number in (0, 1):
        data, offsets = held.take(("t", number), position), list[int]()
        for at in range(0, len(data), HEADER_BYTES):
            base, delta = PREFIX.unpack_from(data, at)[0], SUFFIX.unpack_from(data, at + PREFIX.size)[1]
            offsets += range(base, base + delta + 1)
        if offsets:
            assert offsets == list(range(offsets[0], ends[number]))
            assert position in offsets
    assert 0 <= held.size <= 900
