"""Runs heeler's part of a Java source's chain: each frame of the host is processed as a split."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Any

from spark_tasks.data.host_records import CutRecords
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.queue_topic import QueueTopic
from spark_tasks.errors import ConnectError
from spark_tasks.plugins.chain_cut import Cut
from spark_tasks.sources.java_source_split import JavaSourceResult, JavaSourceSplit, java_source_job
from spark_tasks.task import TaskContext


class SourceSplits:
    """Runs the splits of one task. The constructor raises the errors of java_source_job."""

    def __init__(self, context: TaskContext, errors: ErrorHandling, cut: Cut) -> None:
        self.batch: Future[list[Any]] | None = None
        self._context = context
        self._errors = errors
        self._job = java_source_job(context, errors, cut)
        self._queue = QueueTopic(errors)
        self._cancelled = False

    def taken(self, records: CutRecords) -> JavaSourceResult:
        """Runs a split and waits for its result. Raises the split's errors, and ConnectError after `cancel`."""
        self._queue.prepare()
        batch = self.batch = self._context.engine.submit(self._context.id, [JavaSourceSplit(self._job, records)])
        if self._cancelled:
            self.cancel()
        try:
            [found] = batch.result()
        except CancelledError:
            raise ConnectError(f"the batch of {self._context.id} was cancelled") from None
        finally:
            self.batch = None
        taken: JavaSourceResult = found
        taken.refused.report_to(self._context.metrics, skipped=self._errors.tolerant)
        return taken

    def cancel(self) -> None:
        """Cancels the split that `taken` waits for, and all later ones. Any thread."""
        self._cancelled = True
        if (batch := self.batch) is not None:
            self._context.engine.cancel(batch)
