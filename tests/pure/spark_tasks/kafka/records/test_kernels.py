"""Each kernel is compiled for one combination of types only, or cold starts would grow without anybody noticing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.records import decode_kernels, encode, encode_kernels, partitioner, scan
from spark_tasks.kafka.records.decode import decode_pieces, joined
from tests.golden.records import BATCHES, RECORDS

KERNELS = [
    scan.count_batches, scan.scan_batches, decode_kernels.decode_records, decode_kernels.decode_headers,
    encode_kernels.header_sizes, encode_kernels.encode_records, partitioner.assign_rows,
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def all_kinds_of_arguments():
    """Writable and read-only bytes, empty and sliced arrays, arrays made by Arrow, by numpy and by ourselves."""
    for data in (
        BATCHES["none"],
        bytearray(BATCHES["gzip"]),
        memoryview(BATCHES["append-time"]),
        np.frombuffer(BATCHES["none"], np.uint8),
    ):
        raw = joined(decode_pieces(data, start=np.int64(11), end=15, aborted=[(1, 2)])).records
        for part in (
            raw,
            raw[1:],
            raw[:0],
            raw.select(["key", "value"]),
            pa.RecordBatch.from_pylist(RECORDS, schema=RAW_SCHEMA),
        ):
            encode(part, producer_id=np.int64(4), max_batch_bytes=np.int64(1 << 20))
            encode(part, rows=np.flatnonzero(np.arange(len(part)) % 2 == 0), no_timestamp=9, max_record_bytes=5000)
            partitioner.Partitioner(3).assign(part, np.full(len(part), -1, np.int64), np.array([1], np.int64))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_each_kernel_is_compiled_once(kernel):
    assert len(getattr(kernel, "made", kernel).signatures) == 1
