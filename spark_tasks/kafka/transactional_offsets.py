"""A consumer group's offset of one partition, which is committed in a transaction with records (KIP-98, KIP-447)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import kafka.errors as protocol
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import AddOffsetsToTxnRequest, TxnOffsetCommitRequest

from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.connections import Send
from spark_tasks.kafka.identity import ProducerIdentity

T = TypeVar("T")

_NEEDS = "READ permission on the group and its topics"


@dataclass(frozen=True, slots=True)
class GroupGeneration:
    """A member of a group, in the generation in which it has the partitions for which it commits."""

    group: str
    number: int
    member: str


class TransactionalOffset:
    """Reads and commits the offset of one partition. Methods raise ConnectErrors of Kafka."""

    def __init__(self, cluster: KafkaCluster, generation: GroupGeneration, partition: TopicPartition) -> None:
        self._cluster = cluster
        self._generation = generation
        self._partition = partition

    def committed(self) -> tuple[int, str] | None:
        """Returns the offset and its metadata, None if there is none. Waits for the end of a transaction that has
        committed one.
        """
        return self._at_group("reading", self._fetch)

    def add_to(self, identity: ProducerIdentity) -> None:
        """Adds the group to the transaction, before `commit`. The transaction may begin with it."""
        transactional_id, group = identity.transactional_id or "", self._generation.group

        async def attempt(send: Send) -> None:
            response = await send(AddOffsetsToTxnRequest(
                transactional_id=transactional_id, producer_id=identity.producer_id,
                producer_epoch=identity.epoch, group_id=group, max_version=3,
            ))
            _check(response.error_code)

        self._cluster.at_coordinator(
            transactional_id, attempt, f"adding to a transaction an offset of consumer group {group}", _NEEDS)

    def commit(self, identity: ProducerIdentity, offset: int, metadata: str) -> None:
        """Commits an offset with metadata if the transaction is committed. Raises NotAMemberError and
        MetadataTooLargeError, after which a shorter text can be committed.
        """

        async def attempt(send: Send) -> None:
            kind, current, (topic, number) = TxnOffsetCommitRequest, self._generation, self._partition
            part = kind.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_leader_epoch=-1,
                committed_metadata=metadata)
            response = await send(kind(
                transactional_id=identity.transactional_id, group_id=current.group,
                producer_id=identity.producer_id, producer_epoch=identity.epoch,
                generation_id=current.number, member_id=current.member, group_instance_id=None,
                topics=[kind.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
                min_version=3, max_version=3,
            ))
            _check(response.topics[0].partitions[0].error_code)

        self._at_group("committing", attempt)

    async def _fetch(self, send: Send) -> tuple[int, str] | None:
        kind, (topic, number) = OffsetFetchRequest, self._partition
        groups = kind.OffsetFetchRequestGroup
        response = await send(kind(
            group_id=self._generation.group,
            topics=[kind.OffsetFetchRequestTopic(name=topic, partition_indexes=[number])],
            groups=[groups(group_id=self._generation.group, topics=[
                groups.OffsetFetchRequestTopics(name=topic, partition_indexes=[number])])],
            require_stable=True, min_version=7, max_version=8,
        ))
        found = response.groups[0] if response.API_VERSION >= 8 else response
        _check(found.error_code)
        part = found.topics[0].partitions[0]
        _check(part.error_code)
        return None if part.committed_offset < 0 else (part.committed_offset, part.metadata or "")

    def _at_group(self, doing: str, attempt: Callable[[Send], Awaitable[T]]) -> T:
        group = self._generation.group
        doing = f"{doing} an offset of consumer group {group}"
        return self._cluster.at_coordinator(group, attempt, doing, _NEEDS, kind=CoordinatorType.GROUP)


def _check(code: int) -> None:
    if code:
        raise protocol.for_code(code)
