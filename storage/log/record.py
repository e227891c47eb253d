"""What a log gives out, and where in it that stands."""

from __future__ import annotations

from typing import NamedTuple


class LogRecord(NamedTuple):
    """One record; `timestamp` in ms since the epoch. A tombstone's value is None."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    def __str__(self) -> str:
        """Key and place, for log lines."""
        key = "no key" if self.key is None else f"the key {shown(self.key.decode(errors='replace'))}"
        return f"record with {key} (partition {self.partition}, offset {self.offset})"


class Position(NamedTuple):
    """Where an acknowledged record is."""

    partition: int
    offset: int


KeyValue = tuple[bytes, bytes | None]


_SHOWN = 120  # characters of a text that anybody may have written


def shown(text: object) -> str:
    """A text from a topic as log lines show it: quoted, in ASCII (it cannot look like a line of its own), cut."""
    cut = str(text)[: _SHOWN + 1]
    return ascii(cut) if len(cut) <= _SHOWN else ascii(cut[:_SHOWN]) + "…"
