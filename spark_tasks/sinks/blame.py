"""Decides whether a writer that refuses one record after the other means the records."""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from typing import Final

from spark_tasks.errors import ConnectError, DataError, message_of
from spark_tasks.pipeline.failures import class_of
from spark_tasks.pipeline.outages import http_statuses
from spark_tasks.plugins.origin import Place
from spark_tasks.sinks.suspects import RowGuesser

_MAX_JOBS: Final = 4096  # one for each task
_MANY: Final = 10
_MANY_OF_VALUES: Final = 1000
_OF_VALUES: Final = (ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError)
_OF_CONTENT: Final = frozenset({400, 409, 413, 415, 422})  # statuses of HTTP
_OF_RECORDS: Final = frozenset({"IntegrityError", "DataError"})  # PEP 249's errors of the data, by name
_MAX_TEXT: Final = 2000  # characters of a message that are compared
_VARYING: Final = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\d+")  # addresses, ids of requests, times


class Blame:
    """The records of a partition that a writer has refused one after the other, while it has accepted none. If they are
    many, and all have the same error, which quotes nothing of them, then the cause is not in the records: it is an
    outage that is_outage does not recognize, a table that does not exist, or a mistake in the writer. Then none of
    a batch is skipped. Batches may be small, so the records of several in succession count.

    Ten are many: each of ten records in succession would have to lack the same, and the error would have to be silent
    about what. Errors that usually mean a value are believed for 1,000 records; but if they refuse a whole batch of ten
    or more, they are not. An error that can mean nothing but the record is always believed.

    Once a search has accepted a record, the target was there. Only if none of the last ten of the batch is
    accepted, or none of 1,000, are these judged in the same way: the target may have gone meanwhile.
    """

    def __init__(self, *, believes: bool = False) -> None:
        """`believes`: however many records are refused, they are bad."""
        self._believes = believes
        self._same: tuple[type[Exception], str] | None = None  # the class and the text of the last error
        self._count = self._here = 0  # also in earlier batches; in this one
        self._last_offset = -1
        self._accepted = False  # in this batch
        self._after = 0  # records that were refused since
        self._latest: deque[tuple[Exception, int, int]] = deque(maxlen=_MANY)  # the last ones of these

    def begin(self) -> None:
        """A search in a batch begins."""
        self._here = self._after = 0
        self._accepted = False

    def accepted(self) -> None:
        """The writer has accepted records."""
        self._count = self._here = self._after = 0
        self._accepted = True

    def refused(self, error: Exception, row: int, offset: int, guesser: RowGuesser) -> None:
        """Adds a record that was refused alone: `row` of the batch. Raises ConnectError if there are too many."""
        if self._accepted:
            self._latest.append((error, row, offset))
            self._after += 1
            if self._after == _MANY_OF_VALUES:
                self._judge_latest(guesser)
            return
        text = message_of(error)[:_MAX_TEXT]
        before, self._same = self._same, (type(error), text)
        if self._believes or _means_record(error):
            self._count = self._here = 0
            return
        # What differs from the last error's text may be the record's, also without quotation marks.
        varying = frozenset() if before is None else frozenset(_varying(text)) - set(_varying(before[1]))
        if guesser.quotes(error, row, varying):
            self._count = self._here = 0
            return
        if before is None or before[0] is not type(error) or _VARYING.sub("#", before[1]) != _VARYING.sub("#", text):
            self._count = self._here = 0
        self._here += 1
        if offset > self._last_offset or not self._count:  # a batch that is repeated does not count twice
            self._count, self._last_offset = self._count + 1, offset
        if self._count >= (_MANY_OF_VALUES if _means_value(error) else _MANY):
            raise self._error(error)

    def ended(self, last: Exception | None, guesser: RowGuesser) -> None:
        """The search has ended; `last`: the error of the record that was refused last. May raise ConnectError."""
        if self._after >= _MANY:
            self._judge_latest(guesser)
        if last is not None and self._here >= _MANY:
            raise self._error(last)

    def _judge_latest(self, guesser: RowGuesser) -> None:
        blame = Blame(believes=self._believes)
        for error, row, offset in self._latest:
            blame.refused(error, row, offset, guesser)

    def _error(self, error: Exception) -> ConnectError:
        count = max(self._count, self._here)
        wrong = ConnectError(
            f"the sink's writer has refused {count} records in succession, each of them alone, "
            f"always with the same error, which quotes nothing of them. So the target or the writer is at fault rather "
            f"than the records, and none of this batch is skipped. If the records are indeed bad, have the writer "
            f"report them or raise heeler.DataError. The error: {class_of(error)}: {message_of(error)}"
        )
        wrong.__cause__ = error
        return wrong


@lru_cache(maxsize=_MAX_JOBS)
def blames(job: bytes) -> dict[Place, Blame]:  # noqa: ARG001 - the cache's key
    """Returns what is known of the partitions of whose last batch the writer has accepted nothing. Kept in the process
    that runs the splits.
    """
    return {}


def _varying(text: str) -> list[str]:
    found: list[str] = _VARYING.findall(text)
    return found


def _means_record(error: Exception) -> bool:
    return isinstance(error, DataError) or any(base.__name__ in _OF_RECORDS for base in type(error).__mro__)


def _means_value(error: Exception) -> bool:
    return isinstance(error, _OF_VALUES) or not _OF_CONTENT.isdisjoint(http_statuses(error))
