"""Exponential backoff."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T", int, float)
_MAX_DOUBLINGS = 60  # keeps the power small after very many failures; 2**60 ms are millions of years


def doubled(first: T, times: int, longest: T) -> T:
    """Returns `first` doubled `times` times, but at most `longest`. All three waits have the same unit."""
    wait: T = min(first * 2 ** min(times, _MAX_DOUBLINGS), longest)
    return wait
