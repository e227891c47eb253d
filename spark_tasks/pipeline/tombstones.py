"""Records without a key or value beside records that have a schema.

Such a record has no schema, and some transforms tell it apart from a null with a schema. In one column they cannot: so
these records are in batches of their own while transforms change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import SCHEMA_KEY, metadata_of
from spark_tasks.pipeline.converters.base import rows_by_code


def apart(batch: pa.RecordBatch, raw: pa.RecordBatch, parts: Iterable[str]) -> list[pa.RecordBatch]:
    """Returns the batch, or several if some records lack a key or value that others have with a schema. `raw`: the same
    records in Kafka. `parts`: "key", "value" or both.
    """
    lacking = [part for part in parts
               if 0 < raw.column(part).null_count < len(raw) and SCHEMA_KEY in metadata_of(batch.schema.field(part))]
    if not lacking:
        return [batch]
    codes = np.zeros(len(raw), np.int8)
    for bit, part in enumerate(lacking):
        codes |= raw.column(part).is_null().to_numpy(zero_copy_only=False).astype(np.int8) << bit
    return [_without(batch, rows, [part for bit, part in enumerate(lacking) if codes[rows[0]] >> bit & 1])
            for rows in rows_by_code(codes)]


def _without(batch: pa.RecordBatch, rows: np.ndarray[Any, Any], parts: Sequence[str]) -> pa.RecordBatch:
    batch = batch.take(pa.array(rows))
    for part in parts:
        batch = batch.set_column(batch.schema.get_field_index(part), part, pa.nulls(len(rows)))
    return batch


def together(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Returns the batches of a sink's records. Those without keys or values are among the records of another batch, as
    far as nothing else differs. Records that a transform has made of one record stay where they are, as their order
    would be lost.
    """
    groups: list[list[pa.RecordBatch]] = []
    for batch in sorted(batches, key=_untyped):
        for group in groups:
            same = _as(batch, group[0].schema)
            if same is not None:
                group.append(same)
                break
        else:
            groups.append([batch])
    joined = [pa.concat_batches(group) for group in groups]
    for index, group in enumerate(groups):
        if len(group) > 1:
            offsets = joined[index].column("offset").to_numpy()
            if len(np.unique(offsets)) < len(offsets):
                return list(batches)
            joined[index] = joined[index].take(pa.array(np.argsort(offsets)))
    return joined


def _untyped(batch: pa.RecordBatch) -> int:
    return sum(_lacks(field) for field in batch.schema)


def _lacks(field: pa.Field) -> bool:
    return pa.types.is_null(field.type) and not field.metadata


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch | None:
    """Returns the batch with this schema, or None if more than columns of nulls differ."""
    if batch.schema.names != schema.names or not _untyped(batch):
        return None
    columns = []
    for own, field, column in zip(batch.schema, schema, batch.columns, strict=True):
        if _lacks(own) and not own.equals(field, check_metadata=True):
            columns.append(pa.nulls(len(batch), field.type))
        elif own.equals(field, check_metadata=True):
            columns.append(column)
        else:
            return None
    return pa.RecordBatch.from_arrays(columns, schema=schema)
