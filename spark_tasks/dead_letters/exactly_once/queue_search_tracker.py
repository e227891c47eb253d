"""Tracks where in the dead letter queue the search for earlier letters of a task's records has to begin.

A mark is a position in a partition, and the offsets at which the dead letter queue ended when no record from that
position on had a letter yet. So letters of those records can only be after these offsets. Each partition has two marks:

- one for the task's next batch;
- one for the offset where the sink itself resumes, after the last record that it has. Refused records after that offset
  are read again when the task is restarted or a batch is repeated. This mark is committed as metadata of the group's
  offset, so that another task finds it.

A partition without a mark gets one before its first batch, which is committed at the partition's position. So does one
whose position was set back: its offsets were reset, its log was truncated, or its topic was created again. Then all
letters are written, even if the queue has earlier ones of the same offsets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once.plans import KnownLetters, QueueEnds, QueueSearchPlan, QueueSearchResult
from spark_tasks.dead_letters.exactly_once.queue_search_sender import queue_ends
from spark_tasks.dead_letters.exactly_once.tracker import LetterTracker, transactional_id
from spark_tasks.dead_letters.offset_runs import MAX_METADATA
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.membership import GroupConsumer

_PREFIX: Final = "heeler-letters:"
_FORM: Final = re.compile(r"[0-9]{1,18}(,[0-9]{1,18})*")


@dataclass(frozen=True, slots=True)
class _Mark:
    position: int
    ends: QueueEnds


class QueueSearchTracker(LetterTracker):
    """The marks of a task's partitions. `group`: its consumer group."""

    def __init__(self, errors: ErrorHandling, group: str) -> None:
        super().__init__()
        self._errors = errors
        self._group = group
        self._marks: dict[TopicPartition, _Mark] = {}  # for the next batches
        self._resume: dict[TopicPartition, _Mark] = {}  # for where the sink resumes
        self._repeats = False  # whether the next batch is a repeated one, which may begin where the sink resumes

    @property
    @override
    def executors_commit(self) -> bool:
        return False

    @override
    def reset(self) -> None:
        self._marks, self._resume = {}, {}

    @override
    def batch_failed(self) -> None:
        self._repeats = True  # and what is known was committed before the batch

    @override
    def look_up(
        self, positions: Callable[[], Mapping[TopicPartition, int]], consumer: GroupConsumer,
        commit: Callable[[], None], timeout_ms: int,
    ) -> None:
        super().look_up(positions, consumer, commit, timeout_ms)
        self._repeats = False

    @override
    def _is_known(self, partition: TopicPartition) -> bool:
        return partition in self._marks

    @override
    def _restore(self, partition: TopicPartition, position: int, text: str) -> None:
        if (ends := parsed(text)) is not None:
            # Even if the sink resumes before the group's offset: a reset of offsets leaves no metadata.
            self._mark(partition, _Mark(position, ends))

    @override
    def _continue_at(self, partition: TopicPartition, position: int) -> bool:
        known = [marks[partition] for marks in (self._marks, self._resume) if partition in marks]
        known = known if self._repeats else known[:1]  # a position before the first one was set back
        mark = next((mark for mark in known if mark.position <= position), None)
        if mark is not None:
            self._marks[partition] = mark
        return mark is not None

    @override
    def _begin(self, new: Mapping[TopicPartition, int], commit: Callable[[str], None]) -> None:
        ends = queue_ends(self._errors)
        commit(metadata(ends))
        for partition, position in new.items():
            self._mark(partition, _Mark(position, ends))

    def _mark(self, partition: TopicPartition, mark: _Mark) -> None:
        self._marks[partition] = self._resume[partition] = mark

    @override
    def plan(self, partition: TopicPartition) -> QueueSearchPlan | None:
        if not self.active:
            return None
        return QueueSearchPlan(transactional_id(self._group, partition), self._marks[partition].ends)

    @override
    def advance(
        self, partition: TopicPartition, position: int, written_to: int | None, known: KnownLetters | None
    ) -> None:
        found = known if isinstance(known, QueueSearchResult) else None
        mark = self._marks.get(partition)
        if mark is None:
            return
        if written_to is not None:
            self._resume[partition] = _advanced(mark, written_to, found)
        self._marks[partition] = _advanced(mark, position, found)

    @override
    def metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        return {tp: metadata(self._resume[tp].ends) for tp in partitions if tp in self._resume}


def _advanced(mark: _Mark, position: int, found: QueueSearchResult | None) -> _Mark:
    """Returns the mark of a later position. It keeps the earlier ends if a record from there on had a letter."""
    return _Mark(position, mark.ends if found is None or found.last >= position else found.ends)


def metadata(ends: QueueEnds) -> str:
    """Returns metadata of a group's offset, which `parsed` reads. Raises ConnectError if it is too long for brokers."""
    text = _PREFIX + ",".join(map(str, ends))
    if len(text) > MAX_METADATA:
        raise ConnectError(
            f"the dead letter queue has {len(ends)} partitions: too many for a sink that stores offsets itself, whose "
            "consumer group stores a position in each of them (errors.deadletterqueue.topic.name)"
        )
    return text


def parsed(text: str) -> QueueEnds | None:
    """Returns the ends in the metadata of a group's offset; None if it has none."""
    numbers = text.removeprefix(_PREFIX)
    if not text.startswith(_PREFIX) or _FORM.fullmatch(numbers) is None:
        return None
    return tuple(map(int, numbers.split(",")))
