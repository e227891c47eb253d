"""The two shapes in which records travel through a task: raw (Kafka's bytes) and Connect (typed values).

Both are `pyarrow.RecordBatch`, one Kafka topic partition (sinks) or one source partition (sources) a batch.

RAW: what the record batch codec reads and writes.
CONNECT: what converters, transforms and plugins see. Column `key` and `value` are of any Arrow type. Metadata entries
of their Arrow fields say what a type cannot:
- SCHEMA_KEY: the Connect schema as JSON (JsonConverter's form); absent means schemaless.
- FORM_KEY = FORM_JSON: the column is a string column, each value one schemaless Connect value written as JSON; the
  per-record path for what no single Arrow type holds (fields of mixed types, for example).
A schemaless map is a struct column whose children stand in the iteration order of Java's HashMap; a child of it may
itself be FORM_JSON, and may carry:
- ABSENT_KEY = b"null": an Arrow null in this child means that the record's map has no such key. Without the entry it
  is a key whose value is null. (A child with both kinds is FORM_JSON, its null values the text `null`, which a whole
  key or value never is: see `nulls_of_texts`.)
A source's batch may leave out every column but `value`; `partition` null means that the partitioner decides.

Headers: a list of structs of key and value. A binary value is what is or will be on the wire, so headers pass through
untouched unless somebody asks for them; the header converter turns them into Connect values and back.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

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
ABSENT_KEY = b"connect.absent"
ABSENT_NULL = b"null"

Metadata = Mapping[bytes, bytes]


def metadata_of(field: pa.Field) -> dict[bytes, bytes]:
    """The field's metadata, empty where it has none."""
    return dict(field.metadata or {})


def is_json(metadata: Metadata | None) -> bool:
    """Whether a column with this metadata holds schemaless values written as JSON."""
    return bool(metadata) and metadata.get(FORM_KEY) == FORM_JSON  # type: ignore[union-attr]


def nulls_of_texts(array: pa.Array) -> pa.Array:
    """A FORM_JSON column as that of whole keys or values, whose nulls are null."""
    return pc.if_else(pc.equal(array, "null"), pa.scalar(None, array.type), array)


def nulls_are_absent(metadata: Metadata | None) -> bool:
    """Whether nulls in a child of a schemaless map mean that the key is not there."""
    return bool(metadata) and metadata.get(ABSENT_KEY) == ABSENT_NULL  # type: ignore[union-attr]


def struct_array(
    children: list[pa.Array], fields: list[pa.Field], length: int, mask: pa.Array | None
) -> pa.StructArray:
    """A struct column; unlike pyarrow's own constructor it can have no fields. `mask`: true where the row is null."""
    if children:
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    validity = None if mask is None else pc.invert(mask).buffers()[1]
    return pa.Array.from_buffers(pa.struct([]), length, [validity])


def one_topic(topic: str, length: int) -> pa.DictionaryArray:
    """The `topic` column of a batch, all of one topic."""
    zeros = pa.Array.from_buffers(pa.int32(), length, [None, pa.py_buffer(bytes(4 * length))])
    return pa.DictionaryArray.from_arrays(zeros, pa.array([topic], pa.string()))
