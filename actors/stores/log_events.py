"""What the reader of an internal topic tells the actor of its store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage.log.record import LogRecord


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """Records, in the order of their partitions."""

    records: Sequence[LogRecord]


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that was there at the start is read, or cannot be."""

    error: Exception | None
