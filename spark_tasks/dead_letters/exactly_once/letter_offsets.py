"""The offsets of a partition's records that have a dead letter, as the metadata of a group's offset. Pure."""

from __future__ import annotations

import base64
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_PREFIX: Final = "heeler-letters-of:"
LONGEST: Final = 4096  # Kafka's default offset.metadata.max.bytes
_MAX_BYTES: Final = 1 << 20  # of a text that was decompressed
_MAX_RUNS: Final = 1 << 14  # each needs at most 20 bytes before they are compressed
_FEW: Final = 1 << 11  # runs, which are compressed at once

Run = tuple[int, int]
"""The first offset, and the end (exclusive)."""


@dataclass(frozen=True, slots=True)
class LetterOffsets:
    """A set of offsets. `runs`: in ascending order, with a gap between two of them."""

    runs: tuple[Run, ...] = ()

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        at = bisect_right(self.runs, (offset, offset + 1)) - 1  # the last run that begins at the offset or before it
        return any(first <= offset < end for first, end in self.runs[max(at, 0) : at + 2])

    def with_more(self, offsets: Iterable[int]) -> LetterOffsets:
        """Returns these offsets and others."""
        return LetterOffsets(tuple(_merged(sorted([*self.runs, *((offset, offset + 1) for offset in offsets)]))))

    def since(self, offset: int) -> LetterOffsets:
        """Returns the offsets from `offset` on."""
        return LetterOffsets(tuple((max(first, offset), end) for first, end in self.runs if end > offset))

    def metadata(self) -> str:
        """Returns the metadata, which `parsed` reads; see `metadata_within`."""
        return self.metadata_within(LONGEST)[0]

    def metadata_within(self, longest: int) -> tuple[str, LetterOffsets]:
        """Returns metadata of at most `longest` characters, and the offsets in it: without the first ones if there are
        too many runs. 4096 characters are enough for more than a thousand runs that are far apart.
        """
        kept, text = 0, _text(())
        limit, some, grows = min(len(self.runs), _MAX_RUNS), min(len(self.runs), _FEW), True
        while kept < limit:  # the last `kept` runs fit, more than `limit` do not
            tried = _text(self.runs[-some:])
            if len(tried) <= longest:
                kept, text = some, tried
            else:
                limit, grows = some - 1, False
            some = min(2 * some, limit) if grows else (kept + limit + 1) // 2
        return text, LetterOffsets(self.runs[len(self.runs) - kept :])


def parsed(text: str) -> LetterOffsets | None:
    """Returns the offsets in the metadata of a group's offset; None if it is other metadata."""
    if not text.startswith(_PREFIX):
        return None
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(base64.b85decode(text.removeprefix(_PREFIX)), _MAX_BYTES)
    except (ValueError, zlib.error):
        return None
    if not reader.eof:
        return None
    numbers = list(_decoded(data))
    runs, end = list[Run](), 0
    for gap, length in zip(numbers[::2], numbers[1::2], strict=False):
        runs.append((end + gap, end + gap + length))
        end += gap + length
    return LetterOffsets(tuple(runs))


def _merged(runs: Iterable[Run]) -> Iterator[Run]:
    """Yields sorted runs, those that touch each other as one."""
    before: Run | None = None
    for first, end in runs:
        if before is not None and first <= before[1]:
            before = before[0], max(before[1], end)
            continue
        if before is not None:
            yield before
        before = first, end
    if before is not None:
        yield before


def _text(runs: Iterable[Run]) -> str:
    """For each run, the distance from the end of the one before, and the length."""
    data, before = bytearray(), 0
    for first, end in runs:
        data += _encoded(first - before) + _encoded(end - first)
        before = end
    return _PREFIX + base64.b85encode(zlib.compress(bytes(data), 9)).decode()


def _encoded(number: int) -> bytes:
    """Seven bits in each byte, the lowest first; the highest bit means that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _decoded(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield number
            number = shift = 0
