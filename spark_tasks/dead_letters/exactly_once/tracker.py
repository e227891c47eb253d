"""What a task has to know so that a repeated batch writes only the dead letters that are missing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping

from spark_tasks.dead_letters.exactly_once.group_metadata_sender import LettersInGroup
from spark_tasks.dead_letters.exactly_once.letter_offsets import WrittenLetters
from spark_tasks.dead_letters.exactly_once.sender import LettersOnce, Search
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.membership import GroupConsumer


class Marks(ABC):
    """What a task knows of the letters of its partitions. Only if `active`: otherwise it does nothing."""

    def __init__(self) -> None:
        self.active = False

    def activate(self, task: str) -> None:  # noqa: ARG002
        """Called at the start of a task whose sink stores offsets itself and that has a dead letter queue."""
        self.active = True

    @property
    @abstractmethod
    def in_group(self) -> bool:
        """Whether executors commit the group's offsets with letters. The task must not commit those of a batch's
        partitions meanwhile, because it would replace what the executors have committed.
        """

    @abstractmethod
    def forget(self) -> None:
        """Reads it again before the next batch, because another member may have committed something else."""

    @abstractmethod
    def complete(
        self, positions: Callable[[], Mapping[TopicPartition, int]], consumer: GroupConsumer,
        commit: Callable[[], None], timeout_ms: int,
    ) -> None:
        """Finds what is known of each position, or commits that there is nothing. `commit`: commits the pending
        offsets, before others are committed. Raises ConnectErrors of Kafka.
        """

    @abstractmethod
    def knows(self, partition: TopicPartition) -> bool:
        """Whether this partition's next records may be written: not before `complete` has found it."""

    @abstractmethod
    def of(self, partition: TopicPartition) -> LettersOnce | LettersInGroup | None:
        """How the letters of this partition's next records are written; None for at least once."""

    @abstractmethod
    def advance(
        self, partition: TopicPartition, position: int, written_to: int | None, search: Search | WrittenLetters | None
    ) -> None:
        """The sink has committed a batch that ended before `position`. `written_to`: the offset after its last record
        in the sink, None if that is unknown or there is none. `search`: from OnceSender.
        """

    @abstractmethod
    def failed(self) -> None:
        """A batch has failed. It will be repeated. With `in_group`, pending offsets must not be committed any more."""

    @abstractmethod
    def metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """What is committed with the offsets of these partitions."""
