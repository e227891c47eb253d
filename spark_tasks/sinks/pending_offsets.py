"""Commits the offsets of a sink task's consumer group."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Final

from spark_tasks.futures import ended
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.errors import KafkaUnavailableError, MetadataTooLargeError, NotAMemberError
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.metrics.task import TaskMetrics

_logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS: Final = 5_000
RESPONSE_S: Final = 10.0  # longer than COMMIT_TIMEOUT_MS: the IO thread of the groups may be busy with other requests
NOTHING_MS: Final = 60_000
LATE_MS: Final = 100


class _CommitInFlight:
    """A commit whose response is awaited. `seconds`: its duration, once the response is there."""

    def __init__(self, offsets: Mapping[TopicPartition, int], response: Future[None]) -> None:
        self.offsets = offsets
        self.response = response
        self.seconds = 0.0
        self._begun = time.perf_counter()
        response.add_done_callback(self._ended)

    def _ended(self, _response: Future[None]) -> None:
        self.seconds = time.perf_counter() - self._begun


class PendingOffsets:
    """The offsets of written records that are not committed yet. They stay pending until they are committed or
    forgotten. `pause_s`: returns the minimum time between two commits. `refused` is called when the group's coordinator
    has refused a commit, because this is no longer a member of the current generation. `metadata`: returns what is
    committed with the offsets of these partitions.
    """

    def __init__(
        self, metrics: TaskMetrics, pause_s: Callable[[], float] = lambda: 0.0,
        refused: Callable[[], None] = lambda: None,
        metadata: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, str]] = lambda _partitions: {},
    ) -> None:
        self._metrics = metrics
        self._pause_s = pause_s
        self._refused = refused
        self._metadata = metadata
        self._offsets: dict[TopicPartition, int] = {}
        self._sent: _CommitInFlight | None = None
        self._sent_at = float("-inf")

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def add(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Adds the next offset of each partition of a batch that was written."""
        self._offsets.update(offsets)

    def commit_due(self, consumer: GroupConsumer) -> int:
        """Starts a commit if one is due. Returns the time until the next one is due in ms; NOTHING_MS if nothing is
        left to commit. This call or the next one raises the error of the commit: KafkaUnavailableError.
        """
        self._end_if_done()
        if not self._offsets or (self._sent is not None and self._sent.offsets == self._offsets):
            return NOTHING_MS
        wait_s = self._sent_at + self._pause_s() - time.monotonic()
        if wait_s > 0:
            return int(wait_s * 1000) + 1
        if self._sent is not None:  # no response yet: the IO thread of the groups is busy
            return LATE_MS
        self._begin(consumer)
        self._end_if_done()
        return NOTHING_MS

    def commit(self, consumer: GroupConsumer) -> None:
        """Commits now and waits for the response. After a KafkaUnavailableError the offsets are still pending."""
        self._end()
        if self._offsets:
            self._begin(consumer)
            self._end()

    def _begin(self, consumer: GroupConsumer) -> None:
        offsets = dict(self._offsets)
        response = consumer.begin_commit(offsets, COMMIT_TIMEOUT_MS, self._metadata(offsets))
        self._sent = _CommitInFlight(offsets, response)
        self._sent_at = time.monotonic()

    def _end_if_done(self) -> None:
        if self._sent is not None and self._sent.response.done():
            self._end()

    def _end(self) -> None:
        """Waits for the response to the commit in flight. After a timeout the commit stays in flight: no other commit
        may overtake it, and the group must not be joined before its end.
        """
        sent = self._sent
        if sent is None:
            return
        if not ended(sent.response, RESPONSE_S):
            raise KafkaUnavailableError("no response to a commit of offsets")
        self._sent = None
        try:
            sent.response.result()
        except KafkaUnavailableError:
            self._metrics.commit_failed()
            self._sent_at = float("-inf")
            raise
        except NotAMemberError as error:
            self._metrics.commit_skipped()
            _logger.warning("%s; records that were read since the last commit may be written again", error)
            self._refused()
            return
        except MetadataTooLargeError as error:  # Kafka Connect only logs it, too
            self._metrics.commit_failed()
            _logger.warning("%s", error)
        else:
            self._metrics.committed(sent.seconds)
        self._offsets = {tp: offset for tp, offset in self._offsets.items() if sent.offsets.get(tp) != offset}

    def take(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Takes the pending offsets of these partitions out, and returns them. Waits for a commit in flight first.
        Raises KafkaUnavailableError.
        """
        self._end()
        return {tp: self._offsets.pop(tp) for tp in partitions if tp in self._offsets}

    def forget(self) -> None:
        """Forgets all pending offsets: the partitions may have another member, which resumes at the committed ones."""
        self._offsets = {}
