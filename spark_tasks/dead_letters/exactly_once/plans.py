"""What a sink task tells its executors about the dead letters of a partition, and what they tell the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from spark_tasks.dead_letters.exactly_once.letter_offsets import LetterOffsets
from spark_tasks.kafka.transactional_offsets import GroupGeneration

QueueEnds = tuple[int, ...]
"""The end offset of each partition of the queue."""


@dataclass(frozen=True, slots=True)
class QueueSearchPlan:
    """Search the queue for earlier letters. `since`: the ends of the queue at a time when no record from the start of
    the batch on had a letter.
    """

    transactional_id: str
    since: QueueEnds


class QueueSearchResult(NamedTuple):
    """What a batch has found in the queue before it wrote its own letters. `ends`: the queue's at that time. `last`:
    the largest offset of a record of the partition with a letter, -1 if there is none. That record may be one before
    the batch, or one after it, if an earlier attempt read more records.
    """

    ends: QueueEnds
    last: int


@dataclass(frozen=True, slots=True)
class GroupMetadataPlan:
    """Read earlier letters from the metadata of the group's offset, and commit the new ones there. `resume`: the first
    record that can be read again; earlier ones are left out of the metadata. `unsure`: an earlier attempt may still
    write letters, so it is fenced even if the batch has no bad record, and the sender's `known` says what it has
    written.
    """

    transactional_id: str
    generation: GroupGeneration
    resume: int
    unsure: bool = False


SendPlan = QueueSearchPlan | GroupMetadataPlan
KnownLetters = QueueSearchResult | LetterOffsets
"""What a batch has found and written, for the plans of the next batches."""
