"""Writes one dead letter for each bad record, as sender.py does, if letters do not name their records: without
context headers.

The transaction that writes letters also commits which records have one, as the metadata of the consumer group's offset
of their partition. So a batch that is repeated reads them there, when it has fenced earlier attempts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from typing_extensions import override

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once.letter_offsets import LONGEST, WrittenLetters, parsed
from spark_tasks.dead_letters.exactly_once.sender import (
    LettersOnce,
    OnceSender,
    RepeatingSender,
    SearchingSender,
    warn_of_repeats,
)
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.errors import KafkaAuthorizationError, MetadataTooLargeError
from spark_tasks.kafka.transactional_offsets import GroupGeneration, TransactionalOffset
from spark_tasks.kafka.transactions import TransactionOwner

_AT_MOST: Final = 1500  # letters fit into the metadata, if their records are a thousand apart


@dataclass(frozen=True, slots=True)
class LettersInGroup:
    """How to write the letters of one partition's records. `resume`: the first record that can be read again; the
    letters of earlier ones are forgotten. `unsure`: an earlier attempt may still write letters of these records, so it
    is fenced even if the batch has none, and `search` says what it has written.
    """

    transactional_id: str
    generation: GroupGeneration
    resume: int
    unsure: bool = False


class InGroupSender(OnceSender):
    """Keeps the offsets of records with letters in the consumer group."""

    at_most = _AT_MOST

    def __init__(self, handling: ErrorHandling, place: TopicPartition, letters: LettersInGroup) -> None:
        super().__init__(handling, place, letters.transactional_id, unsure=letters.unsure)
        self._generation = letters.generation
        self._resume = letters.resume
        self._position = 0  # the group's
        self._written = WrittenLetters()

    @override
    def _search(self, cluster: KafkaCluster) -> bool:
        try:
            committed = TransactionalOffset(cluster, self._generation, self._place).committed()
        except KafkaAuthorizationError as error:
            return self._warned(error)
        if committed is None:  # the task has committed one before the batch
            return self._warned("no offset of {}-{} is committed".format(*self._place))
        self._position, text = committed
        self._written = (parsed(text) or WrittenLetters()).since(self._resume)
        self._found = self.search = self._written
        return True

    @override
    def _commit_with(self, cluster: KafkaCluster, owner: TransactionOwner, letters: pa.RecordBatch) -> bool:
        written = self._written.with_more(letters.column("offset").to_pylist())
        offset = TransactionalOffset(cluster, self._generation, self._place)
        try:
            offset.add_to(owner.identity)
            self._written = self.search = self._commit(offset, owner, written)
        except (KafkaAuthorizationError, MetadataTooLargeError) as error:
            return self._warned(error)
        return True

    def _commit(self, offset: TransactionalOffset, owner: TransactionOwner, written: WrittenLetters) -> WrittenLetters:
        """Returns the letters that are committed: the last ones, if the broker does not allow the text of all."""
        longest = LONGEST
        while True:
            text, kept = written.noted(longest)
            try:
                offset.commit(owner.identity, self._position, text)
            except MetadataTooLargeError:
                if not kept.runs:
                    raise
                longest = len(text) // 2
            else:
                return kept

    def _warned(self, why: object) -> bool:
        group = self._generation.group
        warn_of_repeats("cannot commit offsets of consumer group %s in its transactions: %s", group, why)
        return False


def sender_of(
    handling: ErrorHandling, place: TopicPartition, letters: LettersOnce | LettersInGroup | None
) -> OnceSender | RepeatingSender:
    """Returns what sends the letters of one batch of a partition. `letters`: None for at least once."""
    if letters is None:
        return RepeatingSender()
    if isinstance(letters, LettersInGroup):
        return InGroupSender(handling, place, letters)
    return SearchingSender(handling, place, letters)
