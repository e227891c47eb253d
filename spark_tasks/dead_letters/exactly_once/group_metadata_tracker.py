"""Which records of a task's partitions have a dead letter, for a sink that writes one letter for each bad record and
whose letters do not name their records (dead_letters/exactly_once/group_metadata_sender.py).

That is committed as the metadata of the group's offset: by executors in the transactions of their letters, and by the
task with the offsets of its batches, but not during a batch, as that would replace what the executors commit. It is
kept from the offset on where the sink resumes, after the last record that it has: refused records after that are read
again when the task is restarted or a batch is repeated.

What is read in the group is uncertain, because a transaction of an earlier attempt may end later. So executors read it
again, after they have fenced that attempt, in the first batch that succeeds.

A partition without it gets one, committed at its position, before its first batch. So does one whose position was
set back, by a reset of its offsets or because its log was truncated or its topic created again: then all letters are
written, whatever earlier ones the queue has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from typing_extensions import override

from spark_tasks.dead_letters.exactly_once.group_metadata_sender import LettersInGroup
from spark_tasks.dead_letters.exactly_once.letter_offsets import WrittenLetters, parsed
from spark_tasks.dead_letters.exactly_once.sender import Search, warn_of_repeats
from spark_tasks.dead_letters.exactly_once.tracker import Marks
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.errors import NotAMemberError
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.kafka.transactional_offsets import GroupGeneration


@dataclass(frozen=True, slots=True)
class _Kept:
    position: int  # of the next batch
    resume: int
    letters: WrittenLetters
    unsure: bool


class LettersKept(Marks):
    """The letters of a task's partitions. `group`: its consumer group. `can_commit`: the queue's producer can commit
    the group's offsets, because both are in the same cluster.
    """

    def __init__(self, group: str, *, can_commit: bool) -> None:
        super().__init__()
        self._group = group
        self._can_commit = can_commit
        self._kept: dict[TopicPartition, _Kept] = {}
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
    def in_group(self) -> bool:
        return self.active

    @override
    def forget(self) -> None:
        self._kept = {}

    @override
    def complete(
        self, positions: Callable[[], Mapping[TopicPartition, int]], consumer: GroupConsumer,
        commit: Callable[[], None], timeout_ms: int,
    ) -> None:
        if not self.active:
            return
        generation = consumer.generation()
        if generation is None:
            raise NotAMemberError(f"consumer group {self._group} rebalances")
        self._generation = GroupGeneration(self._group, *generation)
        current = positions()
        missing = [partition for partition in current if partition not in self._kept]
        for partition, text in (consumer.committed_metadata(missing) if missing else {}).items():
            if (letters := parsed(text)) is not None:
                position = current[partition]
                self._kept[partition] = _Kept(position, position, letters, unsure=True)
        new = {partition: position for partition, position in current.items()
               if (kept := self._kept.get(partition)) is None or position < kept.position}
        if new:
            commit()  # or an older offset would be committed later
            consumer.commit(new, timeout_ms, WrittenLetters().text())
            self._kept |= {partition: _Kept(position, position, WrittenLetters(), unsure=False)
                           for partition, position in new.items()}

    @override
    def knows(self, partition: TopicPartition) -> bool:
        return not self.active or partition in self._kept

    @override
    def of(self, partition: TopicPartition) -> LettersInGroup | None:
        if not self.active or self._generation is None:
            return None
        (topic, number), kept = partition, self._kept[partition]
        return LettersInGroup(f"{self._group}-letters-{topic}-{number}", self._generation, kept.resume, kept.unsure)

    @override
    def advance(
        self, partition: TopicPartition, position: int, written_to: int | None, search: Search | WrittenLetters | None
    ) -> None:
        if (kept := self._kept.get(partition)) is not None:
            resume = kept.resume if written_to is None else written_to
            letters = search if isinstance(search, WrittenLetters) else kept.letters
            self._kept[partition] = _Kept(position, resume, letters.since(resume), unsure=False)

    @override
    def failed(self) -> None:
        self.forget()  # a part of the batch may have committed letters

    @override
    def metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        return {tp: self._kept[tp].letters.text() for tp in partitions if tp in self._kept}
