"""Writes each dead letter once, if letters do not name their records: the transaction that writes letters also commits
the offsets of their records, as metadata of the consumer group's offset, where earlier attempts have committed theirs.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from typing_extensions import override

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once.letter_offsets import LetterOffsets, parsed
from spark_tasks.dead_letters.exactly_once.plans import GroupMetadataPlan
from spark_tasks.dead_letters.exactly_once.sender import ExactlyOnceSender, warn_of_repeats
from spark_tasks.dead_letters.offset_runs import MAX_METADATA
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.errors import KafkaAuthorizationError, MetadataTooLargeError
from spark_tasks.kafka.transactional_offsets import TransactionalOffset
from spark_tasks.kafka.transactions import TransactionOwner

_MAX_LETTERS: Final = 1500  # letters fit into the metadata, if their records are a thousand apart


class GroupMetadataSender(ExactlyOnceSender):
    """Reads and commits the offsets of records with letters in the consumer group."""

    max_letters = _MAX_LETTERS

    def __init__(self, handling: ErrorHandling, place: TopicPartition, plan: GroupMetadataPlan) -> None:
        super().__init__(handling, place, plan.transactional_id, unsure=plan.unsure)
        self._generation = plan.generation
        self._resume = plan.resume
        self._position = 0  # the group's
        self._written = LetterOffsets()

    @override
    def _search(self, cluster: KafkaCluster) -> bool:
        try:
            committed = TransactionalOffset(cluster, self._generation, self._place).committed()
        except KafkaAuthorizationError as error:
            return self._warned(error)
        if committed is None:  # the task has committed one before the batch
            return self._warned("no offset of {}-{} is committed".format(*self._place))
        self._position, text = committed
        self._written = (parsed(text) or LetterOffsets()).since(self._resume)
        self._found = self.known = self._written
        return True

    @override
    def _commit_with(self, cluster: KafkaCluster, owner: TransactionOwner, letters: pa.RecordBatch) -> bool:
        written = self._written.with_more(letters.column("offset").to_pylist())
        offset = TransactionalOffset(cluster, self._generation, self._place)
        try:
            offset.add_to(owner.identity)
            self._written = self.known = self._commit(offset, owner, written)
        except (KafkaAuthorizationError, MetadataTooLargeError) as error:
            return self._warned(error)
        return True

    def _commit(self, offset: TransactionalOffset, owner: TransactionOwner, written: LetterOffsets) -> LetterOffsets:
        """Returns the letters that are committed: the last ones, if the broker does not allow the text of all."""
        longest = MAX_METADATA
        while True:
            text, kept = written.metadata_within(longest)
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
