"""Finds the bad rows of a batch by trying stretches of rows, so that the good rows go on in large pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")

_LEAST: Final = 64  # rows tried together after a bad one
_SHARE: Final = 3  # part of the way to the next bad row, if errors do not name it: more would take longer to search


class FailedPartError(Exception):
    """A stretch of rows cannot be done. `row`: the first bad one, counted from the begin of the stretch; None where
    that is not known. `guesses`: the one that it may be, and behind it, in order, others that may be bad too; these may
    be behind the stretch.
    """

    def __init__(self, row: int | None, reason: object = "", guesses: Sequence[int] = ()) -> None:
        super().__init__(str(reason))
        self.row = row
        self.guesses = guesses


def good_parts(
    size: int, attempt: Callable[[int, int], T], refuse: Callable[[int, Any], None], spacing: int | None = None,
    failed: FailedPartError | None = None,
) -> Iterator[T]:
    """The results of `attempt(begin, end)` for the rows 0 to `size`, stretch by stretch, without the bad rows. `refuse`
    is called with each bad row and its error, in order.

    `attempt` raises FailedPartError; a row that it names is believed, one that it guesses is tried alone, as long as
    most guesses were right. All rows are tried at once first, unless they have been (`failed`) or bad ones are expected
    each `spacing` rows. Then come short stretches that double, up to the first bad row. Behind one, stretches begin as
    long as bad rows are apart, or a third of that where they have to be searched, and grow while all goes well, so that
    many bad rows cost little more than few. No row is in two calls that went well. Any other error comes out.
    """
    search = _Search(size, spacing)
    if failed is not None:
        search.failed(size, failed)
    while search.at < size:
        begin, end = search.at, search.end()
        failed = search.known_here()
        if failed is None:
            try:
                yield attempt(begin, end)
            except FailedPartError as error:
                failed = error
        if failed is None:
            search.succeeded(end)
        elif end - begin == 1:
            refuse(begin, failed)
            search.refused()
        else:
            search.failed(end, failed)


class _Search:
    """The state of the search: rows before `at` are done."""

    def __init__(self, size: int, spacing: int | None) -> None:
        self.at = 0
        self._size = size
        self._width = max(size, 1) if spacing is None else max(_LEAST, spacing // _SHARE)
        self._spacing = spacing
        self._share = 1 if spacing is None else _SHARE
        self._last_bad = 0
        self._suspect: int | None = None  # between `at` and here is a bad row
        self._known: tuple[int, FailedPartError] | None = None  # a bad row further on
        self._guesses: list[int] = []  # rows of which that is believed, the nearest one last
        self._trust = 1  # right guesses less wrong ones

    def end(self) -> int:
        """The end of the next stretch."""
        if self._known is not None:
            return max(self._known[0], self.at + 1)
        guess = self._guesses[-1] if self._guesses else None
        if guess == self.at:
            return guess + 1
        if self._suspect is not None:
            if guess is not None and guess < self._suspect:
                return guess
            return self.at + max(1, min(self._width, (self._suspect - self.at) // 2))
        end = min(self._size, self.at + self._width)
        return end if guess is None else min(guess, end)

    def known_here(self) -> FailedPartError | None:
        """The error of the row `at` if it is already known to be bad."""
        return self._known[1] if self._known is not None and self._known[0] == self.at else None

    def succeeded(self, end: int) -> None:
        """The stretch was good."""
        if self._guessed_here():
            self._trust -= 1
            if self._trust <= 0:
                self._guesses = []
        self._move(end, max(self._width, (end - self._last_bad) // self._share))

    def refused(self) -> None:
        """The row `at` alone is bad."""
        self._trust += self._guessed_here()
        apart = self.at + 1 - self._last_bad
        self._spacing = apart if self._spacing is None else (self._spacing + apart) // 2
        self._share = _SHARE if self._known is None and not self._guesses else 1
        self._known, self._suspect, self._last_bad = None, None, self.at + 1
        self._move(self.at + 1, self._spacing // self._share)

    def failed(self, end: int, error: FailedPartError) -> None:
        """In the stretch is a bad row."""
        if self._suspect is not None and self._guesses and end == self._guesses[-1]:
            self._trust -= 1  # it is said to be the first one
        self._known, self._guesses = None, []
        if error.row is not None and 0 <= error.row < end - self.at:
            self._known, self._suspect = (self.at + error.row, error), self.at + error.row + 1
            return
        self._suspect = end
        if self._spacing is None and not self._last_bad:
            self._width = max(_LEAST, self.at)
        if self._trust > 0 and error.guesses and 0 <= error.guesses[0] < end - self.at:
            self._guesses = [self.at + guess for guess in reversed(error.guesses)]

    def _guessed_here(self) -> bool:
        """Whether `at` is the next guess, which is answered then."""
        right_here = bool(self._guesses) and self._guesses[-1] == self.at
        if right_here:
            self._guesses.pop()
        return right_here

    def _move(self, at: int, width: int) -> None:
        self.at, self._width = at, max(_LEAST, width)
        if self._suspect is not None and at >= self._suspect:
            self._suspect = None
        while self._guesses and self._guesses[-1] < at:
            self._guesses.pop()
