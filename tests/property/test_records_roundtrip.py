"""The codec against kafka-python's record classes, both ways, and against itself for everything else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.records import decode, encode

optional_bytes = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=70).map(lambda data: data * 4)
headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=6), "value": st.none() | st.binary(max_size=6)}),
    min_size=1,
    max_size=4,
)
timestamps = st.integers(0, 2**45)
records = st.lists(
    st.fixed_dictionaries({
        "offset": st.just(0), "timestamp": timestamps, "key": optional_bytes, "value": optional_bytes,
        "headers": headers,
    }),
    max_size=30,
)  # fmt: skip
# kafka-python compresses with libraries that need not be installed; gzip always works.
HERE = {"gzip": True, "snappy": codec.has_snappy(), "lz4": codec.has_lz4(), "zstd": codec.has_zstd()}
CODES = {None: 0, **{name: number for number, name in enumerate(HERE, 1) if HERE[name]}}


def numbered(rows):
    return [{**row, "offset": offset} for offset, row in enumerate(rows)]


@given(records, st.sampled_from(sorted(CODES, key=str)), st.booleans())
def test_records_written_by_kafka_python_are_decoded(rows, compression, transactional):
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=CODES[compression], is_transactional=transactional, producer_id=5, producer_epoch=1,
        base_sequence=9, batch_size=1 << 30,
    )  # fmt: skip
    for offset, row in enumerate(rows):
        pairs = [(item["key"], item["value"]) for item in row["headers"] or []]
        builder.append(offset, row["timestamp"], row["key"], row["value"], pairs)
    decoded = decode(bytes(builder.build())) if rows else decode(b"")
    decoded.records.validate(full=True)
    assert decoded.records.to_pylist() == numbered(rows)


@given(records, st.sampled_from(sorted(CODES, key=str)), st.integers(800, 3000))
def test_kafka_python_reads_what_is_written(rows, compression, limit):
    raw = pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)
    batches = encode(raw, compression=compression, max_batch_bytes=limit)
    read = []
    for encoded in batches:
        memory = MemoryRecords(bytes(encoded.data))
        batch = memory.next_batch()
        assert batch.validate_crc()
        read += [
            {
                "offset": 0, "timestamp": record.timestamp, "key": record.key, "value": record.value,
                "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
            }
            for record in batch
        ]  # fmt: skip
        assert memory.next_batch() is None
    assert read == rows


@given(records, st.sampled_from([None, "gzip", "snappy", "lz4", "zstd"]), st.integers(800, 3000), st.data())
def test_encoded_records_decode_to_the_same_rows(rows, compression, limit, data):
    whole = pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)
    begin = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(begin, len(rows)))
    read = []
    for encoded in encode(whole[begin:end], compression=compression, max_batch_bytes=limit):
        assert len(encoded.data) <= limit
        decoded = decode(encoded.data)
        decoded.records.validate(full=True)
        assert decoded.next_offset == encoded.count == decoded.records.num_rows
        read += decoded.records.to_pylist()
    assert [{**row, "offset": 0} for row in read] == rows[begin:end]


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5))
def test_timestamps_far_apart_round_trip(times):
    raw = pa.RecordBatch.from_pylist(
        [{"offset": 0, "timestamp": abs(time), "key": None, "value": None, "headers": None} for time in times],
        schema=RAW_SCHEMA,
    )
    assert decode(encode(raw)[0].data).records.column("timestamp").to_pylist() == [abs(time) for time in times]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 1 << 20])
def test_lengths_at_the_edges_of_the_varints(size):
    raw = pa.RecordBatch.from_pylist(
        [{"offset": 0, "timestamp": 0, "key": b"k" * size, "value": b"v" * size, "headers": None}] * 2,
        schema=RAW_SCHEMA,
    )
    (encoded,) = encode(raw, max_batch_bytes=1 << 24)
    assert decode(encoded.data).records.column("value").to_pylist() == [b"v" * size] * 2
    assert [record.key for record in MemoryRecords(bytes(encoded.data)).next_batch()] == [b"k" * size] * 2
