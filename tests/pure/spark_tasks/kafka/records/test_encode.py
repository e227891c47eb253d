"""Encoding: limits, sequences, timestamps, the shapes of Arrow arrays that occur."""

from __future__ import annotations

import pickle
import struct

import numpy as np
import pyarrow as pa
import pytest

from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA
from spark_tasks.kafka.records import RecordTooLargeError, UnsupportedFormatError, decode, encode, next_sequence

CODECS = [None, "none", "gzip", "snappy", "lz4", "zstd"]


def raw_batch(rows=100):
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": 1000 + i,
                "timestamp": 5000 + (i * 7 if i % 2 else -i),
                "key": b"k%d" % i if i % 3 else None,
                "value": b"v" * (i % 50) if i % 5 else None,
                "headers": [{"key": f"h{j}", "value": b"x" * j if j else None} for j in range(i % 4)] or None,
            }
            for i in range(rows)
        ],
        schema=RAW_SCHEMA,
    )


def content(raw):
    return [{name: row[name] for name in ("timestamp", "key", "value", "headers")} for row in raw.to_pylist()]


def back(batches):
    return [row for batch in batches for row in content(decode(batch.data).records)]


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("limit", [150, 500, 1_000_000])
@pytest.mark.parametrize("part", [slice(0, 100), slice(13, 64)])
def test_batches_round_trip_within_the_size_limit(compression, limit, part):
    raw = raw_batch()[part]
    batches = encode(raw, compression=compression, max_batch_bytes=limit)
    assert back(batches) == content(raw)
    assert max(len(batch.data) for batch in batches) <= limit
    assert all(batch.count == decode(batch.data).next_offset for batch in batches)


def test_batches_are_filled_up_to_the_limit():
    sizes = [len(batch.data) for batch in encode(raw_batch(1000), max_batch_bytes=1000)]
    assert min(sizes[:-1]) > 800


def test_selected_rows_are_encoded_in_the_given_order():
    raw = raw_batch()
    rows = np.array([70, 3, 99, 4], np.int64)
    assert back(encode(raw, rows=rows)) == [content(raw)[row] for row in rows]
    assert encode(raw, rows=rows[:0]) == []
    assert encode(raw.slice(0, 0)) == []


def test_sequences_continue_from_batch_to_batch_and_wrap():
    start = 2**31 - 30
    batches = encode(raw_batch(), producer_id=9, epoch=2, base_sequence=start, max_batch_bytes=500)
    expected = start
    for batch in batches:
        assert struct.unpack_from(">qhi", batch.data, 43) == (9, 2, expected)
        expected = next_sequence(expected, batch.count)
    assert expected == 70
    assert next_sequence(-1, 5) == -1


def test_a_record_without_a_timestamp_gets_the_default():
    raw = raw_batch(3).set_column(1, "timestamp", pa.array([-1, 77, -1], pa.int64()))
    records = decode(encode(raw, no_timestamp=123)[0].data).records
    assert records.column("timestamp").to_pylist() == [123, 77, 123]


def test_columns_may_be_missing_or_of_a_compatible_type():
    raw = pa.record_batch(
        {
            "key": pa.array(["a", None], pa.string()),
            "value": pa.array([b"1", b"2"], pa.large_binary()),
            "timestamp": pa.array([None, 8], pa.timestamp("ms")),
        }
    )
    rows = back(encode(raw, no_timestamp=4))
    assert rows == [
        {"timestamp": 4, "key": b"a", "value": b"1", "headers": None},
        {"timestamp": 8, "key": None, "value": b"2", "headers": None},
    ]


def test_headers_of_null_lists_and_sliced_arrays_are_encoded():
    child = pa.array(
        [{"key": "skip", "value": b""}, {"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        HEADERS_TYPE.value_type,
    )
    valid = pa.py_buffer(b"\x05")
    ends = pa.py_buffer(np.array([0, 1, 2, 2], np.int32))
    lists = pa.Array.from_buffers(HEADERS_TYPE, 3, [valid, ends], children=[child.slice(1)])
    raw = raw_batch(3).set_column(4, RAW_SCHEMA.field("headers"), lists)
    expected = [[{"key": "a", "value": b"1"}], None, None]
    assert [row["headers"] for row in back(encode(raw))] == expected


def test_a_record_over_the_batch_limit_is_an_error():
    raw = pa.RecordBatch.from_pylist(
        [{"offset": 0, "timestamp": 0, "key": None, "value": b"x" * size, "headers": None} for size in (10, 2000)],
        schema=RAW_SCHEMA,
    )
    with pytest.raises(RecordTooLargeError) as raised:
        encode(raw, max_batch_bytes=1000)
    (alone,) = encode(raw[1:])
    error = pickle.loads(pickle.dumps(raised.value))
    assert (error.row, error.size, error.limit) == (1, len(alone.data), 1000)


def test_a_record_over_the_batch_limit_may_have_a_batch_of_its_own():
    raw = pa.RecordBatch.from_pylist(
        [{"offset": 0, "timestamp": 0, "key": None, "value": b"x" * size, "headers": None} for size in (10, 2000, 10)],
        schema=RAW_SCHEMA,
    )
    batches = encode(raw, max_batch_bytes=1000, max_record_bytes=3000)
    assert [batch.count for batch in batches] == [1, 1, 1]
    assert back(batches) == content(raw)


def test_incompressible_records_are_sent_uncompressed():
    raw = pa.RecordBatch.from_pylist(
        [{"offset": 0, "timestamp": 0, "key": None, "value": bytes(range(256)), "headers": None}],
        schema=RAW_SCHEMA,
    )
    (batch,) = encode(raw, compression="gzip")
    assert batch.data[22] & 7 == 0
    assert back([batch]) == content(raw)


def test_an_unknown_compression_is_refused():
    with pytest.raises(UnsupportedFormatError, match="brotli"):
        encode(raw_batch(), compression="brotli")
