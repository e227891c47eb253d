"""The offsets of a partition's records that have a dead letter, as the metadata of a group's offset. Pure."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spark_tasks.dead_letters.offset_runs import MAX_METADATA, Run, merged, packed, unpacked

_PREFIX: Final = "heeler-letters-of:"
_MAX_RUNS: Final = 1 << 14  # each needs at most 20 bytes before they are compressed
_FEW: Final = 1 << 11  # runs, which are compressed at once


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
        return LetterOffsets(tuple(merged(sorted([*self.runs, *((offset, offset + 1) for offset in offsets)]))))

    def since(self, offset: int) -> LetterOffsets:
        """Returns the offsets from `offset` on."""
        return LetterOffsets(tuple((max(first, offset), end) for first, end in self.runs if end > offset))

    def metadata(self) -> str:
        """Returns the metadata, which `parsed` reads; see `metadata_within`."""
        return self.metadata_within(MAX_METADATA)[0]

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
    try:
        return LetterOffsets(tuple(unpacked(base64.b85decode(text.removeprefix(_PREFIX)))))
    except ValueError:
        return None


def _text(runs: Iterable[Run]) -> str:
    return _PREFIX + base64.b85encode(packed(runs)).decode()
