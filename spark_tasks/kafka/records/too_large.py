"""Finds records that are too large for a request before any of them is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.kafka.records.encode import encode
from spark_tasks.kafka.records.errors import RecordTooLargeError


def too_large(raw: pa.RecordBatch, limit: int) -> list[tuple[int, int]]:
    """Returns (row, size as a batch of one record) of the records larger than `limit`. Sizes in bytes."""
    if raw.nbytes <= limit // 2:  # so none is large, although a record in a batch of its own has some more bytes
        return []
    rows_and_sizes = []
    for row in np.flatnonzero(sizes_of(raw) > limit // 2).tolist():
        try:
            encode(raw, rows=np.array([row]), no_timestamp=0, max_batch_bytes=limit)
        except RecordTooLargeError as error:
            rows_and_sizes.append((row, error.size))
    return rows_and_sizes


def sizes_of(raw: pa.RecordBatch) -> np.ndarray[Any, Any]:
    """Returns the bytes of each record's key, value and headers."""

    def lengths(array: pa.Array) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = pc.fill_null(pc.binary_length(array), 0).to_numpy().astype(np.int64)
        return found

    sizes: np.ndarray[Any, Any] = lengths(raw.column("key")) + lengths(raw.column("value"))
    headers = raw.column("headers")
    pairs, rows = pc.list_flatten(headers), pc.list_parent_indices(headers).to_numpy()
    np.add.at(sizes, rows, lengths(pc.struct_field(pairs, "key")) + lengths(pc.struct_field(pairs, "value")))
    return sizes
