"""Collects the bad records of a batch: each stage finds its own from the first record on, after those of the stage
before, but letters are written in the order of the records.
"""

from __future__ import annotations

from typing import Final

from spark_tasks.pipeline.errors.failures import Failure, Refuse

_MAX_FAILURES: Final = 20_000  # they need memory until their letters are written


class TooManyFailedRowsError(Exception):
    """The batch has so many bad records that it should end early. `row`: the one that was found last."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


class FailedRows:
    """The first failure of each row. `at_once`: called with each failure, for example to fail the task; or None."""

    def __init__(self, at_once: Refuse | None) -> None:
        self._at_once = at_once
        self._failures: dict[int, Failure] = {}

    def add(self, failure: Failure) -> None:
        """A Refuse function."""
        if self._at_once is not None:
            self._at_once(failure)
        self._failures.setdefault(failure.row, failure)

    def add_limited(self, failure: Failure) -> None:
        """Like `add`, but raises TooManyFailedRowsError if there are many."""
        self.add(failure)
        if len(self._failures) >= _MAX_FAILURES:
            raise TooManyFailedRowsError(failure.row)

    def clear(self) -> None:
        """Removes all."""
        self._failures.clear()

    def in_order(self) -> list[Failure]:
        """Returns the failures in the order of their rows."""
        return [self._failures[row] for row in sorted(self._failures)]
