"""Bytes of the Java client: read as Java wrote them, and written as Java writes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.records import CorruptRecordsError, UnsupportedFormatError, decode, encode
from spark_tasks.kafka.records.decode import decode_pieces, joined
from spark_tasks.kafka.records.partitioner import Partitioner
from tests.golden.records import BATCHES, MURMUR2, RECORDS, TIME

WITH_ALL_RECORDS = ["none", "gzip", "snappy", "lz4", "zstd", "idempotent", "transactional"]


@pytest.mark.parametrize("name", WITH_ALL_RECORDS)
def test_batches_written_by_java_are_decoded(name):
    decoded = decode(BATCHES[name])
    decoded.records.validate(full=True)
    assert decoded.records.schema == RAW_SCHEMA
    assert decoded.records.to_pylist() == RECORDS
    assert decoded.next_offset == 16


@pytest.mark.parametrize("name", ["none", "idempotent", "transactional"])
def test_encoded_batches_are_identical_to_javas(name):
    raw = pa.RecordBatch.from_pylist(RECORDS, schema=RAW_SCHEMA)
    producer = {} if name == "none" else {"producer_id": 77, "epoch": 3, "base_sequence": 41}
    (batch,) = encode(raw, transactional=name == "transactional", **producer)
    golden = BATCHES[name]
    # Base offset and leader epoch are the broker's; the checksum does not cover them.
    assert bytes(batch.data)[8:12] == golden[8:12]
    assert bytes(batch.data)[16:] == golden[16:]
    assert batch.count == len(RECORDS)


def test_append_time_counts_for_every_record():
    records = decode(BATCHES["append-time"]).records
    assert records.column("timestamp").to_pylist() == [TIME + 12_345] * len(RECORDS)
    assert records.column("value").to_pylist() == [record["value"] for record in RECORDS]


def test_offsets_keep_the_gaps_of_compaction():
    decoded = decode(BATCHES["compacted"])
    assert decoded.records.column("offset").to_pylist() == [12, 17]
    assert decoded.next_offset == 31


def test_a_batch_emptied_by_compaction_advances_the_offset():
    decoded = decode(BATCHES["emptied"])
    assert decoded.records.num_rows == 0
    assert decoded.next_offset == 26


@pytest.mark.parametrize("name", ["commit", "abort"])
def test_transaction_markers_are_not_records(name):
    decoded = decode(BATCHES[name])
    assert decoded.records.num_rows == 0
    assert decoded.next_offset == 17


@pytest.mark.parametrize(
    ("marker", "aborted", "expected"),
    [("abort", [(77, 10)], 0), ("abort", [(78, 10)], 6), ("commit", [], 6), ("abort", [(77, 17)], 6)],
)
def test_aborted_transactions_are_skipped(marker, aborted, expected):
    decoded = joined(decode_pieces(BATCHES["transactional"] + BATCHES[marker], aborted=aborted))
    assert decoded.records.num_rows == expected
    assert decoded.next_offset == 17


@pytest.mark.parametrize("name", ["v0", "v1"])
def test_old_formats_are_refused_by_name(name):
    with pytest.raises(UnsupportedFormatError, match=f"format {name}"):
        decode(BATCHES[name])


@pytest.mark.parametrize("name", WITH_ALL_RECORDS)
@pytest.mark.parametrize("at", [17, 21, 30, 60, 80])
def test_a_changed_byte_is_detected(name, at):
    damaged = bytearray(BATCHES[name])
    damaged[at] ^= 0x10
    with pytest.raises(CorruptRecordsError, match=r"checksum|count"):
        decode(damaged)


@pytest.mark.parametrize(("key", "hashed"), MURMUR2.items())
def test_the_hash_of_a_key_is_javas(key, hashed):
    raw = pa.record_batch({"key": pa.array([key], pa.binary()), "value": pa.array([None], pa.binary())})
    for partitions in (7, 2**31 - 1):
        chosen = Partitioner(partitions).assign(raw, available=np.array([0], np.int32))
        assert chosen.tolist() == [(hashed & 0x7FFFFFFF) % partitions]
