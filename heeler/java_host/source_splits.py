"""Runs heeler's part of a Java source's chain: each frame of the host is processed as a split."""

from __future__ import annotations

import pickle
from concurrent.futures import CancelledError, Future
from typing import Any

from heeler.java_host.time_budget import TimeBudget
from spark_tasks.data.host_records import CutRecords
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import reported
from spark_tasks.errors import ConnectError
from spark_tasks.futures import ended
from spark_tasks.plugins.chain_cut import Cut
from spark_tasks.sources.java_source_split import JavaSourceResult, JavaSourceSplit, java_source_job
from spark_tasks.task import TaskContext


class SourceSplits:
    """Runs the splits of one task. The constructor raises the errors of java_source_job."""

    def __init__(self, context: TaskContext, errors: ErrorHandling, cut: Cut) -> None:
        self.batch: Future[list[Any]] | None = None
        self._of: CutRecords | None = None  # the records of the batch, or of what is taken
        self._taken: JavaSourceResult | None = None
        self._context = context
        self._errors = errors
        self._job = pickle.dumps(java_source_job(context, errors, cut))
        self._cancelled = False

    def taken(self, records: CutRecords, budget: TimeBudget) -> JavaSourceResult | None:
        """Runs a split and returns its result; None if it has not ended in time: the next call with these records waits
        for the same one. A further call returns the same result, except after `forget` or `withdraw`. Raises the
        split's errors, and ConnectError after `cancel`.
        """
        if self._taken is not None and self._of is records:
            return self._taken
        batch = self.batch
        if batch is None or self._of is not records:
            batch = self._submit(records)
        if not budget.wait(lambda seconds: ended(batch, seconds)):
            return None
        self.batch = None
        try:
            [found] = batch.result()
        except CancelledError:
            raise ConnectError(f"the batch of {self._context.id} was cancelled") from None
        except Exception as error:
            reported(error, self._context.metrics)
            raise
        taken: JavaSourceResult = found
        self._taken = taken
        taken.refused.report_to(self._context.metrics, skipped=self._errors.tolerant)
        return taken

    def forget(self) -> None:
        """Does not return the same result again: it could not be appended."""
        self._taken = None

    def _submit(self, records: CutRecords) -> Future[list[Any]]:
        self.withdraw()
        batch = self.batch = self._context.engine.submit(self._context.id, [JavaSourceSplit(self._job, records)])
        self._of = records
        if self._cancelled:
            self.cancel()
        return batch

    def withdraw(self) -> None:
        """Gives up a split that has not ended, or the result of one."""
        batch, self.batch, self._of, self._taken = self.batch, None, None, None
        if batch is not None:
            self._context.engine.cancel(batch)

    def cancel(self) -> None:
        """Cancels the split in flight, and all later ones. Any thread."""
        self._cancelled = True
        if (batch := self.batch) is not None:
            self._context.engine.cancel(batch)
