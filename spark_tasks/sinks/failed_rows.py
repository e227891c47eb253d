"""The bad records of a batch, until all stages have seen it: each stage refuses its own from the first record on."""

from __future__ import annotations

from typing import Final

from spark_tasks.pipeline.errors.failures import Failure, Refuse

_MAX_NOTED: Final = 20_000  # they need memory until their letters are written


class ManyFailuresError(Exception):
    """No more bad records should be looked for at present. `row`: the last one that was found."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


class NotedFailures:
    """The first failure of each row. `at_once`: called with each failure, for example to fail the task; or None."""

    def __init__(self, at_once: Refuse | None) -> None:
        self._at_once = at_once
        self._noted: dict[int, Failure] = {}

    def note(self, failure: Failure) -> None:
        """A Refuse function."""
        if self._at_once is not None:
            self._at_once(failure)
        self._noted.setdefault(failure.row, failure)

    def note_some(self, failure: Failure) -> None:
        """Like `note`, but raises ManyFailuresError if there are many."""
        self.note(failure)
        if len(self._noted) >= _MAX_NOTED:
            raise ManyFailuresError(failure.row)

    def clear(self) -> None:
        """Forgets all."""
        self._noted.clear()

    def in_order(self) -> list[Failure]:
        """Returns the failures in the order of their rows."""
        return [self._noted[row] for row in sorted(self._noted)]
