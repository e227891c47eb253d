"""The two forms of records in a task: RAW (Kafka's bytes) and CONNECT (typed values).

Both are `pyarrow.RecordBatch`es. A batch has records of one topic partition (sinks) or of one source partition
(sources).

RAW: read and written by the record batch codec. CONNECT: read and written by converters, transforms and plugins.
Columns `key` and `value` have any Arrow type. The metadata of their Arrow fields has what a type cannot express:
- SCHEMA_KEY: the Connect schema as JSON (JsonConverter's form); without it, the values are schemaless.
- FORM_KEY = FORM_JSON: a string column, each value of which is a schemaless Connect value as JSON. Used if no single
  Arrow type fits all values, for example if a field has different types in different records. A schemaless map is a
  struct column whose children have the iteration order of Java's HashMap (key_orders.py: if one order does not fit all
  maps). A child may itself be FORM_JSON, and may have:
- ABSENT_KEY = b"null": an Arrow null in this child means that the record's map does not have this key. Without this
  entry, it means that the key's value is null. (A child with both cases is FORM_JSON: a value that is null is the text
  `null`. Whole keys and values never use that text: see `nulls_of_texts`.) A source's batch may omit every column but
  `value`. A null `partition` means that the partitioner chooses.

Headers: a list of structs of key and value. A binary value has the bytes in Kafka; headers pass through unchanged
unless a stage needs their values. Then the header converter turns them into Connect values and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MAX_TOPICS: Final = 1024  # in the cache of a process
_SMALL_BYTES: Final = 1 << 16  # of a batch
_FEW: Final = 64  # records, for which general functions of Arrow and numpy would take most of the time
HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))

RAW_SCHEMA = pa.schema([
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.int64(), nullable=False),  # ms since the epoch; -1 if a record has none
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", HEADERS_TYPE),
])
LOG_APPEND_SCHEMA = RAW_SCHEMA.with_metadata({b"timestamp.type": b"LogAppendTime"})
"""RAW_SCHEMA of records whose timestamp is the broker's, which only a log line shows. A concatenation has that of its
first batch.
"""

# topic: string (dictionary), partition: int32, offset: int64, timestamp: int64 ms (null: none), key: any, value: any,
# headers: list<struct<key: string, value: binary JSON or any>>; in this order.
CONNECT_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

SCHEMA_KEY = b"connect.schema"
FORM_KEY = b"connect.form"
FORM_JSON = b"json"
ABSENT_KEY = b"connect.absent"
ABSENT_NULL = b"null"

Metadata = Mapping[bytes, bytes]


def metadata_of(field: pa.Field) -> dict[bytes, bytes]:
    """Returns the field's metadata, which is empty if it has none."""
    return dict(field.metadata or {})


def is_json(metadata: Metadata | None) -> bool:
    """Returns whether a column with this metadata has schemaless values as JSON."""
    return bool(metadata) and metadata.get(FORM_KEY) == FORM_JSON  # type: ignore[union-attr]


def nulls_of_texts(array: pa.Array) -> pa.Array:
    """Converts a FORM_JSON column to one of whole keys or values: the text `null` becomes null."""
    return pc.if_else(pc.equal(array, "null"), pa.scalar(None, array.type), array)


def nulls_are_absent(metadata: Metadata | None) -> bool:
    """Returns whether a null in this child of a schemaless map means that the map does not have the key."""
    return bool(metadata) and metadata.get(ABSENT_KEY) == ABSENT_NULL  # type: ignore[union-attr]


def struct_array(
    children: list[pa.Array], fields: list[pa.Field], length: int, mask: pa.Array | None
) -> pa.StructArray:
    """Returns a struct column. Unlike pyarrow's constructor, allows structs without fields. `mask`: true for nulls."""
    if children:
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    validity = None if mask is None else pc.invert(mask).buffers()[1]
    return pa.Array.from_buffers(pa.struct([]), length, [validity])


def one_topic(topic: str, length: int) -> pa.DictionaryArray:
    """Returns the `topic` column of a batch of one topic."""
    zeros = pa.Array.from_buffers(pa.int32(), length, [None, pa.py_buffer(bytes(4 * length))])
    return pa.DictionaryArray.from_arrays(zeros, _name_of(topic))


@lru_cache(maxsize=_MAX_TOPICS)
def _name_of(topic: str) -> pa.StringArray:
    return pa.array([topic], pa.string())


def no_headers(length: int) -> pa.Array:
    """Returns the `headers` column of records without headers."""
    return _few_nulls(length) if length <= _FEW else pa.nulls(length, HEADERS_TYPE)


@lru_cache(maxsize=_FEW + 1)
def _few_nulls(length: int) -> pa.Array:
    return pa.nulls(length, HEADERS_TYPE)


def connect_timestamps(timestamps: pa.Array) -> pa.Array:
    """Returns the `timestamp` column of a CONNECT batch for that of a RAW one, in which -1 means none, as in Kafka."""
    values = timestamps.to_numpy()
    if len(values) <= _FEW and min(values.tolist(), default=0) >= 0:
        return timestamps
    missing = values < 0
    return pa.array(values, mask=missing) if missing.any() else timestamps


def milliseconds(timestamps: pa.Array) -> pa.Array:
    """Returns timestamps as milliseconds since the epoch (int64); integers count as such."""
    if pa.types.is_timestamp(timestamps.type):
        timestamps = timestamps.cast(pa.timestamp("ms", timestamps.type.tz), safe=False)
    return timestamps.cast(pa.int64())


def moment_numbers(array: pa.Array) -> pa.Array:
    """Returns the numbers by which Connect encodes moments: of timestamps the milliseconds since the epoch (int64), of
    times those since midnight (int32), of dates the days since the epoch (int32).
    """
    if pa.types.is_timestamp(array.type):
        return milliseconds(array)
    if pa.types.is_time(array.type):
        return array.cast(pa.time32("ms"), safe=False).cast(pa.int32())
    return array.cast(pa.date32()).cast(pa.int32())


def in_order(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields all records in the order of their offsets, those of one batch that follow each other in one piece."""
    if len(batches) == 1:
        yield batches[0]
        return
    offsets = [batch.column("offset").to_numpy() for batch in batches]
    batch_of = np.repeat(np.arange(len(batches)), [len(one) for one in offsets])
    batch_of = batch_of[np.argsort(np.concatenate([np.empty(0, np.int64), *offsets]), kind="stable")]
    ends = [*(np.flatnonzero(np.diff(batch_of)) + 1).tolist(), len(batch_of)]
    begins, begin = [0] * len(batches), 0
    for end in ends if len(batch_of) else ():
        number, size = int(batch_of[begin]), end - begin
        yield batches[number].slice(begins[number], size)
        begins[number] += size
        begin = end


def size_of(batch: pa.RecordBatch) -> int:
    """The bytes of a batch. `nbytes` takes fifty times as long, so for a small batch that shares its buffers with
    others, this includes their bytes.
    """
    size: int = batch.get_total_buffer_size()
    return size if size < _SMALL_BYTES else int(batch.nbytes)
