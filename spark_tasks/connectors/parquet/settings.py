"""The parsed settings of the parquet sink."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParquetSettings:
    """The settings of a writer. `records`, `bytes`, `millis`: the limits of a file; 0 means no limit."""

    folder: str
    compression: str
    records: int
    bytes: int
    millis: int
    kafka_columns: bool
    code: tuple[str, ...] = ()  # folders of plugins, in which no file may be written
