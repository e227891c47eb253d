"""When a sink task commits its group's offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Final

from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.kafka.membership import CommitRefusedError, GroupConsumer
from spark_tasks.metrics.task import TaskMetrics

_logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS: Final = 5_000
ANSWER_S: Final = 10.0  # the groups' thread may be busy with other requests
NOTHING_MS: Final = 60_000
LATE_MS: Final = 100


class _Sent:
    """A commit that waits for its answer, and how long it took."""

    def __init__(self, offsets: Mapping[TopicPartition, int], answer: Future[None]) -> None:
        self.offsets = offsets
        self.answer = answer
        self.seconds = 0.0
        self._begun = time.perf_counter()
        answer.add_done_callback(self._note)

    def _note(self, _answer: Future[None]) -> None:
        self.seconds = time.perf_counter() - self._begun


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
        self._sent: _Sent | None = None
        self._sent_at = float("-inf")

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def add(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The next offset of each partition of a batch that the sink has taken."""
        self._offsets.update(offsets)

    def commit_due(self, consumer: GroupConsumer) -> int:
        """Begin to commit if it is time; returns for how many ms it is not, NOTHING_MS if nothing is left to commit.
        This call or the next one reports what became of the last commit: KafkaUnavailableError.
        """
        self._end_if_done()
        if not self._offsets or (self._sent is not None and self._sent.offsets == self._offsets):
            return NOTHING_MS
        wait_s = self._sent_at + self._pause_s() - time.monotonic()
        if wait_s > 0:
            return int(wait_s * 1000) + 1
        if self._sent is not None:  # the thread of the groups is busy; the commits of others are not there either
            return LATE_MS
        self._begin(consumer)
        self._end_if_done()
        return NOTHING_MS

    def commit(self, consumer: GroupConsumer) -> None:
        """Commit now, and wait. KafkaUnavailableError: the offsets stay pending."""
        self._end()
        if self._offsets:
            self._begin(consumer)
            self._end()

    def _begin(self, consumer: GroupConsumer) -> None:
        offsets = dict(self._offsets)
        self._sent = _Sent(offsets, consumer.begin_commit(offsets, COMMIT_TIMEOUT_MS))
        self._sent_at = time.monotonic()

    def _end_if_done(self) -> None:
        if self._sent is not None and self._sent.answer.done():
            self._end()

    def _end(self) -> None:
        """Wait for the answer. Until it is there the commit stays: none may overtake it, nor the group be joined."""
        sent = self._sent
        if sent is None:
            return
        if not wait([sent.answer], ANSWER_S).done:
            raise KafkaUnavailableError("the commit of offsets is not answered")
        self._sent = None
        try:
            sent.answer.result()
        except KafkaUnavailableError:
            self._metrics.commit_failed()
            self._sent_at = float("-inf")
            raise
        except CommitRefusedError as error:
            self._metrics.commit_skipped()
            _logger.warning("%s; what was read since the last commit may be written again", error)
            self._refused()
            return
        self._metrics.committed(sent.seconds)
        self._offsets = {tp: offset for tp, offset in self._offsets.items() if sent.offsets.get(tp) != offset}

    def forget(self) -> None:
        """Whoever has the partitions now reads on from what is committed."""
        self._offsets = {}
