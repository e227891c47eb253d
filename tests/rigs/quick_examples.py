"""Avoids work that Hypothesis repeats in each new clone before its first example: several seconds of every process."""

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
    """The characters that UTF-8 can encode, without trying a million of them."""
    return (UTF_8, IntervalSet([])) if codec == "utf-8" else _intervals(codec)


def _no_constants() -> Any:
    """Use constants of our own files only when new examples are generated.

    The quick profile always has the same examples, and these would change with the modules that other tests import.
    """
    thorough = settings.get_current_profile_name() == "thorough"
    return _constants() if thorough else providers._local_constants  # noqa: SLF001


def install() -> None:
    """Install this in the current process."""
    charmap.intervals_from_codec = _encodable
    providers._get_local_constants = _no_constants  # noqa: SLF001
