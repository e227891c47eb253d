"""Where in the dead letter queue the letters of a task's next records can begin, for a sink that writes one letter for
each bad record (dead_letters/letters_once.py).

A mark belongs to a position: the ends of the queue at a time when no record from there on had a letter. It is committed
as the metadata of the group's offset, so that another task finds it. A partition without a mark gets one, committed at
its position, before its first batch. So does one whose position was set back, by a reset of its offsets or because its
topic was created again: then all letters are written, whatever earlier ones the queue has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.letters_once import Ends, LettersOnce, queue_ends
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.membership import GroupConsumer

_PREFIX: Final = "heeler-letters:"
_FORM: Final = re.compile(r"[0-9]{1,18}(,[0-9]{1,18})*")
_LONGEST: Final = 4096  # Kafka's default offset.metadata.max.bytes


@dataclass(frozen=True, slots=True)
class _Mark:
    position: int
    ends: Ends


class LetterMarks:
    """The marks of a task's partitions. `group`: its consumer group. Only if `active`: otherwise it does nothing."""

    def __init__(self, errors: ErrorHandling, group: str) -> None:
        self.active = False
        self._errors = errors
        self._group = group
        self._marks: dict[TopicPartition, _Mark] = {}

    def forget(self) -> None:
        """Reads the marks again before the next batch, because another member may have committed others."""
        self._marks = {}

    def complete(
        self, positions: Callable[[], Mapping[TopicPartition, int]], consumer: GroupConsumer,
        commit: Callable[[], None], timeout_ms: int,
    ) -> None:
        """Finds or commits a mark for each position. `commit`: commits the pending offsets. Raises ConnectErrors of
        Kafka.
        """
        if not self.active:
            return
        new = dict[TopicPartition, int]()
        for partition, position in positions().items():
            mark = self._marks.get(partition) or _committed(partition, consumer)
            if mark is None or position < mark.position:
                new[partition] = position
            else:
                self._marks[partition] = mark
        if new:
            commit()  # or an older offset would be committed later
            ends = queue_ends(self._errors)
            consumer.commit(new, timeout_ms, metadata(ends))
            self._marks |= {partition: _Mark(position, ends) for partition, position in new.items()}

    def of(self, partition: TopicPartition) -> LettersOnce | None:
        """How the letters of this partition's next records are written; None for at least once."""
        if not self.active:
            return None
        topic, number = partition
        return LettersOnce(f"{self._group}-letters-{topic}-{number}", self._marks[partition].ends)

    def advance(self, partition: TopicPartition, position: int, ends: Ends | None) -> None:
        """The sink has committed a batch that ended before `position`. `ends`: from `send_once`."""
        mark = self._marks.get(partition)
        if mark is not None:
            self._marks[partition] = _Mark(position, ends or mark.ends)

    def metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """What is committed with the offsets of these partitions."""
        return {tp: metadata(self._marks[tp].ends) for tp in partitions if tp in self._marks}


def _committed(partition: TopicPartition, consumer: GroupConsumer) -> _Mark | None:
    offset, text = consumer.committed_with_metadata(partition) or (0, "")
    ends = parsed(text)
    return None if ends is None else _Mark(offset, ends)


def metadata(ends: Ends) -> str:
    """A group offset's metadata, which `parsed` reads. Raises ConnectError if it is too long for brokers."""
    text = _PREFIX + ",".join(map(str, ends))
    if len(text) > _LONGEST:
        raise ConnectError(
            f"the dead letter queue has {len(ends)} partitions: too many for a sink that stores offsets itself, whose "
            "consumer group stores a position in each of them (errors.deadletterqueue.topic.name)"
        )
    return text


def parsed(text: str) -> Ends | None:
    """The ends in a group offset's metadata; None if it has none."""
    numbers = text.removeprefix(_PREFIX)
    if not text.startswith(_PREFIX) or _FORM.fullmatch(numbers) is None:
        return None
    return tuple(map(int, numbers.split(",")))
