"""The replays of a task: which is running, its range in flight, and the end of its batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import Refused
from spark_tasks.dead_letters.replay.letter_range import LetterRange, ReplayCounts
from spark_tasks.dead_letters.replay.replay import Committed, Replay
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.task import Progress, ResumeFrom


class Replays:
    """The replay that was requested last, which takes turns with the task's own batches. Its errors end the replay and
    not the task. Call all methods on the task's thread.
    """

    def __init__(self, errors: ErrorHandling, metrics: TaskMetrics) -> None:
        self._errors = errors
        self._metrics = metrics
        self._replay: Replay | None = None
        self._part: LetterRange | None = None  # in flight
        self._was_last = False

    def order(self, body: Mapping[str, Any] | None, resume_from: ResumeFrom | None = None) -> Mapping[str, Any] | None:
        """Starts a replay and returns its state; see `TaskRunner.replay`. `resume_from`: see Replay."""
        if body is not None:
            self._replay = Replay(self._errors, body, self._replay, resume_from)
        return None if self._replay is None else self._replay.status()

    @property
    def running(self) -> bool:
        """Whether a replay has been requested and has not ended."""
        return self._replay is not None and self._replay.running

    @property
    def in_flight(self) -> bool:
        """Whether the batch in flight is one of the replay."""
        return self._part is not None

    def takes_turn(self, *, alone: bool) -> bool:
        """Returns whether the next batch is one of the replay. `alone`: the task has none of its own."""
        self._part = None
        self._was_last = self.running and (alone or not self._was_last)
        return self._was_last

    def next_range(self, cluster: KafkaCluster, committed: Committed) -> LetterRange | None:
        """Returns the range of the next batch, or None if the replay has just ended."""
        if self._replay is not None:
            try:
                self._part = self._replay.next_range(cluster, committed)
            except Exception as error:  # noqa: BLE001 - Kafka's, or of the writer's resume_from
                self._replay.fail(error)
        return self._part

    def withdraw(self) -> None:
        """The batch in flight has been withdrawn."""
        self._part = None

    def fail(self, error: Exception) -> None:
        """Ends the replay: its batch in flight has failed."""
        self._part = None
        if self._replay is not None:
            self._replay.fail(error)

    def collect(self, counts: ReplayCounts, refused: Refused, commit: Callable[[LetterRange], bool]) -> Progress:
        """Ends the batch in flight. `commit` commits its records and its progress, and returns False if that is not
        possible any longer: then the range is read again if this task continues the replay.
        """
        replay, part, self._part = self._replay, self._part, None
        if replay is None or part is None:
            return Progress()
        refused.report_to(self._metrics, skipped=True)
        try:
            if commit(part):
                replay.add_result(part, counts, refused)
        except Exception as error:  # noqa: BLE001 - the plugin's, and Kafka's
            replay.fail(error)
        return Progress(0 if part.order.dry_run else counts.chosen)
