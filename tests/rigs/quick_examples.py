"""What Hypothesis works out anew in each new clone, before its first example: several seconds of every process."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis.internal import charmap
from hypothesis.internal.conjecture import providers
from hypothesis.internal.intervalsets import IntervalSet

UTF_8 = IntervalSet([(0, 0xD7FF), (0xE000, 0x10FFFF)])  # all but surrogates

_intervals = charmap.intervals_from_codec
_constants = providers._get_local_constants  # noqa: SLF001  # there is no setting


def _encodable(codec: str) -> tuple[IntervalSet, IntervalSet]:
    """What UTF-8 encodes, without trying each of a million characters."""
    return (UTF_8, IntervalSet([])) if codec == "utf-8" else _intervals(codec)


def _no_constants() -> Any:
    """Constants of our own files only where new examples are looked for.

    The quick profile has the same examples each time, and these would differ with the modules that other tests import.
    """
    thorough = settings.get_current_profile_name() == "thorough"
    return _constants() if thorough else providers._local_constants  # noqa: SLF001


def install() -> None:
    """For this process."""
    charmap.intervals_from_codec = _encodable
    providers._get_local_constants = _no_constants  # noqa: SLF001
