"""What a sink task knows of the dead letters of its partitions, so that a repeated batch writes only missing ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial

from spark_tasks.dead_letters.exactly_once.plans import KnownLetters, SendPlan
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.membership import GroupConsumer


class LetterTracker(ABC):
    """Tracks the letters of a task's partitions from batch to batch. Does nothing unless it is `active`."""

    def __init__(self) -> None:
        self.active = False

    def activate(self, task: str) -> None:  # noqa: ARG002
        """Called at the start of a task whose sink stores offsets itself and that has a dead letter queue."""
        self.active = True

    @property
    @abstractmethod
    def executors_commit(self) -> bool:
        """Whether executors commit the group's offsets with letters. The task must not commit those of a batch's
        partitions meanwhile, because it would replace what the executors have committed.
        """

    @abstractmethod
    def reset(self) -> None:
        """Discards what is known: another member may have committed something else. `look_up` reads it again."""

    def look_up(
        self, positions: Callable[[], Mapping[TopicPartition, int]], consumer: GroupConsumer,
        commit: Callable[[], None], timeout_ms: int,
    ) -> None:
        """Called before each batch. Reads from the group what is not known of a position. If the group has nothing
        either, commits that its records have no letters. `commit`: commits the pending offsets, before others are
        committed. Raises ConnectErrors of Kafka.
        """
        if not self.active:
            return
        current = positions()
        missing = [partition for partition in current if not self._is_known(partition)]
        for partition, text in (consumer.committed_metadata(missing) if missing else {}).items():
            self._restore(partition, current[partition], text)
        new = {partition: position for partition, position in current.items()
               if not self._continue_at(partition, position)}
        if new:
            commit()  # or an older offset would be committed later
            self._begin(new, partial(consumer.commit, new, timeout_ms))

    def is_ready(self, partition: TopicPartition) -> bool:
        """Whether the partition's next records may be written: not before `look_up`."""
        return not self.active or self._is_known(partition)

    @abstractmethod
    def _is_known(self, partition: TopicPartition) -> bool:
        """Whether anything is known of a partition's letters."""

    @abstractmethod
    def _restore(self, partition: TopicPartition, position: int, text: str) -> None:
        """Takes over what the metadata of the group's offset says, if it is heeler's."""

    @abstractmethod
    def _continue_at(self, partition: TopicPartition, position: int) -> bool:
        """Continues at this position with what is known. Returns False if nothing is known, or if the position was set
        back.
        """

    @abstractmethod
    def _begin(self, new: Mapping[TopicPartition, int], commit: Callable[[str], None]) -> None:
        """Begins without letters at these positions. `commit`: commits them, with metadata."""

    @abstractmethod
    def plan(self, partition: TopicPartition) -> SendPlan | None:
        """Returns how the letters of the partition's next batch are written; None for at least once."""

    @abstractmethod
    def advance(
        self, partition: TopicPartition, position: int, written_to: int | None, known: KnownLetters | None
    ) -> None:
        """The sink has committed a batch that ended before `position`. `written_to`: the offset after its last record
        in the sink, None if that is unknown or there is none. `known`: from the batch's sender.
        """

    @abstractmethod
    def batch_failed(self) -> None:
        """A batch has failed, and will be repeated. If `executors_commit`, pending offsets must not be committed."""

    @abstractmethod
    def metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Returns what is committed with the offsets of these partitions."""


def transactional_id(group: str, partition: TopicPartition) -> str:
    """Returns the transactional id of the letters of a partition's records."""
    topic, number = partition
    return f"{group}-letters-{topic}-{number}"
