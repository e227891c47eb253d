"""Messages from the reader of an internal topic to the actor of its store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage.log.record import LogRecord


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """New records, in the order of their partitions."""

    records: Sequence[LogRecord]


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All records that existed at the start have been read, or reading them failed."""

    error: Exception | None
