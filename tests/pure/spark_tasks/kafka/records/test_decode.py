"""Decoding beyond the plain case: ranges, truncated data, damage under a valid checksum."""

from __future__ import annotations

import pickle
import struct

import crc32c
import pyarrow as pa
import pytest

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.records import CorruptRecordsError, UnsupportedFormatError, decode, decode_pieces, encode
from spark_tasks.kafka.records.decode import joined
from tests.golden.records import BATCHES


def batch(values, base_offset=0, **options):
    raw = pa.RecordBatch.from_pylist(
        [{"offset": 0, "timestamp": 5, "key": None, "value": value, "headers": None} for value in values],
        schema=RAW_SCHEMA,
    )
    (encoded,) = encode(raw, **options)
    data = bytearray(encoded.data)
    struct.pack_into(">q", data, 0, base_offset)
    return data


def sealed(data):
    """The batch with a checksum that fits again: for damage that only the parser can notice."""
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return data


def test_empty_data_has_no_records():
    assert decode(b"", start=42).next_offset == 42
    assert decode(b"").records.schema == RAW_SCHEMA


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_only_the_requested_offsets_are_decoded(compression):
    data = b"".join(batch([b"%d" % i * 30 for i in range(10)], base, compression=compression) for base in (0, 10, 20))
    decoded = joined(decode_pieces(data, start=7, end=22))
    assert decoded.records.column("offset").to_pylist() == list(range(7, 22))
    assert decoded.next_offset == 30


def test_an_incomplete_last_batch_is_left_for_the_next_fetch():
    whole = batch([b"a", b"b"])
    cut = batch([b"c" * 100], 2)
    for size in range(len(cut)):
        decoded = decode(whole + cut[:size], start=0)
        assert decoded.records.column("value").to_pylist() == [b"a", b"b"]
        assert decoded.next_offset == 2


def test_an_incomplete_first_batch_has_no_records():
    data = batch([b"x" * 500], 9)
    decoded = decode(data[:100], start=9)
    assert (decoded.records.num_rows, decoded.next_offset) == (0, 9)


def test_interleaved_aborted_transactions_are_skipped():
    def transaction(producer, offset):
        return batch([b"%d" % producer], offset, transactional=True, producer_id=producer, epoch=0, base_sequence=0)

    def marker(name, producer, offset):
        data = bytearray(BATCHES[name])
        struct.pack_into(">q", data, 0, offset)
        struct.pack_into(">q", data, 43, producer)
        return sealed(data)

    parts = [
        transaction(1, 0), transaction(2, 1), marker("abort", 1, 2), transaction(1, 3), marker("commit", 2, 4),
        marker("commit", 1, 5), transaction(1, 6), batch([b"plain"], 7), marker("abort", 1, 8), transaction(1, 9),
        marker("commit", 1, 10),
    ]  # fmt: skip
    decoded = joined(decode_pieces(b"".join(parts), aborted=[(1, 6), (1, 0)]))
    assert decoded.records.column("offset").to_pylist() == [1, 3, 7, 9]


def test_a_record_of_a_producer_without_a_transaction_is_not_aborted():
    data = batch([b"x"], 3, producer_id=1, epoch=0, base_sequence=0)
    assert joined(decode_pieces(data, aborted=[(1, 0)])).records.num_rows == 1


def test_an_unknown_codec_is_refused():
    data = batch([b"x"])
    data[22] |= 7
    with pytest.raises(UnsupportedFormatError, match="codec 7"):
        decode(sealed(data))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_undecompressible_records_are_an_error(codec):
    data = batch([b"some value"])
    data[22] |= codec
    with pytest.raises(CorruptRecordsError, match=r"decompress|snappy|fewer"):
        decode(sealed(data))


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [
        (8, ">i", 48), (8, ">i", -1), (8, ">i", 0), (0, ">q", -1), (16, ">b", 3), (16, ">b", -1), (57, ">i", -1),
        (57, ">i", 2**31 - 1), (57, ">i", 3), (57, ">i", 1), (23, ">i", 0), (23, ">i", -1), (0, ">q", 2**63 - 1),
    ],
)  # fmt: skip
def test_impossible_header_fields_are_an_error(at, form, value):
    data = batch([b"a", b"b"])
    struct.pack_into(form, data, at, value)
    with pytest.raises(CorruptRecordsError):
        decode(sealed(data))


@pytest.mark.parametrize("second", [batch([b"c"], 6), b"\0" * 61, b"\0" * 16 + b"\1" + b"\0" * 61], ids=str)
def test_a_batch_with_an_impossible_header_is_left_for_the_fetch_that_begins_with_it(second):
    decoded = decode(batch([b"a", b"b"], 5) + second)
    assert decoded.records.column("value").to_pylist() == [b"a", b"b"]
    assert decoded.next_offset == 7


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_records_before_a_wrong_checksum_are_read(compression):
    values = [b"a" * 90, b"b"]
    first, second = (batch(values, base, compression=compression) for base in (5, 7))
    second[-1] ^= 1
    pieces = decode_pieces(first + second)
    assert next(pieces).records.column("value").to_pylist() == values
    with pytest.raises(CorruptRecordsError, match=r"checksum") as raised:
        next(pieces)
    assert (raised.value.position, raised.value.offset) == (len(first), 7)
    assert "t-3 at offset 7" in str(pickle.loads(pickle.dumps(raised.value.at("t", 3, 7))))


# The only record: length 14 zigzag at 61, attributes, timestamp delta, offset delta, key length, value length at 66.
@pytest.mark.parametrize(
    ("at", "byte"),
    [
        (61, 0x7E),
        (61, 0x01),
        (61, 0x80),
        (64, 0x02),
        (64, 0x01),
        (65, 0x03),
        (65, 0x40),
        (66, 0x7F),
        (66, 0x20),
        (68, 0x02),
    ],
)
def test_impossible_lengths_in_a_record_are_an_error(at, byte):
    data = batch([b"v"])
    assert len(data) == 69
    data[at] = byte
    with pytest.raises(CorruptRecordsError):
        decode(sealed(data))


def test_an_overlong_varint_is_an_error():
    data = batch([b"v" * 30])
    data[62:80] = b"\xff" * 18
    with pytest.raises(CorruptRecordsError):
        decode(sealed(data))


def test_a_header_name_that_is_not_utf8_is_decoded_as_in_java():
    raw = pa.RecordBatch.from_pylist(
        [{"offset": 0, "timestamp": 5, "key": None, "value": None, "headers": [{"key": "nX", "value": b"1"}]}],
        schema=RAW_SCHEMA,
    )
    data = bytearray(encode(raw)[0].data)
    data[data.index(b"nX") + 1] = 0xFF
    (record,) = decode(sealed(data)).records.to_pylist()
    assert record["headers"] == [{"key": "n\ufffd", "value": b"1"}]


def test_the_checksum_check_can_be_disabled():
    data = batch([b"value"])
    data[17] ^= 1
    assert decode(data, check_crc=False).records.column("value").to_pylist() == [b"value"]
