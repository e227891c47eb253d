"""Which dead letters of a partition have been replayed, stored as a consumer group's offset and its metadata. Pure."""

from __future__ import annotations

import base64
import binascii
import itertools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from spark_tasks.errors import ConnectError

_MARK: Final = "heeler-replay:"
_LONGEST: Final = 4096  # Kafka's default offset.metadata.max.bytes
_MAX_BYTES: Final = 1_000_000  # of decompressed metadata, which anybody could have committed to Kafka


class ScatteredError(ConnectError):
    """The replayed letters are too scattered in the queue to be recorded in the group's offset metadata."""


@dataclass(frozen=True, slots=True)
class ReplayedOffsets:
    """The offsets of replayed letters: all below `low`, and the `spans` above it. Each span is (first, end), end
    exclusive; they are ascending and have gaps between them. `low` is committed as the group's offset, together with
    `metadata`.
    """

    low: int = 0
    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, offset: int, metadata: str) -> ReplayedOffsets:
        """Parses a committed offset and its metadata. Metadata that heeler did not write is ignored."""
        return _joined(offset, _read(offset, metadata))

    def metadata(self) -> str:
        """Returns the metadata to commit, which `of` parses. Raises ScatteredError if it is too long for brokers."""
        if not self.spans:
            return ""
        numbers, at = [], self.low
        for first, end in self.spans:
            numbers += [first - at, end - first]
            at = end
        text = _MARK + base64.b64encode(zlib.compress(bytes(_varints(numbers)), 9)).decode()
        if len(text) > _LONGEST:
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


def _joined(low: int, parts: Iterable[tuple[int, int]]) -> ReplayedOffsets:
    spans = list[tuple[int, int]]()
    for first, end in sorted(parts):
        if first <= low:
            low = max(low, end)
        elif spans and first <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((first, end))
    return ReplayedOffsets(low, tuple(spans))


def _read(low: int, metadata: str) -> list[tuple[int, int]]:
    if not metadata.startswith(_MARK):
        return []
    try:
        packed = base64.b64decode(metadata.removeprefix(_MARK), validate=True)
        numbers = list(_numbers(zlib.decompressobj().decompress(packed, _MAX_BYTES)))
    except (binascii.Error, zlib.error, ValueError):
        return []
    spans, at = [], low
    for gap, length in zip(numbers[::2], numbers[1::2], strict=False):
        spans.append((at + gap, at + gap + length))
        at += gap + length
    return spans if at < 2**63 else []


def _varints(numbers: Iterable[int]) -> Iterator[int]:
    for number in numbers:
        left = number
        while left > 127:
            yield left & 127 | 128
            left >>= 7
        yield left


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 127) << shift
        shift += 7
        if shift > 70:
            raise ValueError("a number has more than 70 bits")
        if byte < 128:
            yield number
            number = shift = 0
