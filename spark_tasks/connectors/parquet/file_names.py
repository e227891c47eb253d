"""The names of the parquet sink's files, which contain their offsets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<first>\d{20})-(?P<last>\d{20})\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets from `first` to `last` (inclusive) of a topic partition, which one file has."""

    topic: str
    partition: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """The file's name. Names have the same order as offsets."""
        return f"{self.topic}-{self.partition}-{self.first:020d}-{self.last:020d}.parquet"

    def overlaps(self, other: OffsetRange) -> bool:
        """Returns whether the ranges have a common offset."""
        same = (self.topic, self.partition) == (other.topic, other.partition)
        return same and self.first <= other.last and other.first <= self.last


def parse(name: str) -> OffsetRange | None:
    """Parses a file's name. Returns None if it is not a name of this sink."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return OffsetRange(match["topic"], int(match["partition"]), int(match["first"]), int(match["last"]))


def present(folder: str, topic: str, partition: int) -> list[OffsetRange]:
    """Returns the ranges of the existing files of a partition, in order."""
    path = Path(folder)
    names = (entry.name for entry in path.iterdir()) if path.is_dir() else ()
    ranges = (parse(name) for name in names if name.startswith(f"{topic}-{partition}-"))
    return sorted(r for r in ranges if r is not None and (r.topic, r.partition) == (topic, partition))
