"""How large a batch is, and how long an idle task sleeps. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

FIRST_RECORDS = 200_000  # in a task's first split, when the size and speed of its records are unknown
MIN_SPLIT_RECORDS = 1_000
MAX_SPLIT_RECORDS = 4_000_000
MAX_SPLIT_BYTES = 256 * 1024 * 1024  # in a split; limits the work that is repeated after a failure
TARGET_SECONDS = 0.8  # for a split: much more than the fixed cost of a batch (30 ms), and still quick to stop
MAX_GROWTH = 10.0


@dataclass(frozen=True, slots=True)
class SplitSize:
    """How many records the next split should have, estimated from earlier splits. `max_records`: an upper limit."""

    records: int = FIRST_RECORDS
    record_bytes: float = 0.0
    max_records: int = MAX_SPLIT_RECORDS

    @classmethod
    def at_most(cls, max_records: int) -> SplitSize:
        """Returns the size for a task's first split, with an upper limit of `max_records` records."""
        return cls(min(FIRST_RECORDS, max_records), max_records=min(max_records, MAX_SPLIT_RECORDS))

    def after(self, records: int, size: int, seconds: float) -> SplitSize:
        """Returns the size for the next split after one of `records` records and `size` bytes that took `seconds`.
        Small splits are ignored, since fixed costs dominate their time.
        """
        if records < MIN_SPLIT_RECORDS:
            return self
        record_bytes = size / records
        ideal = records * TARGET_SECONDS / max(seconds, 1e-3)
        was_short = records < self.records // 2
        wanted = min(ideal, self.records if was_short else self.records * MAX_GROWTH)
        if record_bytes:
            wanted = min(wanted, MAX_SPLIT_BYTES / record_bytes)
        records = int(min(max(wanted, MIN_SPLIT_RECORDS), self.max_records))
        return replace(self, records=records, record_bytes=record_bytes)

    def seconds(self, records: int) -> float:
        """Estimates how long a split of `records` records takes."""
        return TARGET_SECONDS * records / self.records


SHORTEST_IDLE_MS = 5
LONGEST_IDLE_MS = 100
LONG_IDLE_MS = 500
LONG_IDLE_AFTER_MS = 60_000
POLL_MS = 2  # the share of a second of one poll on the worker: all idle tasks together poll 500 times a second
SPLIT_POLL_MS = 10  # of one that takes a split, which costs more than a millisecond of CPU time


@dataclass(frozen=True, slots=True)
class Idling:
    """The pause before the next poll of a source that has no new records. It grows from poll to poll.

    The pause is about an eighth of the time since the last record, so the next record waits for no more than that. In
    the first minute it is at most LONGEST_IDLE_MS: a source with one record per second delays it by 50 ms on average.
    Later it is at most LONG_IDLE_MS, which keeps a hundred idle tasks cheap; with more tasks it may be longer
    (IdleTasks).
    """

    idle_ms: int = SHORTEST_IDLE_MS
    since_ms: int = 0

    def next(self, shared_pause_ms: int = 0) -> Idling:
        """Returns the state after another pause without new records. `shared_pause_ms`: the limit of the pause is at
        least this (see IdleTasks).
        """
        since = self.since_ms + self.idle_ms
        longest = LONG_IDLE_MS if since > LONG_IDLE_AFTER_MS else LONGEST_IDLE_MS
        return Idling(min(self.idle_ms + max(1, self.idle_ms // 8), max(longest, shared_pause_ms)), since)


class IdleTasks:
    """The source tasks of a worker that have no new records. It limits how often all of them together poll.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, int] = {}

    def add(self, task: str, *, in_split: bool = False) -> int:
        """Adds a task that has no new records. Returns the shortest pause until it polls again, in ms. `in_split`: its
        polls are splits. Such tasks do not poll more often either when they have had records a moment ago, unless the
        pause would be longer than LONG_IDLE_MS.
        """
        self._tasks[task] = SPLIT_POLL_MS if in_split else POLL_MS
        return min(self.shared_pause_ms, LONG_IDLE_MS) if in_split else 0

    def discard(self, task: str) -> None:
        """Removes a task that has new records or has ended."""
        self._tasks.pop(task, None)

    @property
    def shared_pause_ms(self) -> int:
        """The pause with which the polls of all tasks get their share."""
        return sum(tuple(self._tasks.values()))
