"""Parts of a batch with the members and types of their own records only.

A column has one type for all records. If a few of many schemaless maps lack a member, or have a text where others have
a number, this is so only in the parts with those records.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spark_tasks.data.columns import ABSENT_KEY, SCHEMA_KEY, is_json, metadata_of, nulls_are_absent, struct_array
from spark_tasks.pipeline.converters.json_columns import parse_columns


def varies(batch: pa.RecordBatch, names: Sequence[str]) -> bool:
    """Returns whether parts of these columns may be simpler than the whole: some records have a null, lack a member, or
    have values of other types.
    """
    schema = batch.schema
    return any(_varies(batch.column(name), schema.field(name)) for name in names if name in schema.names)


def _varies(array: pa.Array, field: pa.Field) -> bool:
    if 0 < array.null_count < len(array) or is_json(field.metadata):
        return True
    if not pa.types.is_struct(array.type):
        return False
    return any(_varies(array.field(i), array.type.field(i)) for i in range(array.type.num_fields))


def narrowed(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Returns the batch with these columns as if there were no records but its own. Raises DataError."""
    for index, field in enumerate(batch.schema):
        if field.name in names and SCHEMA_KEY not in metadata_of(field):
            array, metadata = _narrowed(batch.column(index), field)
            batch = batch.set_column(index, pa.field(field.name, array.type, metadata=metadata or None), array)
    return batch


def _narrowed(array: pa.Array, field: pa.Field) -> tuple[pa.Array, dict[bytes, bytes]]:
    metadata = metadata_of(field)
    if is_json(metadata):
        found, its = parse_columns(array.cast(pa.binary()))
        absent = nulls_are_absent(metadata) and array.null_count
        if is_json(its) or (absent and found.null_count > array.null_count):
            return array, metadata
        array, metadata = found, {**its, ABSENT_KEY: metadata[ABSENT_KEY]} if absent else its
    if nulls_are_absent(metadata) and not array.null_count:
        del metadata[ABSENT_KEY]
    if pa.types.is_struct(array.type) and not array.null_count:
        children, fields = [], []
        for child, one in zip(array.flatten(), array.type, strict=True):
            narrow, its = _narrowed(child, one)
            if nulls_are_absent(its) and narrow.null_count == len(narrow):
                continue  # no record has it
            children.append(narrow)
            fields.append(pa.field(one.name, narrow.type, metadata=its or None))
        array = struct_array(children, fields, len(array), None)
    return array, metadata
