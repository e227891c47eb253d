"""Rows of any Arrow types as values of Connect records."""

from __future__ import annotations

import pyarrow as pa

from spark_tasks.arrow_types import from_arrow, to_arrow
from spark_tasks.columns import SCHEMA_KEY, struct_array
from spark_tasks.schema import to_text


def plain(array: pa.Array) -> pa.Array:
    """The array in the Arrow type that its Connect schema has: dictionaries decoded, large and view types plain."""
    kind = array.type
    if pa.types.is_null(kind) or pa.types.is_nested(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return array
    wanted = to_arrow(from_arrow(kind))
    return array if kind == wanted else array.cast(wanted, safe=False)


def as_value(batch: pa.RecordBatch) -> pa.StructArray:
    """Each row as one struct."""
    columns = [plain(column) for column in batch.columns]
    fields = [f.with_type(column.type).remove_metadata() for f, column in zip(batch.schema, columns, strict=True)]
    return struct_array(columns, fields, len(batch), None)


def value_field(schema: pa.Schema) -> dict[bytes, bytes]:
    """The metadata of a column of such structs: the Connect schema that the rows' types stand for."""
    return {SCHEMA_KEY: to_text(from_arrow(pa.struct(list(schema)), optional=False)).encode()}
