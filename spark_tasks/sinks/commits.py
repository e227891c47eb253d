"""When a sink task commits its group's offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.kafka.membership import CommitRefusedError, GroupConsumer
from spark_tasks.metrics.task import TaskMetrics

_logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS: Final = 5_000
NOTHING_MS: Final = 60_000


class PendingOffsets:
    """What the sink has taken and the group does not know yet. `refused` is called where the group has moved on; the
    offsets stay pending until they are committed or forgotten. `pause_s`: how long to wait between two commits.
    """

    def __init__(
        self, metrics: TaskMetrics, pause_s: Callable[[], float] = lambda: 0.0,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._metrics = metrics
        self._pause_s = pause_s
        self._refused = refused
        self._offsets: dict[TopicPartition, int] = {}
        self._committed_at = float("-inf")

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def add(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The next offset of each partition of a batch that the sink has taken."""
        self._offsets |= offsets

    def commit_due(self, consumer: GroupConsumer) -> int:
        """Commit if the pause since the last commit is over; the milliseconds until it is. KafkaUnavailableError."""
        wait_s = self._committed_at + self._pause_s() - time.monotonic()
        if self._offsets and wait_s > 0:
            return int(wait_s * 1000) + 1
        self.commit(consumer)
        return NOTHING_MS

    def commit(self, consumer: GroupConsumer) -> None:
        """Commit now. KafkaUnavailableError: the offsets stay pending."""
        if not self._offsets:
            return
        begun = time.perf_counter()
        try:
            consumer.commit(self._offsets, COMMIT_TIMEOUT_MS)
            self._metrics.committed(time.perf_counter() - begun)
        except KafkaUnavailableError:
            self._metrics.commit_failed()
            raise
        except CommitRefusedError as error:
            self._metrics.commit_skipped()
            _logger.warning("%s; what was read since the last commit may be written again", error)
            self._refused()
            return
        self._offsets, self._committed_at = {}, time.monotonic()

    def forget(self) -> None:
        """Whoever has the partitions now reads on from what is committed."""
        self._offsets = {}
