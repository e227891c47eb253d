"""Which rows of a batch are bad, where only stretches of it can be tried; the rest goes on in large pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

T = TypeVar("T")

_LEAST: Final = 64  # rows that are tried together after a bad one
_GROWTH: Final = 2


class FailedPartError(Exception):
    """A stretch of rows cannot be done. `row`: the first bad one, counted from the begin of the stretch; None where
    that is not known.
    """

    def __init__(self, row: int | None, reason: object = "") -> None:
        super().__init__(str(reason))
        self.row = row


def good_parts(
    size: int, attempt: Callable[[int, int], T], refuse: Callable[[int, Any], None]
) -> Iterator[T]:
    """What `attempt(begin, end)` makes of the rows 0 to `size`, stretch by stretch without those that are bad: each
    of these is told to `refuse`, in order, with the error of its own.

    `attempt` raises FailedPartError; a row that it names is believed. All rows are tried at once first. Behind a bad
    row, stretches begin about as long as bad rows are apart and grow while all goes well, so that many bad rows cost
    little more than few. Any other error comes out.
    """
    at, width, last_bad = 0, max(size, 1), 0
    suspect: int | None = None  # between `at` and here is a bad row
    known: tuple[int, FailedPartError] | None = None  # a bad row further on
    while at < size:
        failed: FailedPartError | None = None
        end = at + 1
        if known is not None and known[0] == at:
            failed = known[1]
        else:
            end = _end(at, size, width, suspect, known)
            try:
                yield attempt(at, end)
            except FailedPartError as error:
                failed = error
        if failed is None:
            at, width = end, width * _GROWTH
        elif end - at == 1:
            refuse(at, failed)
            at += 1
            width, last_bad = max(_LEAST, at - last_bad), at
            known = None
        elif failed.row is not None and 0 <= failed.row < end - at:
            known, suspect = (at + failed.row, failed), at + failed.row + 1
        else:
            known, suspect = None, end
        if suspect is not None and at >= suspect:
            suspect = None


def _end(at: int, size: int, width: int, suspect: int | None, known: tuple[int, FailedPartError] | None) -> int:
    if known is not None:
        return known[0]
    if suspect is not None:
        return at + max(1, (suspect - at) // 2)
    return min(size, at + width)
