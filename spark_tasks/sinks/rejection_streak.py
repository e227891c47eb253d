"""Decides whether a writer that refuses one record after the other does so because of the records."""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from typing import Final

from spark_tasks.errors import ConnectError, message_of
from spark_tasks.pipeline.errors.database_errors import original_of
from spark_tasks.pipeline.errors.failures import class_of
from spark_tasks.pipeline.errors.outages import http_statuses, is_of_record
from spark_tasks.plugins.origin import Place
from spark_tasks.sinks.row_guesser import Proof, RowGuesser

_MAX_CONNECTORS: Final = 4096
_MANY: Final = 10
_MANY_OF_VALUES: Final = 1000
_OF_VALUES: Final = (ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError)
_OF_CONTENT: Final = frozenset({400, 413, 415})  # statuses of HTTP
_MAX_TEXT: Final = 2000  # characters of a message that are compared
_VARYING: Final = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\d+")  # addresses, ids of requests, times


class RejectionStreak:
    """The records of a partition that a writer has refused one after the other, while it has accepted none.

    The rule: if ten records in succession are refused with the same error, and the error does not change with the
    record, the records are not at fault. The cause is an outage that is_outage does not recognize, a table that does
    not exist, or a mistake in the writer. Then no record of the batch is skipped. Batches may be small, so the records
    of several batches in succession count.

    An error changes with the record if it contains a value of this record, and the error before it did not contain that
    value. If both contain it, this proves nothing: `relation "orders" does not exist` is not the fault of records with
    the text `orders`. Small numbers are in many messages by chance, so they count only as long as every change of the
    error follows the records' numbers.

    The exceptions:

    - An error that can only be caused by the record is always attributed to it.
    - An error that is usually caused by a value may be the same for 1,000 records in succession, not only for ten. But
      the rule decides if the writer accepts nothing of a batch that ends with ten or more records with the same error.
    - Once the writer has accepted a record of the batch, the target was available, so the records that are refused then
      are bad. Only if none of the last ten of the batch is accepted, or none of 1,000 in succession, does the rule
      decide about the last ten: the target may have become unavailable meanwhile.
    """

    def __init__(self, *, trusting: bool = False) -> None:
        """`trusting`: all refused records are bad, however many there are."""
        self._trusting = trusting
        self._last_error: tuple[type[Exception], str] | None = None  # its class and text
        # Records whose errors are not attributed to them: in all batches of the streak, and in this batch.
        self._count = self._count_in_batch = 0
        self._attributed = 0  # records of this batch to which their errors are attributed
        self._weakly_attributed = 0  # those that do not count only because of small numbers in their errors
        self._numbers_are_chance = False  # an error has changed, but not with its record, so they prove nothing
        self._first_offset = self._last_offset = -1  # of the counted records
        self._accepted = False  # in this batch
        self._since_accepted = 0  # records that were refused since then
        self._latest: deque[tuple[Exception, int, int]] = deque(maxlen=_MANY)  # the last ones of these

    def begin_batch(self) -> None:
        """The search for the bad records of a batch begins."""
        self._count_in_batch = self._since_accepted = self._attributed = self._weakly_attributed = 0
        self._accepted = False

    def accepted(self) -> None:
        """The writer has accepted records."""
        self._count = self._count_in_batch = self._since_accepted = self._weakly_attributed = 0
        self._accepted, self._numbers_are_chance = True, False

    def refused(self, error: Exception, row: int, offset: int, guesser: RowGuesser) -> None:
        """Adds a record that was refused alone: `row` of the batch. Raises ConnectError if there are too many."""
        if self._accepted:
            self._latest.append((error, row, offset))
            self._since_accepted += 1
            if self._since_accepted == _MANY_OF_VALUES:
                self._judge_latest(guesser)
            return
        client = original_of(error)  # SQLAlchemy adds the record's values to the text
        error = client if isinstance(client, Exception) else error
        text = message_of(error)[:_MAX_TEXT]
        before, self._last_error = self._last_error, (type(error), text)
        if self._trusting or is_of_record(error):
            self._attribute()
            return
        if before is None or before[0] is not type(error) or _VARYING.sub("#", before[1]) != _VARYING.sub("#", text):
            self._count = self._count_in_batch = self._weakly_attributed = 0
            self._numbers_are_chance = False
        elif before[1] != text and self._attributes(guesser.proof(before[1], text, row)):
            return
        self._count_in_batch += 1
        if offset < self._first_offset:  # the offsets were reset
            self._count = 0
        if not self._count:
            self._first_offset = offset
        if offset > self._last_offset or not self._count:  # a batch that is repeated does not count twice
            self._count, self._last_offset = self._count + 1, offset
        if self._count >= (_MANY_OF_VALUES if _is_of_value(error) else _MANY):
            raise self._error(error)

    def end_batch(self, last: Exception | None, guesser: RowGuesser) -> None:
        """The search has ended; `last`: the error of the record that was refused last. May raise ConnectError."""
        if self._since_accepted >= _MANY:
            self._judge_latest(guesser)
        if last is not None and self._count_in_batch >= _MANY and not self._attributed:
            raise self._error(last)

    def _attribute(self) -> None:
        self._count = self._count_in_batch = self._weakly_attributed = 0
        self._attributed += 1

    def _attributes(self, proof: Proof) -> bool:
        if proof is Proof.STRONG:
            self._attribute()
            return True
        if proof is Proof.WEAK and not self._numbers_are_chance:
            self._weakly_attributed += self._count_in_batch + 1
            self._count = self._count_in_batch = 0
            return True
        self._numbers_are_chance = True
        self._count += self._weakly_attributed
        self._count_in_batch += self._weakly_attributed
        self._weakly_attributed = 0
        return False

    def _judge_latest(self, guesser: RowGuesser) -> None:
        streak = RejectionStreak(trusting=self._trusting)
        for error, row, offset in self._latest:
            streak.refused(error, row, offset, guesser)

    def _error(self, error: Exception) -> ConnectError:
        count = max(self._count, self._count_in_batch)
        wrong = ConnectError(
            f"the sink's writer has refused {count} records in succession, each of them alone, "
            f"always with the same error, which does not change with them. So the target or the writer is at fault "
            f"rather than the records, and none of this batch is skipped. If the records are indeed bad, have the "
            f"writer report them or raise heeler.DataError. The error: {class_of(error)}: {message_of(error)}"
        )
        wrong.__cause__ = error
        return wrong


@lru_cache(maxsize=_MAX_CONNECTORS)
def streaks_of(connector: str) -> dict[Place, RejectionStreak]:  # noqa: ARG001 - the cache's key
    """Returns the streaks of the connector's partitions of whose last batch the writer has accepted nothing. They stay
    in the process that runs the splits, even if the task is restarted or the partition is assigned to another task.
    """
    return {}


def _is_of_value(error: Exception) -> bool:
    return isinstance(error, _OF_VALUES) or not _OF_CONTENT.isdisjoint(http_statuses(error))
