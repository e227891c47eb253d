"""The sequence numbers seen of a stream, as a few intervals. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Interval = tuple[int, int]  # from, to (both included)


@dataclass(frozen=True, slots=True)
class SeenNumbers:
    """The numbers of one stream that have arrived. `seen` is sorted, without adjacent or overlapping intervals."""

    seen: tuple[Interval, ...] = ()
    records: int = 0
    duplicates: int = 0  # records that had been seen before
    disorder: int = 0  # new runs that began before a number that had already arrived

    @property
    def missing(self) -> int:
        """Numbers from 0 to the highest that have not been seen."""
        return self.highest + 1 - sum(last - first + 1 for first, last in self.seen)

    @property
    def highest(self) -> int:
        """The highest number seen; -1 if there is none."""
        return self.seen[-1][1] if self.seen else -1

    def after(self, run: Interval) -> SeenNumbers:
        """A run of consecutive numbers arrives."""
        first, last = run
        size = last - first + 1
        again = sum(max(0, min(last, b) - max(first, a) + 1) for a, b in self.seen)
        late = again < size and first < self.highest
        return SeenNumbers(
            merged([*self.seen, run]), self.records + size, self.duplicates + again, self.disorder + late
        )

    def to_json(self) -> dict[str, Any]:
        """For a summary file."""
        return {
            "records": self.records, "duplicates": self.duplicates, "disorder": self.disorder, "missing": self.missing,
            "highest": self.highest, "seen": [list(pair) for pair in self.seen],
        }  # fmt: skip

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> SeenNumbers:
        """What `to_json` wrote."""
        seen = tuple((int(a), int(b)) for a, b in described["seen"])
        return cls(seen, described["records"], described["duplicates"], described["disorder"])

    def joined(self, other: SeenNumbers) -> SeenNumbers:
        """Joined with the numbers that another task has seen of the same stream; common numbers count as duplicates."""
        both = merged([*self.seen, *other.seen])
        sizes = [sum(b - a + 1 for a, b in part) for part in (self.seen, other.seen, both)]
        return replace(
            self, seen=both, records=self.records + other.records, disorder=self.disorder + other.disorder,
            duplicates=self.duplicates + other.duplicates + sizes[0] + sizes[1] - sizes[2],
        )  # fmt: skip


def merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """The same numbers in as few intervals as possible."""
    found: list[Interval] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class SequenceSummary:
    """The numbers seen of all streams."""

    streams: Mapping[int, SeenNumbers] = field(default_factory=dict)

    def after(self, runs: Iterable[tuple[int, Interval]]) -> SequenceSummary:
        """Runs of streams arrive, in this order."""
        streams = dict(self.streams)
        for stream, run in runs:
            streams[stream] = streams.get(stream, SeenNumbers()).after(run)
        return SequenceSummary(streams)

    def joined(self, other: SequenceSummary) -> SequenceSummary:
        """Joined with another task's summary."""
        streams = dict(self.streams)
        for stream, seen in other.streams.items():
            streams[stream] = streams[stream].joined(seen) if stream in streams else seen
        return SequenceSummary(streams)

    def to_json(self) -> dict[str, Any]:
        """Totals, then each stream."""
        totals = {
            word: sum(getattr(seen, word) for seen in self.streams.values())
            for word in ("records", "duplicates", "disorder", "missing")
        }
        return {**totals, "streams": {str(stream): seen.to_json() for stream, seen in sorted(self.streams.items())}}

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> SequenceSummary:
        """What `to_json` wrote."""
        return cls({int(stream): SeenNumbers.from_json(seen) for stream, seen in described["streams"].items()})
