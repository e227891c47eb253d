"""Compile (or load from the cache) all kernels ahead of need: seconds the first time, a tenth of one after."""

from __future__ import annotations

import pyarrow as pa

from spark_tasks.columns import RAW_SCHEMA
from spark_tasks.records.decode import decode
from spark_tasks.records.encode import encode
from spark_tasks.records.partitioner import Partitioner, murmur2


def warm_up() -> None:
    """For a process that will fork or that answers soon; from any thread."""
    header = [{"key": "h", "value": b""}]
    row = {"offset": 0, "timestamp": 0, "key": b"k", "value": b"v", "headers": header}
    raw = pa.RecordBatch.from_pylist([row], schema=RAW_SCHEMA)
    for batch in encode(raw):
        decode(batch.data)
    Partitioner(2).assign(raw)
    murmur2(b"k")
