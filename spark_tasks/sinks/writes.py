"""Passes records to a sink's writer: all records of a split in one call. If the writer refuses some of them and
errors.tolerance is all, it is called with parts of the records, as rarely as possible, to find the bad ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import length_hint
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from spark_tasks.data.rows import write_batches
from spark_tasks.errors import RetriableError, message_of
from spark_tasks.pipeline.errors.bisection import FailedPartError, good_parts
from spark_tasks.pipeline.errors.failures import FailedStage, Failure, StageFailedError, free_locals
from spark_tasks.pipeline.errors.outages import is_of_content, is_of_machine, is_outage
from spark_tasks.plugins.api import Shape
from spark_tasks.plugins.errant_records import reporting_to
from spark_tasks.plugins.origin import Place, reading_from
from spark_tasks.plugins.spark_task import as_spark_task
from spark_tasks.sinks.rejection_streak import RejectionStreak
from spark_tasks.sinks.row_guesser import RowGuesser

SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"  # Kafka Connect's name for the stage's class
_WORDS: Final = "the sink's writer rejected record {}"

Reports = list[tuple[int, Exception]]
"""The offset and the error of each record that the writer has reported, or that was found to be bad."""


class _Reporter:
    """An ErrantRecordReporter (KIP-610) that collects the reports of one call of the writer."""

    def __init__(self, *, tolerant: bool, refuse: Callable[[int, Exception], None]) -> None:
        self.reports: Reports = []
        self._tolerant = tolerant
        self._refuse = refuse
        self._slices: Sequence[pa.RecordBatch] = ()  # of batches that are in memory anyway
        self._unread: Iterator[pa.RecordBatch] = iter(())  # of the slices
        self._columns: list[pa.Array] = []  # of offsets

    def given(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches to the writer, and remembers their offsets."""
        if isinstance(batches, list):  # of a search, whose thousands of calls look up no column
            self._slices, self._unread = batches, iter(batches)
            return self._unread
        return self._remembered(batches)

    def _remembered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._columns.append(batch.column("offset"))
            yield batch

    def report(self, error: Exception, *, offset: int | None = None, row: int | None = None) -> None:
        """Reports a bad record, by its offset or by its row among the records that the writer has consumed. Raises
        TypeError, IndexError or ValueError if that does not name one of them.
        """
        if (offset is None) == (row is None):
            raise TypeError("report() needs either the offset or the row of the record")
        if offset is None:
            known = np.concatenate([np.empty(0, np.int64), *self._offsets()])
            if row is None or not 0 <= row < len(known):
                raise IndexError(f"report(row={row}): write() was given {len(known)} records")
            offset = int(known[row])
        elif not any(np.any(one == offset) for one in self._offsets()):
            raise ValueError(f"report(offset={offset}): write() was given no such record")
        if self._tolerant:
            self.reports.append((offset, error))
        else:
            self._refuse(offset, error)

    def _offsets(self) -> list[np.ndarray[Any, Any]]:
        read = self._slices[: len(self._slices) - length_hint(self._unread)]
        columns = [*(batch.column("offset") for batch in read), *self._columns]
        return [column.to_numpy(zero_copy_only=False) for column in columns]


def write_together(writer: bytes, accepts: Shape, batch: pa.RecordBatch) -> tuple[Any] | None:
    """Writes records of several partitions in one call and returns its commit message; None if the pickled writer is
    not a MultiPartitionWriter. Raises its errors, after which any of the records may have been written.
    """
    unpickled = cloudpickle.loads(writer)
    if not getattr(unpickled, "multi_partition", False):
        return None
    passed = as_rows(batch) if accepts == "rows" else batch
    with as_spark_task():
        return (write_batches(unpickled, [passed] if len(passed) else []),)


class WriterRunner:
    """Calls the writer of one job. `writer`: pickled. As in Spark, each call gets a fresh copy of it."""

    def __init__(
        self, writer: bytes, accepts: Shape, place: Place | None, *, tolerant: bool,
        refuse: Callable[[int, Exception], None], number: int = 0,
    ) -> None:
        """`place`: the topic and partition of the records. `number`: the split's in its batch. `refuse` is called with
        the offset and the error of a reported record if not `tolerant`; it raises.
        """
        self._writer, self._accepts, self._place = writer, accepts, place
        self._tolerant, self._refuse, self._number = tolerant, refuse, number

    def write(self, batches: Iterable[pa.RecordBatch]) -> tuple[Any, Reports]:
        """Writes the batches in one call. Returns its commit message and its reports, ordered by offset."""
        reporter = _Reporter(tolerant=self._tolerant, refuse=self._refuse)
        given = reporter.given(batches)
        with reporting_to(reporter), reading_from(self._place), as_spark_task(self._number):
            message = write_batches(
                cloudpickle.loads(self._writer), map(as_rows, given) if self._accepts == "rows" else given
            )
        for _ in given:  # as in Spark, records that the writer does not consume are dropped
            pass
        return message, sorted(reporter.reports, key=lambda report: report[0])

    def write_accepted(
        self, batches: Sequence[pa.RecordBatch], spacing: int | None = None, raised: Exception | None = None,
        streak: RejectionStreak | None = None,
    ) -> tuple[list[Any], Reports]:
        """Writes all records that the writer accepts. Returns the commit messages of the successful calls, in order,
        and the bad records, ordered by offset.

        `spacing`: a bad record is expected in every `spacing` records. `raised`: the error of a call with all records.
        `streak`: of records that were refused before. Raises errors that no record causes: RetriableError for an
        outage, errors of the machine (a full disk), and ConnectError if the writer accepts nothing, see
        RejectionStreak.
        """
        messages: list[Any] = []
        reports: Reports = []
        guesser = RowGuesser(batches)
        streak = streak or RejectionStreak()
        streak.begin_batch()

        def failed(error: Exception, begin: int, end: int) -> FailedPartError:
            raise_if_outage(error)
            if end - begin == 1:
                return StageFailedError(None, FailedStage.TASK_PUT, SINK_TASK, error, _WORDS)
            free_locals(error)  # a frame that holds its own error would keep the writer's connections and records
            return FailedPartError(None, guesses=[row - begin for row in guesser.guess(error, begin, end)])

        def attempt(begin: int, end: int) -> tuple[Any, Reports]:
            try:
                return self.write(guesser.rows(begin, end))
            except Exception as error:
                raise failed(error, begin, end) from error

        def refuse(row: int, failed: StageFailedError) -> None:
            [one] = guesser.rows(row, row + 1)
            offset = one.column("offset")[0].as_py()
            reports.append((offset, failed.error))
            streak.refused(failed.error, row, offset, guesser)

        size = sum(map(len, batches))
        known = None if raised is None else failed(raised, 0, size)
        for message, reported in good_parts(size, attempt, refuse, spacing, known):
            messages.append(message)
            streak.accepted()
            reports += reported
        streak.end_batch(reports[-1][1] if reports else None, guesser)
        return messages, sorted(reports, key=lambda report: report[0])


def raise_if_outage(error: Exception) -> None:
    """Raises a writer's error if no record causes it: an outage as RetriableError, errors of the machine unchanged."""
    if is_outage(error) and not isinstance(error, RetriableError):
        raise RetriableError(f"the sink's target is unavailable: {message_of(error)}") from error
    if isinstance(error, RetriableError) or is_of_machine(error):
        raise error
    if isinstance(error, OSError) and not is_of_content(error):  # of a file, for example
        raise error


def put_failure(error: Exception, where: str) -> Failure:
    """Returns the failure of a record that the writer refuses. `where`: its topic, partition and offset, as text."""
    return StageFailedError(0, FailedStage.TASK_PUT, SINK_TASK, error, _WORDS).failure(0, where)


def as_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the fields of the records' values as columns. A value that is not a struct becomes the column `value`."""
    value = batch.column("value")
    if not pa.types.is_struct(value.type):
        return batch.select(["value"])
    fields = [value.type.field(i) for i in range(value.type.num_fields)]
    if not fields:
        return pa.RecordBatch.from_struct_array(value)  # has rows, unlike a batch of no arrays
    return pa.RecordBatch.from_arrays(value.flatten(), schema=pa.schema(fields))
