"""Converts PySpark's read limits of micro-batches to numbers."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

DEFAULT_BYTES = 256 * 1024 * 1024  # for files, whose data is not kept in memory
_ROW_BYTES = 100  # assumed for rows of unknown size


def max_bytes(limit: ReadLimit | None) -> int | None:
    """Returns the bytes that a limit allows, or None if there is no limit."""
    if isinstance(limit, ReadMaxBytes):
        return int(limit.max_bytes)
    if isinstance(limit, ReadMaxRows):
        return int(limit.max_rows) * _ROW_BYTES
    return None


def max_rows(limit: ReadLimit | None, *, row_bytes: int) -> int | None:
    """Returns the rows of `row_bytes` bytes that a limit allows, or None if there is no limit."""
    if isinstance(limit, ReadMaxRows):
        return int(limit.max_rows)
    if isinstance(limit, ReadMaxBytes):
        return max(1, int(limit.max_bytes) // row_bytes)
    return None


def max_files(limit: ReadLimit | None) -> int | None:
    """Returns the files that a limit allows, or None if there is no limit."""
    return int(limit.max_files) if isinstance(limit, ReadMaxFiles) else None
