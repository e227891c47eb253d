"""The replays of a source task: their splits, and the commits of records and progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from typing_extensions import override

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.replay.letter_range import LetterRange
from spark_tasks.dead_letters.replay.source_progress import progress_in, progress_offset
from spark_tasks.dead_letters.replay.task_replays import Replays
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.metrics.phases import phase
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sources.delivery import Delivery, Lane
from spark_tasks.sources.replay_split import SourceReplayResult, SourceReplaySplit
from spark_tasks.task import OffsetStore, Progress


class SourceReplays(Replays):
    """Replays whose records and progress are committed by the task's delivery."""

    def __init__(
        self, errors: ErrorHandling, metrics: TaskMetrics, cluster: KafkaCluster, offsets: OffsetStore,
        delivery: Delivery,
    ) -> None:
        super().__init__(errors, metrics)
        self._cluster = cluster
        self._offsets = offsets
        self._delivery = delivery

    @override
    def takes_turn(self, *, alone: bool) -> bool:
        """As for sinks. A range has its own transaction, so it waits while one with the reader's records is open."""
        return not self._delivery.open and super().takes_turn(alone=alone)

    def next_split(self, job: Callable[[], bytes]) -> SourceReplaySplit | None:
        """Returns the next batch, or None if the replay has just ended. `job`: returns a pickled SourceJob. Raises
        ConnectErrors of Kafka.
        """
        part = self.next_range(self._cluster, lambda place: progress_in(self._offsets.read()).get(place))
        if part is None:
            return None
        lane = Lane(None) if part.order.dry_run else self._delivery.lanes(1)[0]
        return SourceReplaySplit(job(), lane, part)

    def end(self, result: SourceReplayResult, start_over: Callable[[], None]) -> Progress:
        """Ends a batch whose records are acknowledged. `start_over` is called after an error."""
        return self.collect(result.counts, result.refused, partial(self._commit, result, start_over))

    def _commit(self, result: SourceReplayResult, start_over: Callable[[], None], part: LetterRange) -> bool:
        if part.order.dry_run:
            return True
        try:
            self._delivery.written([result])
            self._delivery.check()
            begun = time.perf_counter()
            with phase("commit"), self._metrics.committing():
                progress = [progress_offset((part.queue, part.partition), result.counts.done)]
                _ = self._delivery.commit(progress) or self._delivery.settle(finish=True)
            self._metrics.committed(time.perf_counter() - begun)
        except Exception:
            start_over()
            raise
        return True
