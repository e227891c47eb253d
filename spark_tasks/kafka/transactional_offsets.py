"""A consumer group's offset of one partition, which is committed in a transaction with records (KIP-98, KIP-447)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import kafka.errors as protocol
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import AddOffsetsToTxnRequest, TxnOffsetCommitRequest

from spark_tasks.errors import RetriableError
from spark_tasks.kafka.cluster import DEFAULT_TIMEOUT_MS, KafkaCluster, TopicPartition
from spark_tasks.kafka.connections import Deadline
from spark_tasks.kafka.errors import translated
from spark_tasks.kafka.identity import ProducerIdentity

_NEEDS = "READ permission on the group and its topics"
_NOT_A_MEMBER = (
    protocol.IllegalGenerationError, protocol.UnknownMemberIdError, protocol.RebalanceInProgressError,
    protocol.FencedInstanceIdError,
)


class NotAMemberError(RetriableError):
    """The group has rebalanced, so that the member may not commit offsets any more."""


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
        return self._run("reading", self._fetch)  # type: ignore[no-any-return]

    def add_to(self, identity: ProducerIdentity) -> None:
        """Adds the group to the transaction, before `commit`. The transaction may begin with it."""
        deadline = Deadline(DEFAULT_TIMEOUT_MS, first_ms=1.0, largest_ms=100.0)
        transactional_id = identity.transactional_id or ""

        async def attempt() -> None:
            response = await self._cluster.io.send(
                AddOffsetsToTxnRequest(
                    transactional_id=transactional_id, producer_id=identity.producer_id,
                    producer_epoch=identity.epoch, group_id=self._generation.group, max_version=3,
                ),
                await self._cluster.io.coordinator(transactional_id),
            )
            _check(response.error_code)

        self._translated("adding to a transaction", lambda: self._cluster.io.run(
            self._cluster.retrying_at_coordinator, transactional_id, attempt, deadline))

    def commit(self, identity: ProducerIdentity, offset: int, metadata: str) -> None:
        """Commits an offset with metadata if the transaction is committed. Raises NotAMemberError and
        MetadataTooLargeError, after which a shorter text can be committed.
        """

        async def attempt() -> None:
            kind, current, (topic, number) = TxnOffsetCommitRequest, self._generation, self._partition
            part = kind.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_leader_epoch=-1,
                committed_metadata=metadata)
            response = await self._send(kind(
                transactional_id=identity.transactional_id, group_id=current.group,
                producer_id=identity.producer_id, producer_epoch=identity.epoch,
                generation_id=current.number, member_id=current.member, group_instance_id=None,
                topics=[kind.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
                min_version=3, max_version=3,
            ))
            _check(response.topics[0].partitions[0].error_code)

        self._run("committing", attempt)

    async def _fetch(self) -> tuple[int, str] | None:
        kind, (topic, number) = OffsetFetchRequest, self._partition
        groups = kind.OffsetFetchRequestGroup
        response = await self._send(kind(
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

    async def _send(self, request: Any) -> Any:
        io = self._cluster.io
        return await io.send(request, await io.coordinator(self._generation.group, CoordinatorType.GROUP))

    def _run(self, doing: str, attempt: Any) -> Any:
        deadline = Deadline(DEFAULT_TIMEOUT_MS, first_ms=1.0, largest_ms=100.0)
        return self._translated(doing, lambda: self._cluster.io.run(
            self._cluster.retrying_at_coordinator, self._generation.group, attempt, deadline, CoordinatorType.GROUP))

    def _translated(self, doing: str, call: Any) -> Any:
        try:
            return call()
        except _NOT_A_MEMBER as error:
            raise NotAMemberError(f"consumer group {self._generation.group} refused a commit: {error}") from error
        except (protocol.KafkaError, OSError) as error:
            doing = f"{doing} an offset of consumer group {self._generation.group}"
            raise translated(error, doing, needs=_NEEDS) from error


def _check(code: int) -> None:
    if code:
        raise protocol.for_code(code)
