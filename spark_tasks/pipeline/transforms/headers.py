"""Changes headers in columns: lists of names and bytes, the bytes as in Kafka."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import Ints, all_valid, frozen, list_offsets, string_array, texts
from spark_tasks.arrays.jit import kernel
from spark_tasks.arrays.memory import copy_bytes
from spark_tasks.data.columns import HEADERS_TYPE
from spark_tasks.pipeline.transforms.columns_or_rows import put

_MAX_BYTES: Final = 2**31 - 1  # in a column with 32-bit offsets

def has_header(batch: pa.RecordBatch, name: str) -> pa.BooleanArray:
    """Returns for each record whether it has a header with this name."""
    has_name = np.zeros(len(batch), np.bool_)
    if _some(batch):
        headers = batch.column("headers")
        matches = pc.equal(headers.flatten().field("key"), name).to_numpy(zero_copy_only=False)
        has_name[_rows(headers)[matches]] = True
    return pa.array(has_name)


def without(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """Returns the batch without the headers with these names."""
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


def with_headers(batch: pa.RecordBatch, new: Sequence[tuple[str, pa.Array]]) -> pa.RecordBatch:
    """Returns the batch with new headers after those that each record has. `new`: for each header its name, and its
    bytes for each record.
    """
    rows, starts, old = len(batch), np.zeros(len(batch) + 1, np.int32), pa.array([], HEADERS_TYPE.value_type)
    if _some(batch):
        headers = batch.column("headers").cast(HEADERS_TYPE)
        starts, old = np.asarray(list_offsets(headers)), headers.flatten()
    pairs = [
        _names(starts, old.field("key"), [name for name, _ in new]),
        _interleaved(starts, old.field("value"), [written for _, written in new], 1),
    ]
    ends = (starts + len(new) * np.arange(rows + 1)).astype(np.int32)
    entries = pa.StructArray.from_arrays(pairs, fields=list(HEADERS_TYPE.value_type))
    return put(batch, "headers", pa.ListArray.from_arrays(ends, entries, type=HEADERS_TYPE))


def _names(starts: Ints, old: pa.Array, new: Sequence[str]) -> pa.Array:
    """Returns each row's old names, then the new ones. Usually all rows have the same, which are then repeated."""
    rows, before = len(starts) - 1, _repeated(starts, old)
    if before is None:
        return _interleaved(starts, old, [pa.array([name], pa.string()) for name in new], 0)
    each = [*before, *(name.encode() for name in new)]
    whole = b"".join(each)
    _check_size(rows, len(whole) * rows)
    offsets, begins = np.zeros(rows * len(each) + 1, np.int32), np.arange(rows, dtype=np.int32) * len(whole)
    for place, end in enumerate(accumulate(map(len, each))):  # a column at a time: numpy is slow with short rows
        np.add(begins, end, out=offsets[place + 1 :: len(each)])
    return string_array(np.frombuffer(whole * rows, np.uint8), offsets)


def _repeated(starts: Ints, old: pa.Array) -> list[bytes] | None:
    """The texts that each row has, the same in all of them; None if rows differ."""
    rows = len(starts) - 1
    if not len(old) or not rows:
        return []
    count, found = int(starts[1]), texts(old)
    if old.null_count or count * rows != len(old) or not (starts == np.arange(rows + 1) * count).all():
        return None
    ends = found.offsets - found.offsets[0]
    size = int(ends[count])
    if size * rows != ends[-1] or not (np.diff(ends).reshape(rows, count) == np.diff(ends[: count + 1])).all():
        return None
    data = found.data[found.offsets[0] : found.offsets[-1]].reshape(rows, size)
    if not (data == data[0]).all():
        return None
    return [data[0, begin:end].tobytes() for begin, end in pairwise(ends[: count + 1])]


def _check_size(rows: int, size: int) -> None:
    if size > _MAX_BYTES:
        raise OverflowError(f"the headers of {rows} records have {size} bytes, more than a column holds")


def _interleaved(starts: Ints, old: pa.Array, new: Sequence[pa.Array], step: int) -> pa.Array:
    """Returns for each row its old values, then one value of each new column: the row's own (`step` 1), or the same for
    all rows (`step` 0).
    """
    rows, before, columns = len(starts) - 1, texts(old), [texts(array) for array in new]
    sizes = [int(column.offsets[-1] - column.offsets[0]) for column in columns]
    total = int(before.offsets[-1] - before.offsets[0]) + sum(sizes) * (1 if step else rows)
    _check_size(rows, total)
    bounds = np.array([column.offsets - column.offsets[0] + at for column, at in zip(
        columns, np.cumsum([0, *sizes[:-1]]), strict=True)], np.int64)  # fmt: skip
    data = np.concatenate([column.data[column.offsets[0] : column.offsets[-1]] for column in columns])
    given = np.array([
        all_valid(len(column.offsets) - 1) if column.valid is None else column.valid for column in columns])
    kept = all_valid(len(old)) if before.valid is None else before.valid
    count = len(old) + len(new) * rows
    out, ends, there = np.empty(total, np.uint8), np.zeros(count + 1, np.int32), np.empty(count, np.bool_)
    used = _interleave(frozen(starts), frozen(before.data), frozen(before.offsets), kept, data, bounds, given, step,
                       out, ends, there)
    return string_array(out[:used], ends, there, old.type)


@kernel
def _interleave(  # noqa: PLR0917
    starts: Any, old: Any, old_ends: Any, kept: Any, new: Any, bounds: Any, given: Any, step: int,
    out: Any, ends: Any, there: Any,
) -> int:  # fmt: skip
    at = item = 0
    for row in range(len(starts) - 1):
        for i in range(starts[row], starts[row + 1]):
            there[item] = kept[i]
            if kept[i]:  # ignore the values of a null list
                count = old_ends[i + 1] - old_ends[i]
                copy_bytes(out, at, old, np.int64(old_ends[i]), np.int64(count))
                at += count
            item += 1
            ends[item] = at
        for j in range(len(bounds)):
            there[item] = given[j, row * step]
            if there[item]:
                begin, end = bounds[j, row * step], bounds[j, row * step + 1]
                copy_bytes(out, at, new, begin, end - begin)
                at += end - begin
            item += 1
            ends[item] = at
    return at


def _some(batch: pa.RecordBatch) -> bool:
    if "headers" not in batch.schema.names:
        return False
    headers = batch.column("headers")
    return bool(headers.null_count < len(headers)) and len(headers.flatten()) > 0


def _rows(headers: pa.Array) -> Any:
    """Returns the row of each header."""
    return np.repeat(np.arange(len(headers)), np.diff(np.asarray(list_offsets(headers))))
