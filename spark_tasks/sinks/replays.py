"""The replays of a sink task: which is running, its split in flight, and the end of its batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceWriter

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sinks.commits import COMMIT_TIMEOUT_MS
from spark_tasks.sinks.replay import Replay
from spark_tasks.sinks.replay_split import ReplayResult, ReplaySplit
from spark_tasks.spark.executor import value_of
from spark_tasks.task import Progress

Fence = Callable[[], bool]
"""Whether the batch may be committed: the task is still the member that it was when the batch began."""


class Replays:
    """The replay that was requested last, which takes turns with the task's own batches. Its errors end the replay and
    not the task. Call all methods on the task's thread.
    """

    def __init__(self, errors: ErrorHandling, metrics: TaskMetrics) -> None:
        self._errors = errors
        self._metrics = metrics
        self._replay: Replay | None = None
        self._split: ReplaySplit | None = None  # the batch in flight
        self._was_last = False

    def order(self, body: Mapping[str, Any] | None, writer: DataSourceWriter | None) -> Mapping[str, Any] | None:
        """Starts a replay and returns its state; see `SinkTask.replay`."""
        if body is not None:
            self._replay = Replay(self._errors, body, self._replay, getattr(writer, "resume_from", None))
        return None if self._replay is None else self._replay.status()

    @property
    def running(self) -> bool:
        """Whether a replay has been requested and has not ended."""
        return self._replay is not None and self._replay.running

    @property
    def in_flight(self) -> bool:
        """Whether the batch in flight is one of the replay."""
        return self._split is not None

    def takes_turn(self, *, alone: bool) -> bool:
        """Returns whether the next batch is one of the replay. `alone`: the task has none of its own."""
        self._split = None
        self._was_last = self.running and (alone or not self._was_last)
        return self._was_last

    def next_split(self, job: bytes, cluster: KafkaCluster, consumer: GroupConsumer) -> ReplaySplit | None:
        """Returns the next batch, or None if the replay has just ended."""
        if self._replay is not None:
            try:
                self._split = self._replay.next_split(job, cluster, consumer.committed_with_metadata)
            except Exception as error:  # noqa: BLE001 - Kafka's, or of the writer's resume_from
                self._replay.fail(error)
        return self._split

    def fail(self, error: Exception) -> None:
        """Ends the replay: its batch in flight has failed."""
        if self._replay is not None:
            self._replay.fail(error)

    def collect(
        self, result: ReplayResult, writer: DataSourceWriter | None, consumer: GroupConsumer, may_commit: Fence,
        abort: Callable[[ReplayResult], None],
    ) -> Progress:
        """Commits a batch that has been written."""
        replay, split = self._replay, self._split
        if replay is None or split is None:
            return Progress()
        result.refused.report_to(self._metrics, skipped=True)
        try:
            if self._commit(split, result, writer, consumer, may_commit, abort):
                replay.add_result(split, result)
        except Exception as error:  # noqa: BLE001 - the plugin's, and Kafka's
            replay.fail(error)
        return Progress(0 if split.order.dry_run else result.chosen)

    @staticmethod
    def _commit(
        split: ReplaySplit, result: ReplayResult, writer: DataSourceWriter | None, consumer: GroupConsumer,
        may_commit: Fence, abort: Callable[[ReplayResult], None],
    ) -> bool:
        if result.failure is not None:
            abort(result)
            value_of(result.failure)
        if split.order.dry_run:
            return True
        if not may_commit():
            abort(result)  # the range is read again if this task continues the replay
            return False
        if result.messages and writer is not None:
            writer.commit(list(result.messages))
        consumer.commit({(split.queue, split.partition): result.done.low}, COMMIT_TIMEOUT_MS, result.done.metadata())
        return True
