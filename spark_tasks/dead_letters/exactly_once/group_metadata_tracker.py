"""Tracks which records of a task's partitions have a dead letter, for letters that do not name their records.

The offsets of these records are committed as metadata of the group's offset: by executors in the transactions of their
letters, and by the task with the offsets of its batches. The task does not commit them during a batch, because that
would replace what the executors commit. The metadata begins at the offset where the sink resumes, after the last record
that it has: refused records after that offset are read again when the task is restarted or a batch is repeated.

What the task reads in the group is uncertain, because a transaction of an earlier attempt may end later. So executors
read it again, after they have fenced that attempt, in the first batch that succeeds.

A partition without such metadata gets it before its first batch, committed at the partition's position. So does one
whose position was set back: its offsets were reset, its log was truncated, or its topic was created again. Then all
letters are written, even if the queue has earlier ones of the same offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from typing_extensions import override

from spark_tasks.dead_letters.exactly_once.letter_offsets import LetterOffsets, parsed
from spark_tasks.dead_letters.exactly_once.plans import GroupMetadataPlan, KnownLetters
from spark_tasks.dead_letters.exactly_once.sender import warn_of_repeats
from spark_tasks.dead_letters.exactly_once.tracker import LetterTracker, transactional_id
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.errors import NotAMemberError
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.kafka.transactional_offsets import GroupGeneration


@dataclass(frozen=True, slots=True)
class _Known:
    position: int  # of the next batch
    resume: int
    letters: LetterOffsets
    unsure: bool  # a transaction of an earlier attempt may end later


class GroupMetadataTracker(LetterTracker):
    """The letters of a task's partitions. `group`: its consumer group. `can_commit`: the queue's producer can commit
    the group's offsets, because both are in the same cluster.
    """

    def __init__(self, group: str, *, can_commit: bool) -> None:
        super().__init__()
        self._group = group
        self._can_commit = can_commit
        self._known: dict[TopicPartition, _Known] = {}
        self._generation: GroupGeneration | None = None

    @override
    def activate(self, task: str) -> None:
        if self._can_commit:
            super().activate(task)
        else:
            warn_of_repeats("has other bootstrap.servers than the consumer of %s, and its letters no context headers",
                            task)

    @property
    @override
    def executors_commit(self) -> bool:
        return self.active

    @override
    def reset(self) -> None:
        self._known = {}

    @override
    def look_up(
        self, positions: Callable[[], Mapping[TopicPartition, int]], consumer: GroupConsumer,
        commit: Callable[[], None], timeout_ms: int,
    ) -> None:
        if self.active:
            generation = consumer.generation()
            if generation is None:
                raise NotAMemberError(f"consumer group {self._group} rebalances")
            self._generation = GroupGeneration(self._group, *generation)
        super().look_up(positions, consumer, commit, timeout_ms)

    @override
    def _is_known(self, partition: TopicPartition) -> bool:
        return partition in self._known

    @override
    def _restore(self, partition: TopicPartition, position: int, text: str) -> None:
        if (letters := parsed(text)) is not None:
            self._known[partition] = _Known(position, position, letters, unsure=True)

    @override
    def _continue_at(self, partition: TopicPartition, position: int) -> bool:
        known = self._known.get(partition)
        return known is not None and position >= known.position

    @override
    def _begin(self, new: Mapping[TopicPartition, int], commit: Callable[[str], None]) -> None:
        none = LetterOffsets()
        commit(none.metadata())
        self._known |= {partition: _Known(position, position, none, unsure=False)
                        for partition, position in new.items()}

    @override
    def plan(self, partition: TopicPartition) -> GroupMetadataPlan | None:
        if not self.active or self._generation is None:
            return None
        own_id, known = transactional_id(self._group, partition), self._known[partition]
        return GroupMetadataPlan(own_id, self._generation, known.resume, known.unsure)

    @override
    def advance(
        self, partition: TopicPartition, position: int, written_to: int | None, known: KnownLetters | None
    ) -> None:
        if (before := self._known.get(partition)) is not None:
            resume = before.resume if written_to is None else written_to
            letters = known if isinstance(known, LetterOffsets) else before.letters
            self._known[partition] = _Known(position, resume, letters.since(resume), unsure=False)

    @override
    def batch_failed(self) -> None:
        self.reset()  # a part of the batch may have committed letters

    @override
    def metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        return {tp: self._known[tp].letters.metadata() for tp in partitions if tp in self._known}
