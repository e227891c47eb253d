"""Finds the bad rows of a batch by trying ranges of rows, so that the good rows stay in large pieces. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from spark_tasks.errors import message_of

T = TypeVar("T")

_MIN_WIDTH: Final = 64  # rows of a range after a bad row
_SHARE: Final = 3  # a range has this fraction of the distance between bad rows if errors do not name them


class FailedPartError(Exception):
    """A range of rows cannot be processed. Rows are counted from the start of the range. `row`: the first bad row, None
    if unknown. `guesses`: rows that may be bad, in order; the first one is the guess for the first bad row, later ones
    may be after the range.
    """

    def __init__(self, row: int | None, reason: object = "", guesses: Sequence[int] = ()) -> None:
        super().__init__(message_of(reason) if isinstance(reason, Exception) else reason)
        self.row = row
        self.guesses = guesses


def good_parts(
    size: int, attempt: Callable[[int, int], T], refuse: Callable[[int, Any], None], spacing: int | None = None,
    failed: FailedPartError | None = None,
) -> Iterator[T]:
    """Yields the results of `attempt(begin, end)` for ranges of the rows 0 to `size`, without the bad rows. Calls
    `refuse` with each bad row and its error, in order. No row is in two successful calls.

    `attempt` raises FailedPartError for a range with a bad row; other errors pass through. A row that the error names
    is bad; a row that it guesses is tried alone, as long as most guesses were right.

    The first range has all rows, unless that has already failed (`failed`), or a bad row is expected in every `spacing`
    rows. Then short ranges follow, each twice as long as the last one, up to the first bad row. After a bad row, a
    range is as long as the distance between bad rows, or a third of it if errors do not name them, and grows with each
    success. So many bad rows cost little more than few.
    """
    search = _Search(size, spacing)
    if failed is not None:
        search.failed(size, failed)
    while search.at < size:
        begin, end = search.at, search.end()
        failed = search.known_error()
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
    """The state of the search. The rows before `at` are done."""

    def __init__(self, size: int, spacing: int | None) -> None:
        self.at = 0
        self._size = size
        self._width = max(size, 1) if spacing is None else max(_MIN_WIDTH, spacing // _SHARE)
        self._spacing = spacing
        self._share = 1 if spacing is None else _SHARE
        self._last_bad = 0
        self._suspect: int | None = None  # there is a bad row between `at` and this row (exclusive)
        self._known: tuple[int, FailedPartError] | None = None  # a bad row after `at`
        self._guesses: list[int] = []  # rows that may be bad, the nearest one last
        self._trust = 1  # right guesses minus wrong ones

    def end(self) -> int:
        """Returns the end of the next range."""
        if self._known is not None:
            return max(self._known[0], self.at + 1)
        guess = self._guesses[-1] if self._guesses else None
        if guess == self.at:
            return guess + 1
        if self._suspect is not None:
            if guess is not None and guess < self._suspect:
                return guess
            return self.at + max(1, min(self._width, (self._suspect - self.at) // 2))
        return min(self._size, self.at + self._width if guess is None else guess)

    def known_error(self) -> FailedPartError | None:
        """Returns the error of the row `at` if it is already known to be bad."""
        return self._known[1] if self._known is not None and self._known[0] == self.at else None

    def succeeded(self, end: int) -> None:
        """Updates the state after a range without bad rows."""
        if self._pop_guess():
            self._trust -= 1
            if self._trust <= 0:
                self._guesses = []
        self._move(end, max(self._width, (end - self._last_bad) // self._share))

    def refused(self) -> None:
        """Updates the state after a failure of the row `at` alone."""
        self._trust += self._pop_guess()
        apart = self.at + 1 - self._last_bad
        self._spacing = apart if self._spacing is None else (self._spacing + apart) // 2
        self._share = _SHARE if self._known is None and not self._guesses else 1
        self._known, self._suspect, self._last_bad = None, None, self.at + 1
        self._move(self.at + 1, self._spacing // self._share)

    def failed(self, end: int, error: FailedPartError) -> None:
        """Updates the state after the failure of a range up to `end`."""
        if self._suspect is not None and self._guesses and end == self._guesses[-1]:
            self._trust -= 1  # the range ended before the guess for the first bad row
        self._known, self._guesses = None, []
        if error.row is not None and 0 <= error.row < end - self.at:
            self._known, self._suspect = (self.at + error.row, error), self.at + error.row + 1
            return
        self._suspect = end
        if self._spacing is None and not self._last_bad:
            self._width = max(_MIN_WIDTH, self.at)
        if self._trust > 0 and error.guesses and 0 <= error.guesses[0] < end - self.at:
            self._guesses = [self.at + guess for guess in reversed(error.guesses)]

    def _pop_guess(self) -> bool:
        """Removes the next guess if it is the row `at`. Returns whether it was."""
        guessed = bool(self._guesses) and self._guesses[-1] == self.at
        if guessed:
            self._guesses.pop()
        return guessed

    def _move(self, at: int, width: int) -> None:
        self.at, self._width = at, max(_MIN_WIDTH, width)
        if self._suspect is not None and at >= self._suspect:
            self._suspect = None
        while self._guesses and self._guesses[-1] < at:
            self._guesses.pop()
