"""Builds columns of maps. Arrow ends the process for a map with a null key, so all maps are built here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import Bools, Ints, all_valid, bitmap, texts
from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.schema import Schema, Type
from spark_tasks.java.hash import entry_order
from spark_tasks.pipeline.converters.base import BadRowError


def map_array(schema: Schema, offsets: Ints, keys: pa.Array, values: pa.Array, valid: Bools | None = None) -> pa.Array:
    """Returns a column of maps, as `map_of` does. Of entries with the same key it has only the last one. Entries whose
    keys are texts are in the order of Java's HashMap.
    """
    _refuse_null_keys(offsets, keys)
    last = _last_of_each(keys, offsets)
    if not last.all():
        offsets = np.concatenate(([0], np.cumsum(last)))[offsets].astype(np.int32)
        keys, values = keys.filter(pa.array(last)), values.filter(pa.array(last))
    if schema.key is not None and schema.key.type is Type.STRING:
        found = texts(keys)
        order = pa.array(entry_order(found.data, found.offsets, offsets))
        keys, values = keys.take(order), values.take(order)
    return map_of(to_arrow(schema), offsets, keys, values, valid)


def map_of(
    kind: pa.MapType, offsets: Ints, keys: pa.Array, values: pa.Array, valid: Bools | None = None
) -> pa.MapArray:
    """Returns a column of maps. Map i has the entries offsets[i] to offsets[i + 1]; it is null unless valid[i]. Raises
    BadRowError for a map with a null key.
    """
    _refuse_null_keys(offsets, keys)
    pairs = pa.StructArray.from_arrays([keys, values], fields=[kind.key_field, kind.item_field])
    buffers = [bitmap(valid), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers, children=[pairs])


def _refuse_null_keys(offsets: Ints, keys: pa.Array) -> None:
    if keys.null_count:
        first = int(np.argmax(keys.is_null().to_numpy(zero_copy_only=False)))
        row = int(np.searchsorted(offsets, first, side="right")) - 1
        raise BadRowError(row, "a map has a null key, which Arrow does not support")


def _last_of_each(keys: pa.Array, offsets: Ints) -> Bools:
    """Returns which entries of maps to keep: of entries with the same key, the last one."""
    if pa.types.is_nested(keys.type) or pa.types.is_binary(keys.type):
        return all_valid(len(keys))  # in Java, two arrays of bytes are never equal; other such keys hardly ever are
    if pa.types.is_floating(keys.type):
        keys = keys.view(pa.int64() if pa.types.is_float64(keys.type) else pa.int32())  # as Double.equals compares them
    rows = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    _, from_behind = np.unique((rows * (len(codes) + 1) + codes)[::-1], return_index=True)
    last = np.zeros(len(codes), np.bool_)
    last[len(codes) - 1 - from_behind] = True
    return last
