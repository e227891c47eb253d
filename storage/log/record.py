"""The records of a log, and their positions."""

from __future__ import annotations

from typing import NamedTuple

from typing_extensions import override


class LogRecord(NamedTuple):
    """One record; `timestamp` in ms since the epoch. A tombstone's value is None."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @override
    def __str__(self) -> str:
        """Key and position, for log lines."""
        key = "no key" if self.key is None else f"the key {shown(self.key.decode(errors='replace'))}"
        return f"record with {key} (partition {self.partition}, offset {self.offset})"


class Position(NamedTuple):
    """The position of an acknowledged record."""

    partition: int
    offset: int


KeyValue = tuple[bytes, bytes | None]


_SHOWN = 120  # characters of untrusted text in a log line


def shown(text: object) -> str:
    """Untrusted text for a log line: quoted, in ASCII (so that it cannot forge a line), and truncated."""
    cut = str(text)[: _SHOWN + 1]
    return ascii(cut) if len(cut) <= _SHOWN else ascii(cut[:_SHOWN]) + "…"
