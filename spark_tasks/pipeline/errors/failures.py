"""Errors of records that a stage cannot process, in Kafka Connect's terms."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import pairwise
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
import pyarrow as pa

from spark_tasks.errors import ConfigError, ConnectError, RetriableError, ToleranceExceededError, message_of
from spark_tasks.metrics.phases import Phase, mark
from spark_tasks.pipeline.converters.base import BadRowError, BadRowsError, MixedSchemasError
from spark_tasks.pipeline.errors.bisection import FailedPartError, good_parts
from spark_tasks.pipeline.errors.outages import is_of_machine, is_outage, with_causes

T = TypeVar("T")

_FEW: Final = 500  # one row in so many
_SUSPENDABLE: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

SOURCE_TASK = "org.apache.kafka.connect.runtime.WorkerSourceTask"
"""The class that dead letters name for the stage KAFKA_PRODUCE."""


class FailedStage(Enum):
    """The stage at which a record failed, by Kafka Connect's names."""

    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"

    @property
    def phase(self) -> Phase:
        """The phase of the stage in the metrics."""
        if self is FailedStage.TRANSFORMATION:
            return "transform"
        return "write" if self in (FailedStage.TASK_PUT, FailedStage.KAFKA_PRODUCE) else "convert"


class StageOutageError(RetriableError):
    """A converter or transform cannot work at the moment. It is retried for errors.retry.timeout."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a record. `class_name`: that of the stage, as in REST. `described`: a message with the record and
    the reason. `row`: the record's row in the batch in which it was read.
    """

    stage: FailedStage
    class_name: str
    error: Exception
    described: str
    row: int

    @property
    def error_class(self) -> str:
        """The Java class of one of heeler's errors, or the Python class of any other error."""
        return class_of(self.error)

    @property
    def message(self) -> str | None:
        """The error's message, as in Java if it differs there; None without a message."""
        java = self.error.java_message if isinstance(self.error, ConnectError) else None
        return java if java is not None else message_of(self.error) or None


def class_of(error: Exception) -> str:
    """Returns the Java class of one of heeler's errors, or the Python class of any other error."""
    if isinstance(error, ConnectError):
        return error.java_class
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"


Refuse = Callable[[Failure], None]
"""Called with each bad record, once and in order. Raises an error if bad records are not tolerated."""


def raise_failure(failure: Failure) -> NoReturn:
    """The Refuse function of errors.tolerance=none. Raises ToleranceExceededError."""
    error = ToleranceExceededError(f"Tolerance exceeded in error handler: {failure.described}")
    mark(error, failure.stage.phase)
    raise error from failure.error


class StageFailedError(FailedPartError):
    """A stage cannot process a range of rows. `row`: see FailedPartError. `words`: the message before the
    reason, with {} for the record. `bad`, `rest`: see BadRowsError. `again`: repeats the attempt for the range without
    the bad rows, from the stage's `rest` on.
    """

    def __init__(
        self, row: int | None, kind: FailedStage, class_name: str, error: Exception, words: str
    ) -> None:
        super().__init__(row, error)
        self.kind, self.class_name, self.error, self.words = kind, class_name, reason_of(error), words
        free_locals(error)
        self.bad = bad_rows(error)
        self.rest = error.rest if isinstance(error, BadRowsError) else None
        self.again: Callable[[pa.RecordBatch], Any] | None = None

    def move(self, place: Callable[[int], int] | None) -> None:
        """Replaces rows by those of a larger batch, `place(row)`. `place` None: they are unknown there."""
        self.row = None if place is None or self.row is None else place(self.row)
        self.bad = () if place is None else tuple((place(row), error) for row, error in self.bad)
        self.rest = self.again = None  # of the smaller batch

    def of(self, error: Exception) -> StageFailedError:
        """Returns the same failure with the error of another row."""
        return StageFailedError(None, self.kind, self.class_name, error, self.words)

    def failure(self, row: int, where: str = "") -> Failure:
        """Returns the failure of a row. `where`: describes its record in the message."""
        words = self.words.replace(" {}", f" {where}" if where else "")
        reason = message_of(self.error) or class_of(self.error)
        return Failure(self.kind, self.class_name, self.error, f"{words}: {reason}", row)


def free_locals(error: Exception) -> None:
    """Empties the frames in the error's traceback. A search keeps the errors of a batch until its end, and each would
    keep the records of its attempt.
    """
    for cause in with_causes(error):
        for frame, _ in traceback.walk_tb(cause.__traceback__):
            if frame.f_code.co_flags & _SUSPENDABLE:
                continue  # clearing the frame would close a plugin's generator or coroutine
            with suppress(RuntimeError):  # the frame still runs
                frame.clear()


def combined(failures: Sequence[StageFailedError]) -> StageFailedError:
    """Returns one error for failures in different rows of a batch. It has all bad rows of the first stage that names
    some; if none does, it is the first failure.
    """
    naming = [failed for failed in failures if failed.bad]
    if not naming:
        return failures[0]
    first = naming[0]
    first.bad = tuple(pair for failed in naming if failed.kind is first.kind for pair in failed.bad)
    return first


@contextmanager
def stage(kind: FailedStage, class_name: str, words: str, row: int | None = None) -> Iterator[None]:
    """A context manager that turns errors into StageFailedError, or into StageOutageError if no record causes them.
    `row`: the row that is being processed, None for a batch.
    """
    try:
        yield
    except (FailedPartError, MixedSchemasError, ConfigError):
        raise
    except Exception as error:
        if is_of_machine(error):
            raise
        if is_outage(error):
            raise StageOutageError(f"{class_name}: {message_of(error)}") from error
        if row is not None:
            raise StageFailedError(row, kind, class_name, reason_of(error), words) from error
        raise StageFailedError(
            error.row if isinstance(error, BadRowError) else None, kind, class_name, error, words
        ) from error


def bad_rows(error: BaseException | None) -> tuple[tuple[int, Exception], ...]:
    """Returns all bad rows with their errors, if the error has them."""
    return error.bad if isinstance(error, BadRowsError) else ()


def good_records(
    batch: pa.RecordBatch, attempt: Callable[[pa.RecordBatch], T], refuse: Callable[[int, StageFailedError], None]
) -> list[T]:
    """Returns the results of `attempt` for the batch without its bad records, in few pieces. Calls `refuse` with the
    bad rows of the batch and their errors, in order; what it raises ends the search.

    If the errors of `attempt` name all bad rows, tries again without them; otherwise searches for them.
    """
    rows: np.ndarray[Any, Any] = np.arange(len(batch))
    left, parts, attempt_left = batch, list[T](), attempt
    named: list[tuple[int, StageFailedError]] = []
    unnamed: StageFailedError | None = None
    while len(left) and not (parts or unnamed):
        try:
            parts = [attempt_left(left)]
        except StageFailedError as failed:
            good = np.ones(len(left), np.bool_)
            for row, error in failed.bad:
                good[row] = False
                named.append((int(rows[row]), failed.of(error)))
            unnamed, attempt_left = failed if good.all() else None, failed.again or attempt
            rows, left = rows[good], _kept(left, good)
    named.sort(key=lambda one: one[0], reverse=True)

    def refuse_in_order(row: int, failed: StageFailedError) -> None:
        """At once, not after the search: without tolerance, the first bad row is the last one that is looked for."""
        while named and named[-1][0] < rows[row]:
            refuse(*named.pop())
        refuse(int(rows[row]), failed)

    if unnamed:
        parts = list(good_parts(len(left), partial(_attempt_range, attempt, left), refuse_in_order, failed=unnamed))
    while named:
        refuse(*named.pop())
    return parts


def _kept(batch: pa.RecordBatch, good: np.ndarray[Any, Any]) -> pa.RecordBatch:
    """Returns the good rows. If few are bad, the ranges between them are copied: a filter, which copies row by row,
    takes three times as long.
    """
    bad = np.flatnonzero(~good).tolist()
    if len(bad) * _FEW > len(batch):
        return batch.filter(pa.array(good))
    bounds = pairwise([-1, *bad, len(batch)])
    return pa.concat_batches([batch.slice(before + 1, end - before - 1) for before, end in bounds])


def _attempt_range(attempt: Callable[[pa.RecordBatch], T], batch: pa.RecordBatch, begin: int, end: int) -> T:
    return attempt(batch.slice(begin, end - begin))


def reason_of(error: Exception) -> Exception:
    """Returns the original error, without the BadRowErrors around it."""
    while isinstance(error, BadRowError) and isinstance(error.reason, Exception):
        error = error.reason
    return error
