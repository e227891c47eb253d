"""The two shapes in which records travel through a task: raw (Kafka's bytes) and Connect (typed values).

Both are `pyarrow.RecordBatch`, one Kafka topic partition (sinks) or one source partition (sources) a batch.

RAW: what the record batch codec reads and writes.
CONNECT: what converters, transforms and plugins see. Column `key` and `value` are of any Arrow type. Two metadata
entries of their Arrow fields say what a type cannot:
- SCHEMA_KEY: the Connect schema as JSON (JsonConverter's form); absent means schemaless.
- FORM_KEY = FORM_JSON: the column is a string column, each value one schemaless Connect value written as JSON; the
  per-record path for what no single Arrow type holds (fields of mixed types, for example).
A source's batch may leave out every column but `value`; `partition` null means that the partitioner decides.
"""

from __future__ import annotations

import pyarrow as pa

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))

RAW_SCHEMA = pa.schema([
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.int64(), nullable=False),  # ms since the epoch; -1 where a record has none
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", HEADERS_TYPE),
])

# topic: string (dictionary), partition: int32, offset: int64, timestamp: int64 ms, key: any, value: any,
# headers: list<struct<key: string, value: binary JSON or any>>; in this order.
CONNECT_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

SCHEMA_KEY = b"connect.schema"
FORM_KEY = b"connect.form"
FORM_JSON = b"json"
