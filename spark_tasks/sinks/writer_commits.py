"""Commits and aborts a task's batches with the plugin's writer."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from spark_tasks.metrics.phases import phase
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sinks.replay_split import ReplayResult, messages_of
from spark_tasks.sinks.split import SinkResult
from spark_tasks.sinks.task_writer import TaskWriter

_logger = logging.getLogger(__name__)


class WriterCommits:
    """The batches of a task."""

    def __init__(self, writer: TaskWriter, metrics: TaskMetrics) -> None:
        self._writer = writer
        self._metrics = metrics

    def commit(self, results: Sequence[SinkResult]) -> None:
        """Commits a batch, unless it had no records. Raises the plugin's errors."""
        if any(result.records for result in results):
            begun = time.perf_counter()
            with phase("commit"):
                self._writer.commit(messages_of(results))
            self._metrics.add_phase("commit", time.perf_counter() - begun)

    def abort(self, results: Sequence[SinkResult | ReplayResult]) -> None:
        """Aborts a batch. The plugin's errors are only logged: the batch is not committed in any case."""
        try:
            self._writer.abort(messages_of(results))
        except Exception:  # plugin code
            _logger.exception("The writer's abort() failed")
