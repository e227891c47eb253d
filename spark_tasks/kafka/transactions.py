"""Transactions of one transactional id (KIP-98, KIP-360, KIP-890). A task on the worker owns the id; appenders only get
copies of its identity.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import kafka.errors as protocol
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import DEFAULT_TIMEOUT_MS, KafkaCluster, TopicPartition
from spark_tasks.kafka.connections import Send
from spark_tasks.kafka.errors import TransactionAbortableError
from spark_tasks.kafka.identity import ProducerIdentity

_GIVE_UP_MS: Final = 2_000.0
_LIKELY_TIMEOUT_MS: Final = 2_000.0


class TransactionOwner:
    """The owner of one transactional id. `init` fences earlier owners; a transaction begins with the first
    `add_partitions` and ends with `commit` or `abort`. Not thread-safe.

    All methods raise ConnectErrors. ProducerFencedError is final: there is another owner.
    """

    def __init__(
        self, cluster: KafkaCluster, transactional_id: str, *,
        transaction_timeout_ms: int = 60_000, timeout_ms: float = DEFAULT_TIMEOUT_MS,
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._timeout_ms = timeout_ms
        self._identity: ProducerIdentity | None = None
        self._added: set[TopicPartition] = set()
        self.sequences: dict[TopicPartition, int] = {}
        """The next sequence number of each partition. Pass them to an Appender, and store the Appender's here after its
        `flush`. They stay valid over many commits, as long as the epoch: until the next `init` or `abort`."""

    @property
    def identity(self) -> ProducerIdentity:
        """The identity for appenders. Raises RuntimeError before `init`."""
        if self._identity is None:
            raise RuntimeError(f"transactional id {self._transactional_id!r} is not initialized")
        return self._identity

    @property
    def open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return bool(self._added)

    def init(self) -> ProducerIdentity:
        """Fences all earlier owners, aborts their open transaction, and takes the next epoch."""
        return self._renew(-1, -1)

    def add_partitions(self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None) -> None:
        """Adds partitions to the transaction. Call it before appending to them. Sends a request only for new ones."""
        new = [item for item in dict.fromkeys(partitions) if item not in self._added]
        if new:
            self._run("adding partitions to", self._add, new, timeout_ms=timeout_ms)
            self._added.update(new)

    def joined(self, partitions: Iterable[TopicPartition]) -> None:
        """Records that an appender has added these partitions to the transaction (see `TransactionMember`)."""
        self._added.update(partitions)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions in the transaction."""
        return frozenset(self._added)

    def commit(self) -> None:
        """Commits the transaction, which makes its records visible. Flush every appender first.

        Raises KafkaUnavailableError if the outcome is unknown. `init` then ends the transaction: the coordinator
        completes a commit that has begun, and otherwise aborts. The committed offsets show which of the two has
        happened.
        """
        if self._added:
            self._run("committing", self._end, True)
            self._added.clear()

    def abort(self, *, unsure: bool = False) -> ProducerIdentity:
        """Aborts the transaction and takes the next epoch, so that batches in flight cannot become part of the next
        transaction (KIP-360). Appenders need the new identity, and `sequences` is reset. `unsure`: an appender may have
        begun a transaction without reporting it.
        """
        if self._added or unsure:
            # The coordinator may no longer have an open transaction.
            with contextlib.suppress(TransactionAbortableError):
                self._run("aborting", self._end, False)
            self._added.clear()
        return self._renew(self.identity.producer_id, self.identity.epoch)

    def adopt(self, identity: ProducerIdentity, added: Iterable[TopicPartition]) -> None:
        """Uses an identity that another owner has initialized (see `TransactionMember`)."""
        self._identity = identity
        self._added.update(added)

    def give_up(self) -> None:
        """Aborts a transaction that may be open, if that is possible within two seconds. The owner cannot be used
        afterwards. An appender that is still running then has a stale epoch, and cannot begin a transaction that nobody
        would end.
        """
        if self._identity is None:
            return
        self._timeout_ms = min(self._timeout_ms, _GIVE_UP_MS)
        with contextlib.suppress(ConnectError):  # another owner has fenced it, or the transaction times out later
            self.abort(unsure=True)

    def _renew(self, producer_id: int, epoch: int) -> ProducerIdentity:
        self._identity = self._cluster.init_producer_id(
            self._transactional_id, self._transaction_timeout_ms, producer_id, epoch, deadline_ms=self._timeout_ms,
        )  # fmt: skip
        self._added.clear()
        self.sequences.clear()
        return self._identity

    def _run(
        self, doing: str, function: Callable[..., Awaitable[None]], *arguments: Any, timeout_ms: float | None = None
    ) -> None:
        doing = f"{doing} the transaction of {self._transactional_id}"
        self._cluster.at_coordinator(
            self._transactional_id, lambda send: function(send, *arguments), doing, "WRITE permission on the topics",
            timeout_ms=self._timeout_ms if timeout_ms is None else timeout_ms)

    # The methods below run on the IO thread.

    async def _add(self, send: Send, partitions: list[TopicPartition]) -> None:
        await _add_partitions(send, self.identity, partitions)

    async def _end(self, send: Send, committed: bool) -> None:
        response = await send(
            EndTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                committed=committed,
                max_version=4,  # from version 5, brokers increase the epoch with every transaction; here the owner does
            ),
        )
        if response.error_code:
            raise protocol.for_code(response.error_code)(self._transactional_id)


class TransactionMember:
    """An appender's access to its owner's transaction: it may only add partitions. Brokers reject a stale epoch.

    `added`: partitions that are already in the transaction. `likely`: partitions to add together with the first new
    one, which saves requests.
    """

    def __init__(
        self, cluster: KafkaCluster, identity: ProducerIdentity, added: Iterable[TopicPartition],
        likely: Iterable[TopicPartition] = (),
    ) -> None:  # fmt: skip
        self._owner = TransactionOwner(cluster, identity.transactional_id or "")
        self._owner.adopt(identity, added)
        self._likely = frozenset(likely)

    @property
    def added(self) -> frozenset[TopicPartition]:
        """The partitions that are in the transaction now."""
        return self._owner.partitions

    def admit(self, partitions: Sequence[TopicPartition]) -> None:
        """Adds partitions to the transaction, see TransactionOwner.add_partitions."""
        if self._owner.partitions.issuperset(partitions):
            return
        others, self._likely = self._likely.difference(partitions), frozenset()
        if others:
            with contextlib.suppress(ConnectError):  # a topic may be deleted that no record goes to
                self._owner.add_partitions([*partitions, *others], _LIKELY_TIMEOUT_MS)
                return
        self._owner.add_partitions(partitions)


async def _add_partitions(
    send: Send, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> None:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    item = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    response = await send(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=identity.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[item(name=topic, partitions=numbers) for topic, numbers in topics.items()],
            max_version=3,  # only brokers send later versions
        ),
    )
    for topic in response.results_by_topic_v3_and_below:
        for result in topic.results_by_partition:
            # OPERATION_NOT_ATTEMPTED only means that another partition of the request failed.
            if result.partition_error_code not in (0, protocol.OperationNotAttemptedError.errno):
                raise protocol.for_code(result.partition_error_code)(f"{topic.name}-{result.partition_index}")
