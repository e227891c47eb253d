"""The sequence numbers of a stream that have arrived, stored as intervals. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Interval = tuple[int, int]  # first, last (inclusive)


@dataclass(frozen=True, slots=True)
class SeenNumbers:
    """The numbers of one stream that have arrived. `seen`: sorted intervals that neither overlap nor adjoin."""

    seen: tuple[Interval, ...] = ()
    records: int = 0
    duplicates: int = 0  # records whose number had already arrived
    disorder: int = 0  # runs with new numbers that start before a number that had already arrived

    @property
    def missing(self) -> int:
        """How many numbers from 0 to the highest have not arrived."""
        return self.highest + 1 - sum(last - first + 1 for first, last in self.seen)

    @property
    def highest(self) -> int:
        """The highest number that has arrived, -1 if there is none."""
        return self.seen[-1][1] if self.seen else -1

    def after(self, run: Interval) -> SeenNumbers:
        """Returns the state after the arrival of a run of consecutive numbers."""
        first, last = run
        size = last - first + 1
        again = sum(max(0, min(last, b) - max(first, a) + 1) for a, b in self.seen)
        late = again < size and first < self.highest
        return SeenNumbers(
            merged([*self.seen, run]), self.records + size, self.duplicates + again, self.disorder + late
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the state for a summary file."""
        return {
            "records": self.records, "duplicates": self.duplicates, "disorder": self.disorder, "missing": self.missing,
            "highest": self.highest, "seen": [list(pair) for pair in self.seen],
        }  # fmt: skip

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> SeenNumbers:
        """Parses the result of `to_json`."""
        seen = tuple((int(a), int(b)) for a, b in described["seen"])
        return cls(seen, described["records"], described["duplicates"], described["disorder"])

    def joined(self, other: SeenNumbers) -> SeenNumbers:
        """Merges the numbers of the same stream that arrived at another task. Common numbers count as duplicates."""
        both = merged([*self.seen, *other.seen])
        sizes = [sum(b - a + 1 for a, b in part) for part in (self.seen, other.seen, both)]
        return replace(
            self, seen=both, records=self.records + other.records, disorder=self.disorder + other.disorder,
            duplicates=self.duplicates + other.duplicates + sizes[0] + sizes[1] - sizes[2],
        )  # fmt: skip


def merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Returns the same numbers in as few intervals as possible."""
    found: list[Interval] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class SequenceSummary:
    """The numbers of all streams that have arrived."""

    streams: Mapping[int, SeenNumbers] = field(default_factory=dict)

    def after(self, runs: Iterable[tuple[int, Interval]]) -> SequenceSummary:
        """Returns the state after the arrival of runs of streams, in this order."""
        streams = dict(self.streams)
        for stream, run in runs:
            streams[stream] = streams.get(stream, SeenNumbers()).after(run)
        return SequenceSummary(streams)

    def joined(self, other: SequenceSummary) -> SequenceSummary:
        """Merges another task's summary."""
        streams = dict(self.streams)
        for stream, seen in other.streams.items():
            streams[stream] = streams[stream].joined(seen) if stream in streams else seen
        return SequenceSummary(streams)

    def to_json(self) -> dict[str, Any]:
        """Returns totals, followed by each stream."""
        totals = {
            word: sum(getattr(seen, word) for seen in self.streams.values())
            for word in ("records", "duplicates", "disorder", "missing")
        }
        return {**totals, "streams": {str(stream): seen.to_json() for stream, seen in sorted(self.streams.items())}}

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> SequenceSummary:
        """Parses the result of `to_json`."""
        return cls({int(stream): SeenNumbers.from_json(seen) for stream, seen in described["streams"].items()})
