"""Which dead letters of a partition have been replayed, stored as a consumer group's offset and its metadata. Pure."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from spark_tasks.dead_letters.offset_runs import MAX_METADATA, Run, merged, packed, unpacked
from spark_tasks.errors import ConnectError

_MARK: Final = "heeler-replay:"


class ScatteredError(ConnectError):
    """The replayed letters are too scattered in the queue to be recorded in the group's offset metadata."""


@dataclass(frozen=True, slots=True)
class ReplayedOffsets:
    """The offsets of replayed letters: all below `low`, and the `spans` above it, which are ascending and have gaps
    between them. `low` is committed as the group's offset, together with `metadata`.
    """

    low: int = 0
    spans: tuple[Run, ...] = ()

    @classmethod
    def of(cls, offset: int, metadata: str) -> ReplayedOffsets:
        """Parses a committed offset and its metadata. Metadata that heeler did not write is ignored."""
        return _joined(offset, _read(offset, metadata))

    def metadata(self) -> str:
        """Returns the metadata to commit, which `of` parses. Raises ScatteredError if it is too long for brokers."""
        if not self.spans:
            return ""
        text = _MARK + base64.b64encode(packed(self.spans, self.low)).decode()
        if len(text) > MAX_METADATA:
            raise ScatteredError(
                "the replayed letters are too scattered in the queue to be recorded: replay those between them first "
                "(filter by offsets only, or not at all), or replay fewer at a time"
            )
        return text

    def covers(self, offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns for each offset whether its letter has been replayed (bool array)."""
        replayed = offsets < self.low
        if self.spans:
            bounds = np.array(self.spans, np.int64)
            at = np.searchsorted(bounds[:, 0], offsets, side="right") - 1
            replayed |= (at >= 0) & (offsets < bounds[np.maximum(at, 0), 1])
        return replayed

    def after(self, start: int, end: int, left: np.ndarray[Any, Any]) -> ReplayedOffsets:
        """Returns the state after a replay from `start` (inclusive) to `end` (exclusive) that skipped the offsets in
        `left` (ascending).
        """
        edges = [start - 1, *left.tolist(), end]
        more = ((a + 1, b) for a, b in itertools.pairwise(edges) if a + 1 < b)
        return _joined(self.low, [*self.spans, *more])


def _joined(low: int, parts: Iterable[Run]) -> ReplayedOffsets:
    spans = list[Run]()
    for first, end in merged(sorted(parts)):
        if first <= low:
            low = max(low, end)
        else:
            spans.append((first, end))
    return ReplayedOffsets(low, tuple(spans))


def _read(low: int, metadata: str) -> list[Run]:
    if not metadata.startswith(_MARK):
        return []
    try:
        return unpacked(base64.b64decode(metadata.removeprefix(_MARK), validate=True), low)
    except ValueError:
        return []
