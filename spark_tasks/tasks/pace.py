"""How large a batch is, and how long an idle task sleeps. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

FIRST_RECORDS = 200_000  # of a task's first split, when nothing is known about the records
LEAST_RECORDS = 1_000
MOST_RECORDS = 4_000_000
MOST_BYTES = 256 * 1024 * 1024  # of a split; limits what is repeated after a failure
TARGET_SECONDS = 0.8  # of a split: the fixed cost of a batch (30 ms) does not matter, and a stop does not take long
MOST_GROWTH = 10.0


@dataclass(frozen=True, slots=True)
class SplitSize:
    """How many records a split should have, learned from earlier splits; never more than `most`."""

    records: int = FIRST_RECORDS
    record_bytes: float = 0.0
    most: int = MOST_RECORDS

    @classmethod
    def at_most(cls, most: int) -> SplitSize:
        """The first size, with a limit."""
        return cls(min(FIRST_RECORDS, most), most=min(most, MOST_RECORDS))

    def after(self, records: int, size: int, seconds: float) -> SplitSize:
        """The size after a split of so many records and bytes. A small split says nothing about speed."""
        if records < LEAST_RECORDS:
            return self
        record_bytes = size / records
        ideal = records * TARGET_SECONDS / max(seconds, 1e-3)
        was_short = records < self.records // 2
        wanted = min(ideal, self.records if was_short else self.records * MOST_GROWTH)
        if record_bytes:
            wanted = min(wanted, MOST_BYTES / record_bytes)
        return replace(self, records=int(min(max(wanted, LEAST_RECORDS), self.most)), record_bytes=record_bytes)

    def seconds(self, records: int) -> float:
        """Roughly how long a split of so many records takes."""
        return TARGET_SECONDS * records / self.records


SHORTEST_IDLE_MS = 5
LONGEST_IDLE_MS = 100
LONG_IDLE_MS = 500
LONG_IDLE_AFTER_MS = 60_000
LOOKS_PER_S = 500


@dataclass(frozen=True, slots=True)
class Idling:
    """The pause before a source that has nothing new is asked again: short at first, then longer and longer.

    It is about an eighth of the time since the last record, which limits how long the next one waits. Within a minute
    after a record it is at most LONGEST_IDLE_MS, so that a source of one record a second delays it by 50 ms on average;
    later at most LONG_IDLE_MS, so that a hundred idle tasks cost little. Among more (IdleTasks) it may grow further.
    """

    idle_ms: int = SHORTEST_IDLE_MS
    since_ms: int = 0

    def next(self, crowded_ms: int = 0) -> Idling:
        """The state after `idle_ms` more without anything new. `crowded_ms`: how long the pause may be at least."""
        since = self.since_ms + self.idle_ms
        longest = LONG_IDLE_MS if since > LONG_IDLE_AFTER_MS else LONGEST_IDLE_MS
        return Idling(min(self.idle_ms + max(1, self.idle_ms // 8), max(longest, crowded_ms)), since)


class IdleTasks:
    """The source tasks of a worker that have nothing new: a thousand look no more often than fifty. Any thread."""

    def __init__(self) -> None:
        self._tasks: set[str] = set()

    def add(self, task: str) -> None:
        """It has nothing new."""
        self._tasks.add(task)

    def discard(self, task: str) -> None:
        """It has, or it is over."""
        self._tasks.discard(task)

    @property
    def crowded_ms(self) -> int:
        """The pause with which all of them look LOOKS_PER_S times a second."""
        return len(self._tasks) * 1000 // LOOKS_PER_S
