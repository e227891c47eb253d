"""Compressed batches of any uncompressed size: window by window, with the same records, and errors with positions."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
from importlib import import_module

import cramjam
import crc32c
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.records import (
    CorruptRecordsError,
    OversizedRecordError,
    UnsupportedFormatError,
    decode_pieces,
    encode,
)
from spark_tasks.kafka.records.compression import CODECS, DecompressError, Decompressor, compress, decompress

MB = 1_000_000
NAMES = ("gzip", "snappy", "lz4", "zstd")


def raw_snappy(data):
    return bytes(cramjam.snappy.compress_raw(data))


def batch(values, codec, base_offset=0, pack=None, count=None, plain=None):
    """One record batch whose records are compressed in any case, `plain` in place of them where it is given."""
    raw = pa.RecordBatch.from_pylist(
        [{"offset": 0, "timestamp": 5, "key": None, "value": value, "headers": None} for value in values], RAW_SCHEMA
    )
    (encoded,) = encode(raw, max_batch_bytes=2**31 - 1)
    content = bytes(encoded.data[61:]) if plain is None else plain(bytes(encoded.data[61:]))
    data = bytearray(encoded.data[:61])
    data += compress(CODECS[codec], content) if pack is None else pack(content)
    data[22] |= CODECS[codec]
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, 8, len(data) - 12)
    if count is not None:
        struct.pack_into(">i", data, 57, count)
        struct.pack_into(">i", data, 23, count - 1)
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(data)


def pieces_of(data, window, **options):
    """Decodes with windows of this size."""
    with pytest.MonkeyPatch.context() as patched:
        module = import_module("spark_tasks.kafka.records.decode")  # not the function of that name
        patched.setattr(module, "WINDOW_BYTES", window)
        yield from decode_pieces(data, **options)


def values_of(pieces):
    return [value for piece in pieces for value in piece.records.column("value").to_pylist()]


@pytest.mark.parametrize("codec", NAMES)
def test_a_batch_is_decompressed_piece_by_piece_within_bounds(codec):
    """24 MB in one batch and windows of 1 MB; a piece has room for all of it as keys and as values, in two copies."""
    data = batch([b"\0" * MB] * 23 + [b"last"], codec)
    list(decode_pieces(batch([b"first"], codec)))  # compiles or loads what decodes, which takes memory too
    seen = 0
    tracemalloc.start()
    try:
        for piece in pieces_of(data, window=MB + 100):
            assert piece.records.nbytes < 1.1 * MB
            seen += len(piece.records)
        assert tracemalloc.get_traced_memory()[1] < 10 * MB
    finally:
        tracemalloc.stop()
    assert (seen, piece.next_offset) == (24, 24)


@pytest.mark.parametrize("codec", NAMES)
def test_a_record_larger_than_a_window_is_decoded(codec):
    values = [b"a", b"b" * 5000, b"c" * 70, b"d" * 9000, b"e"]
    assert values_of(pieces_of(batch(values, codec), window=1000)) == values


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=30).map(lambda values: [v * 3 for v in values]),
    st.sampled_from([*NAMES, "raw snappy"]), st.integers(64, 2000), st.integers(0, 40), st.integers(0, 40),
)  # fmt: skip
def test_the_result_does_not_depend_on_the_window_size(values, codec, window, start, end):
    pack = raw_snappy if codec == "raw snappy" else None
    name = codec.split()[-1]
    data = batch(values, name, pack=pack) + batch(values, name, len(values), pack=pack)
    pieces = list(pieces_of(data, start=start, end=end, window=window))
    assert values_of(pieces) == (values * 2)[start : max(end, start)]
    assert pieces[-1].next_offset == 2 * len(values)
    assert [len(piece.records) for piece in pieces if piece is not pieces[-1]].count(0) == 0


@pytest.mark.parametrize("codec", [*NAMES, None])
def test_a_record_over_the_limit_is_reported_after_those_before_it_are_read(codec):
    values = [b"a" * 10, b"b" * 20, b"c" * 5000, b"d" * 20]
    for window in (300, 100_000):
        data = batch(values, codec, 7, pack=None if codec else bytes)
        pieces = pieces_of(data, max_record_bytes=1000, window=window)
        found = []
        with pytest.raises(OversizedRecordError, match=r"heeler\.max\.record\.bytes") as raised:
            found.extend(piece.records for piece in pieces)
        assert [value for records in found for value in records.column("value").to_pylist()] == values[:2]
        error = pickle.loads(pickle.dumps(raised.value.at("t", 3)))
        assert (error.offset, error.limit, error.where) == (9, 1000, ("t", 3))
        assert 5000 < error.size < 5020
        assert "the record of t-3 at offset 9 has" in str(error)
        # Whoever goes on behind it is not stopped by it.
        assert values_of(pieces_of(data, start=10, max_record_bytes=1000, window=window)) == values[3:]
        assert values_of(pieces_of(data, end=9, max_record_bytes=1000, window=window)) == values[:2]


def test_a_snappy_block_is_decompressed_at_once():
    data = batch([b"v" * MB] * 34, "snappy", pack=raw_snappy)
    with pytest.raises(OversizedRecordError, match="the snappy block of records at offset 0 has 340"):
        list(decode_pieces(data, max_record_bytes=2 * MB))
    assert len(values_of(decode_pieces(data))) == 34


@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"plain": lambda content: content[:-1]}, "fewer|cut off|longer"),
        ({"plain": lambda content: content + b"x"}, "after the last record|longer"),
        ({"count": 7}, "fewer|longer"),
        ({"count": 5}, "after the last record"),
        ({"plain": lambda content: b"\xff" * len(content)}, "longer or shorter"),
        ({"plain": lambda content: b"\xfe\xff\xff\xff\x0f" + content}, "fewer|cut off|longer"),
    ],
)
@pytest.mark.parametrize("window", [100, 100_000])
def test_contents_that_contradict_the_header_are_an_error(codec, change, reason, window):
    data = batch([b"v" * 200] * 6, codec, **change)
    with pytest.raises((CorruptRecordsError, OversizedRecordError), match=reason) as raised:
        list(pieces_of(data, window=window, max_record_bytes=2**31 - 1))
    assert raised.value.offset == 0


@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize("window", [100, 100_000])
def test_truncated_or_damaged_compressed_data_is_an_error(codec, window):
    for pack in (lambda packed: packed[:-7], lambda packed: packed[: len(packed) // 2], lambda packed: b"x" + packed):
        data = batch([b"%d" % n * 50 for n in range(30)], codec, 4, lambda c, p=pack: p(compress(CODECS[codec], c)))
        with pytest.raises(CorruptRecordsError, match=r"decompress|fewer") as raised:
            list(pieces_of(data, window=window))
        assert raised.value.offset == 4


@given(
    st.sampled_from(NAMES), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6),
    st.integers(64, 500),
)  # fmt: skip
def test_undetected_damage_yields_an_error_or_valid_records(codec, changes, window):
    data = bytearray(batch([b"%d" % n * 30 for n in range(20)], codec))
    for at, value in changes:
        data[at % len(data)] = value
    try:
        for piece in pieces_of(data, check_crc=False, window=window, max_record_bytes=10_000):
            piece.records.validate(full=True)
    except (CorruptRecordsError, OversizedRecordError, UnsupportedFormatError):
        return


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x04"])
def test_no_memory_is_allocated_for_a_snappy_block_that_lies_about_its_size(length):
    for block in (length + b"some bytes", compress(2, b"")[:16] + struct.pack(">i", 10) + length + b"bytes"):
        with pytest.raises(DecompressError, match="claims to hold"):
            Decompressor(2, block, 2**31).read_into(memoryview(bytearray(10)))


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_decompressing_in_one_step_is_limited(codec):
    data = bytes(3 * MB)
    packed = compress(codec, data) if codec else data
    assert decompress(codec, packed, 3 * MB) == data
    with pytest.raises(DecompressError, match="allowed"):
        decompress(codec, packed, 3 * MB - 1)
