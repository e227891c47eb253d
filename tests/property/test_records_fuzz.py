"""Damaged bytes yield an error or the right records, never a crash or a wrong record."""

from __future__ import annotations

import random
import struct

import crc32c
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.records import CorruptRecordsError, UnsupportedFormatError, decode, encode
from spark_tasks.kafka.records.decode import Piece, decode_pieces, decode_together, joined
from spark_tasks.kafka.records.errors import OversizedRecordError

ROWS = [
    {
        "offset": offset, "timestamp": 1000 + offset, "key": b"k%d" % offset if offset % 2 else None,
        "value": b"value %d " % offset * (offset % 7) if offset % 5 else None,
        "headers": [{"key": "h", "value": b"1"}, {"key": "", "value": None}] if offset % 3 == 0 else None,
    }
    for offset in range(60)
]  # fmt: skip


def log(compression):
    """Three batches, offsets as a broker would have assigned them."""
    raw = pa.RecordBatch.from_pylist(ROWS, schema=RAW_SCHEMA)
    parts = []
    for first in (0, 20, 40):
        (batch,) = encode(raw[first : first + 20], compression=compression)
        data = bytearray(batch.data)
        struct.pack_into(">q", data, 0, first)
        parts.append(bytes(data))
    return parts


LOGS = {compression: log(compression) for compression in (None, "gzip", "snappy", "lz4", "zstd")}
REFUSED = (CorruptRecordsError, UnsupportedFormatError)
# The checksum covers neither base offset nor length nor leader epoch nor format number.
UNCOVERED = range(17)
MOSTLY_0 = st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2, 70])


def mutated(data, changes):
    damaged = bytearray(data)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    return damaged


@given(
    st.sampled_from(list(LOGS)),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 400),
)
def test_with_checksums_only_undamaged_records_are_decoded(compression, changes, cut):
    parts = LOGS[compression]
    starts = [0, len(parts[0]), len(parts[0]) + len(parts[1])]
    data = b"".join(parts)
    # Offsets and lengths are not under the checksum; those are changed in the next test.
    changes = [(at % len(data), value) for at, value in changes]
    changes = [(at, value) for at, value in changes if all(at - start not in UNCOVERED for start in starts)]
    damaged = mutated(data, changes) if changes else data
    try:
        decoded = decode(damaged[: len(damaged) - cut], start=0)
    except REFUSED:
        return
    rows = decoded.records.to_pylist()
    assert rows == ROWS[: len(rows)]
    assert decoded.next_offset == len(rows)


@given(
    st.sampled_from(list(LOGS)),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6),
    st.booleans(),
    st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 60)), max_size=2),
)
def test_without_checksums_damaged_data_is_decoded_or_refused(compression, changes, reseal, aborted):
    damaged = mutated(b"".join(LOGS[compression]), changes)
    if reseal:
        size = struct.unpack_from(">i", damaged, 8)[0] + 12
        struct.pack_into(">I", damaged, 17, crc32c.crc32c(bytes(damaged[21 : max(size, 21)])))
    try:
        decoded = joined(decode_pieces(bytes(damaged), check_crc=reseal, aborted=aborted))
    except REFUSED:
        return
    decoded.records.validate(full=True)


@given(st.binary(max_size=300), st.booleans())
def test_arbitrary_bytes_are_decoded_or_refused(data, with_magic):
    if with_magic and len(data) > 17:
        data = data[:16] + b"\x02" + data[17:]
    try:
        decoded = decode(data, check_crc=False)
    except REFUSED:
        return
    decoded.records.validate(full=True)


@pytest.mark.parametrize("seed", range(4))
def test_records_with_wrong_lengths_are_decoded_or_refused(seed):
    """Many random edits of one uncompressed batch, sealed again, so that only the parser can notice."""
    chance = random.Random(seed)
    original = LOGS[None][0]
    for _ in range(20 * settings().max_examples):
        data = bytearray(original)
        for _ in range(chance.randint(1, 5)):
            data[chance.randrange(21, len(data))] = chance.choice(
                (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, chance.randrange(256))
            )
        struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
        try:
            decoded = decode(data)
        except REFUSED:
            continue
        decoded.records.validate(full=True)


@given(
    st.sampled_from([None, None, None, "gzip"]), st.booleans(), st.sampled_from([0, 10, 20, 40]), MOSTLY_0,
    st.lists(st.tuples(st.one_of(st.integers(0, 60), st.integers(0, 10_000)), st.integers(0, 255)), max_size=3),
    MOSTLY_0,
)
@example(None, False, 10, 0, [], 0)
@example(None, False, 20, 0, [], 0)
@example(None, True, 0, 11, [(7, 30)], 0)  # the last batch begins within the one before it
def test_pieces_are_decoded_together_as_apart_or_not_at_all(compression, seals, start, further, changes, cut):
    """`seals`: the last batch has a valid checksum, so that only the parsers notice the damage."""
    *before, last = LOGS[compression]
    damaged = mutated(last, changes)
    if seals:
        struct.pack_into(">I", damaged, 17, crc32c.crc32c(bytes(damaged[21:])))
    data = b"".join([*before, damaged])
    piece = Piece(data[: len(data) - cut], start, 61 - further if further else 60)
    try:
        together = decode_together([piece, Piece(b"".join(LOGS[None]), 0, 60)])
    except (CorruptRecordsError, OversizedRecordError):
        with pytest.raises((*REFUSED, OversizedRecordError)):
            decode(piece.data, start=start)
        return
    if together is None:
        assert compression or changes or further or cut or start == 10, "undamaged plain batches are decoded together"
        return
    records, (count, others) = together
    assert others == len(ROWS)
    alone = joined(decode_pieces(piece.data, start=start, end=piece.end)).records
    assert records[:count].to_pylist() == alone.to_pylist()
    assert records[count:].to_pylist() == ROWS
