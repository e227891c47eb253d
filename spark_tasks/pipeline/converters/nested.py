"""Builds columns of nested values for all converters: defaults, and errors with the field and the row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import list_offsets
from spark_tasks.data.schema import Schema
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json_typed import default_value


def filled(array: pa.Array, schema: Schema) -> pa.Array:
    """Replaces nulls by the schema's default."""
    spare = default_value(schema)
    try:
        spare = spare.cast(array.type)
    except pa.ArrowInvalid:  # only the default has long decimals
        array = array.cast(spare.type)
    places = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.arange(len(array)), len(array))
    return pa.concat_arrays([array, spare]).take(pa.array(places))


def part(schema: Schema | None) -> Schema:
    """Returns the schema of items, keys or values. Raises DataError if it is None."""
    if schema is None:
        raise DataError("a schema has no element, key or value type")
    return schema


def mask_of(wire: pa.Array) -> pa.Array | None:
    """Returns the mask of null rows, or None if no row is null."""
    return wire.is_null() if wire.null_count else None


def named(name: str, build: Callable[[], pa.Array]) -> pa.Array:
    """Calls `build`. An error has the name of the field."""
    try:
        return build()
    except BadRowError as bad:
        raise BadRowError(bad.row, f"field {name}: {bad}") from None
    except pa.ArrowInvalid as error:
        raise DataError(f"field {name}: {error}") from error


def inside(lists: pa.Array, build: Callable[[], pa.Array]) -> pa.Array:
    """Calls `build` for the items of lists or maps. An error has the row of the list or map."""
    try:
        return build()
    except BadRowError as bad:
        raise BadRowError(outer_row(lists, bad.row), bad) from None


def outer_row(lists: pa.Array, item: int) -> int:
    """Returns the row of the list or map that an item belongs to."""
    offsets = np.asarray(lists.offsets if pa.types.is_map(lists.type) else list_offsets(lists))
    return int(np.searchsorted(offsets - offsets[0], item, side="right")) - 1
