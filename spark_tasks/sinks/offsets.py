"""The offsets of a sink task: the positions from which it reads, the offsets that its group has to commit, and those of
records that have a dead letter. A batch that was written advances all three; a lost membership sets all three back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from spark_tasks.dead_letters.exactly_once.group_metadata_tracker import GroupMetadataTracker
from spark_tasks.dead_letters.exactly_once.queue_search_tracker import QueueSearchTracker
from spark_tasks.dead_letters.exactly_once.tracker import LetterTracker
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.kafka.watcher import EndWatcher
from spark_tasks.metrics.phases import phase
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sinks.pending_offsets import COMMIT_TIMEOUT_MS, PendingOffsets
from spark_tasks.sinks.positions import Positions
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.split import SinkResult
from spark_tasks.task import ResumeFrom, TaskContext


class SinkOffsets:
    """Methods raise ConnectErrors of Kafka. `pause_s`: see PendingOffsets."""

    def __init__(
        self, positions: Positions, letters: LetterTracker, metrics: TaskMetrics, pause_s: Callable[[], float]
    ) -> None:
        self.positions = positions
        self.letters = letters
        self._metrics = metrics
        self._pending = PendingOffsets(metrics, pause_s, self._go_back, letters.metadata)
        self._replaced: dict[TopicPartition, int] = {}  # pending offsets that the batch in flight replaces

    @classmethod
    def of(
        cls, context: TaskContext, settings: SinkSettings, watcher: EndWatcher,
        resume_from: ResumeFrom | None,
        pause_s: Callable[[], float],
    ) -> SinkOffsets:
        """Returns the offsets of a task that has no assignment yet. `resume_from`: see Positions."""
        positions = Positions(watcher, settings.isolation, settings.reset, resume_from)
        group = settings.consumer.group_id
        letters: LetterTracker
        if settings.errors.with_headers:
            letters = QueueSearchTracker(settings.errors, group)
        else:
            letters = GroupMetadataTracker(group, can_commit=settings.queue_is_in_group_cluster)
        if positions.resumable and settings.errors.queue:
            letters.activate(context.id)
        return cls(positions, letters, context.metrics, pause_s)

    def assign(self, consumer: GroupConsumer) -> None:
        """Sets the member's new assignment."""
        self.positions.assign(consumer.assignment(), consumer.committed)
        self.letters.reset()

    def ranges(self, consumer: GroupConsumer, max_records: int) -> list[tuple[TopicPartition, int, int]]:
        """Returns the ranges of the next batch (see Positions.ranges)."""
        self.letters.look_up(self.positions.known, consumer, lambda: self.commit(consumer), COMMIT_TIMEOUT_MS)
        with phase("plan"):
            found = self.positions.ranges(max_records) if self.positions else []
            known = [one for one in found if self.letters.is_ready(one[0])]  # others have just got a leader
        self._measure_lags()
        return known

    def begin(self, partitions: Collection[TopicPartition]) -> bool:
        """Called before a batch with records of these partitions. Returns False if the positions have to be read again,
        because the group has refused a commit.
        """
        self._replaced = self._pending.take(partitions) if self.letters.executors_commit else {}
        return all(map(self.letters.is_ready, partitions))

    def withdraw(self) -> None:
        """The batch in flight has not begun, and never will."""
        self._pending.add(self._replaced)

    def written(self, results: Sequence[SinkResult]) -> None:
        """The writer has committed a batch, so its offsets are pending."""
        done = [result for result in results if result.out_of_range is None]
        for result in done:
            place = (result.topic, result.partition)
            self.positions.advance(place, result.next_offset)
            self.letters.advance(place, result.next_offset, result.written_to, result.known_letters)
        self._measure_lags()
        offsets = {(result.topic, result.partition): result.next_offset for result in done}
        self._pending.add({tp: offset for tp, offset in offsets.items() if self.letters.is_ready(tp)})
        for result in results:  # after what was written, as it may fail
            if result.out_of_range is not None:
                self.positions.out_of_range(result.topic, result.partition, *result.out_of_range)
        self._pending.add({tp: offset for tp, offset in self.positions.take_starts().items() if tp not in offsets})

    def not_written(self) -> None:
        """A batch was not committed, and is read again."""
        self.letters.batch_failed()
        if self.letters.executors_commit:
            self._pending.forget()

    def commit(self, consumer: GroupConsumer) -> None:
        """Commits what is pending, and waits for the response."""
        if self._pending:
            self._pending.commit(consumer)

    def commit_due(self, consumer: GroupConsumer) -> int:
        """See PendingOffsets.commit_due."""
        return self._pending.commit_due(consumer)

    @property
    def pending(self) -> bool:
        """Whether offsets are left to commit."""
        return bool(self._pending)

    def refresh_lags(self) -> None:
        """Keeps the lags of a task that reads nothing up to date."""
        self.positions.refresh_ends()
        self._measure_lags()

    def _measure_lags(self) -> None:
        self._metrics.lags = self.positions.lags()

    def _go_back(self) -> None:
        """Goes back to the committed offsets: another member may have written the later records meanwhile."""
        self._pending.forget()
        self.positions.forget()
        self.letters.reset()
