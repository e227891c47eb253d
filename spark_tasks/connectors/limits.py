"""Read limits of micro-batches, as numbers."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

DEFAULT_BYTES = 256 * 1024 * 1024  # of files: they pass through, nobody holds them
_ROW_BYTES = 100  # taken for the size of rows that nobody has seen


def max_bytes(limit: ReadLimit | None) -> int | None:
    """How many bytes a limit allows, None for no limit."""
    if isinstance(limit, ReadMaxBytes):
        return int(limit.max_bytes)
    if isinstance(limit, ReadMaxRows):
        return int(limit.max_rows) * _ROW_BYTES
    return None


def max_rows(limit: ReadLimit | None, *, row_bytes: int) -> int | None:
    """How many rows a limit allows, None for no limit; rows are taken to have `row_bytes`."""
    if isinstance(limit, ReadMaxRows):
        return int(limit.max_rows)
    if isinstance(limit, ReadMaxBytes):
        return max(1, int(limit.max_bytes) // row_bytes)
    return None


def max_files(limit: ReadLimit | None) -> int | None:
    """How many files a limit allows, None for no limit."""
    return int(limit.max_files) if isinstance(limit, ReadMaxFiles) else None
