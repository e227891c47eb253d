"""How long to wait before a retry."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T", int, float)
_MOST_DOUBLINGS = 60  # of a millisecond, millions of years


def doubled(first: T, times: int, longest: T) -> T:
    """`first`, doubled `times` times, but at most `longest`; in any unit."""
    wait: T = min(first * 2 ** min(times, _MOST_DOUBLINGS), longest)
    return wait
