"""Headers as columns: lists of names and bytes, those that are on the wire."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import list_offsets
from spark_tasks.data.columns import HEADERS_TYPE
from spark_tasks.data.schema import Schema
from spark_tasks.pipeline.converters.base import HeaderConverter
from spark_tasks.pipeline.converters.simple_header import SimpleHeaderConverter
from spark_tasks.pipeline.transforms.rows import put


def has_header(batch: pa.RecordBatch, name: str) -> pa.BooleanArray:
    """Which records have a header of the name."""
    there = np.zeros(len(batch), np.bool_)
    if _some(batch):
        headers = batch.column("headers")
        mine = pc.equal(headers.flatten().field("key"), name).to_numpy(zero_copy_only=False)
        there[_rows(headers)[mine]] = True
    return pa.array(there)


def without(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """The batch without the headers of these names."""
    if not _some(batch):
        return batch
    headers = batch.column("headers")
    pairs = headers.flatten()
    kept = pc.invert(pc.is_in(pairs.field("key"), pa.array(sorted(names), pa.string())))
    if kept.false_count == 0:
        return batch
    flags = kept.to_numpy(zero_copy_only=False)
    sizes = np.bincount(_rows(headers)[flags], minlength=len(batch))
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return put(batch, "headers", pa.ListArray.from_arrays(offsets, pairs.filter(kept), type=headers.type))


def with_header(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """The batch with one more header at the end of each record's: `values` are their bytes."""
    names = pa.array([name], pa.string()).take(pa.array(np.zeros(len(batch), np.int32)))
    pair = HEADERS_TYPE.value_type
    new = pa.StructArray.from_arrays([names, values.cast(pa.binary())], fields=list(pair))
    if not _some(batch):
        offsets = np.arange(len(batch) + 1, dtype=np.int32)
        return put(batch, "headers", pa.ListArray.from_arrays(offsets, new, type=HEADERS_TYPE))
    headers = batch.column("headers").cast(HEADERS_TYPE)
    old, rows = headers.flatten(), _rows(headers)
    order = np.argsort(np.concatenate((rows, np.arange(len(batch)))), kind="stable")
    offsets = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(batch)) + 1))).astype(np.int32)
    return put(batch, "headers", pa.ListArray.from_arrays(
        offsets, pa.concat_arrays([old, new]).take(pa.array(order)), type=HEADERS_TYPE))


def write_header(
    converter: HeaderConverter | None, topic: str, name: str, schema: Schema | None, value: Any
) -> bytes | None:
    """The bytes of a header, by the task's header converter (Connect's own default where there is none)."""
    return (converter or _DEFAULT).from_connect_header(topic, name, schema, value)


def _some(batch: pa.RecordBatch) -> bool:
    if "headers" not in batch.schema.names:
        return False
    headers = batch.column("headers")
    return bool(headers.null_count < len(headers)) and len(headers.flatten()) > 0


def _rows(headers: pa.Array) -> Any:
    """The row of each header."""
    return np.repeat(np.arange(len(headers)), np.diff(np.asarray(list_offsets(headers))))


_DEFAULT = SimpleHeaderConverter()
