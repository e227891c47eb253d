"""A client for partitions, leaders, offsets and producer ids of a Kafka cluster. Thread-safe."""

from __future__ import annotations

import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import kafka.errors as protocol
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest, OffsetSpec
from kafka.protocol.metadata import CoordinatorType, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from spark_tasks.kafka.connections import Connections, Deadline, Send
from spark_tasks.kafka.errors import UnknownTopicError, error_of_read, is_retriable, translating
from spark_tasks.kafka.identity import ProducerIdentity

T = TypeVar("T")
TopicPartition = tuple[str, int]
Isolation = Literal["read_uncommitted", "read_committed"]

DEFAULT_TIMEOUT_MS: Final = 60_000
_MAX_AGE_MS: Final = 300_000  # Kafka's default of metadata.max.age.ms
_MIN_AGE_MS: Final = 1_000  # of leaders, even if the setting is 0: senders have to find the leaders of several topics
_UNKNOWN_TOPIC_MS: Final = 3_000  # time for all brokers to learn of a new topic
_REBOOTSTRAP_AFTER: Final = 6  # attempts without a response, about a second of backoff
_BROKER_WAIT_MS: Final = 2_000  # at least, for offsets "by now"; a busy broker responds sooner
_NO_ANSWER: Final = (protocol.KafkaConnectionError, protocol.NodeNotReadyError, protocol.KafkaTimeoutError, OSError)
# The coordinator writes the markers of a transaction within milliseconds. A producer that begins the next transaction
# in that time gets CONCURRENT_TRANSACTIONS; a long backoff would then take most of the time of a small transaction.
_FIRST_COORDINATOR_WAIT_MS: Final = 1.0
_LARGEST_COORDINATOR_WAIT_MS: Final = 100.0
_DESCRIBE: Final = "DESCRIBE permission on the topic"
_PRODUCE: Final = "IDEMPOTENT_WRITE permission on the cluster, or WRITE permission on any topic"

LEVELS: Final = {
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
    "read_committed": IsolationLevel.READ_COMMITTED,
}


class KafkaCluster:
    """Connections to a cluster, and metadata of its topics. `settings`: the result of `client_config.client_settings`.

    All methods for other threads retry retriable errors with backoff until `timeout_ms`, and raise ConnectErrors. The
    connections are closed when the object is garbage-collected.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.io = Connections(settings)
        weakref.finalize(self, _close_soon, self.io).atexit = False
        self._leaders: dict[str, dict[int, int]] = {}
        self._max_age_s = max(float(settings.get("metadata_max_age_ms", _MAX_AGE_MS)), _MIN_AGE_MS) / 1000
        self._expire_at: dict[str, float] = {}  # when leaders are looked up again (time.monotonic)

    def partitions(
        self, topic: str, *, create: bool = False, expected: int = -1, timeout_ms: float = DEFAULT_TIMEOUT_MS,
    ) -> tuple[int, ...]:  # fmt: skip
        """Returns the topic's partitions in ascending order, as they were at most metadata.max.age.ms ago. `create`:
        lets the broker create the topic if automatic creation is enabled there. `expected`: a partition that may have
        been added since: if it is not known, the brokers are asked. Raises UnknownTopicError.
        """
        doing, deadline = f"finding the partitions of {topic}", Deadline(timeout_ms)
        leaders = self._run(doing, _DESCRIBE, self.leaders, topic, deadline, create, expected)
        return tuple(sorted(leaders))

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        which: Literal["earliest", "latest"] | int = "latest",
        isolation: Isolation = "read_uncommitted",
        *,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
    ) -> dict[TopicPartition, int]:
        """Returns an offset of each partition. Sends one request to each broker. Raises UnknownTopicError.

        `which`: "earliest" is the first offset in the log; "latest" the offset of the next record, or, with
        read_committed, the first offset of the earliest open transaction; a number (ms since 1970) the offset of the
        first record with that timestamp or a later one, -1 if there is none.
        """
        wanted = list(dict.fromkeys(partitions))
        deadline = Deadline(timeout_ms)
        doing = f"listing {which} offsets"
        return self._run(doing, _DESCRIBE, self.find_offsets, wanted, which, isolation, deadline)

    def offsets_by_now(
        self, partitions: Iterable[TopicPartition], which: Literal["earliest", "latest"] | int, isolation: Isolation,
        *, timeout_ms: float,
    ) -> dict[TopicPartition, int]:
        """As `offsets`, without the partitions whose offsets cannot be found at present: one without a leader or of a
        deleted topic must not delay the others. `timeout_ms`: for finding a broker that responds at all.
        """
        doing = f"listing {which} offsets"
        return self._run(
            doing, _DESCRIBE, self.find_offsets_by_now, list(dict.fromkeys(partitions)), which, isolation,
            Deadline(timeout_ms))

    def init_producer_id(
        self,
        transactional_id: str | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        producer_id: int = -1,
        epoch: int = -1,
        *,
        deadline_ms: float = DEFAULT_TIMEOUT_MS,
    ) -> ProducerIdentity:
        """Returns a producer id and epoch. With a transactional id, fences earlier producers and aborts their open
        transaction; `timeout_ms` is then the transaction timeout. With the current producer id and epoch, returns the
        next epoch (KIP-360).
        """
        deadline = Deadline(deadline_ms, first_ms=2, largest_ms=500)
        doing = f"initializing producer {transactional_id or ''}".strip()
        return self._run(doing, _PRODUCE, self.new_identity, transactional_id, timeout_ms, producer_id, epoch, deadline)

    def close(self) -> None:
        """Closes all connections. The object cannot be used afterwards."""
        self.io.close()

    def at_coordinator(
        self, key: str, attempt: Callable[[Send], Awaitable[T]], doing: str, needs: str, *,
        timeout_ms: float = DEFAULT_TIMEOUT_MS, kind: CoordinatorType = CoordinatorType.TRANSACTION,
    ) -> T:  # fmt: skip
        """Runs `attempt` on the IO thread, repeatedly while its error is retriable. Its argument sends a request to the
        coordinator of the transactional id or group `key`. `doing`, `needs`: see `translated`.
        """

        async def send(request: Any) -> Any:
            return await self.io.send(request, await self.io.coordinator(key, kind))

        async def attempts() -> T:
            return await self.retrying_at_coordinator(key, lambda: attempt(send), deadline, kind)

        deadline = Deadline(timeout_ms, first_ms=_FIRST_COORDINATOR_WAIT_MS, largest_ms=_LARGEST_COORDINATOR_WAIT_MS)
        return self._run(doing, needs, attempts)

    def _run(self, doing: str, needs: str, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        with translating(doing, needs):
            return self.io.run(function, *arguments)

    # The methods below run on the IO thread.

    async def retrying(self, attempt: Callable[[], Awaitable[T]], deadline: Deadline, topics: Iterable[str] = ()) -> T:
        """Repeats `attempt` while its error is retriable and time is left. Before each retry, drops the known leaders
        of `topics`.
        """
        failures = 0
        while True:
            try:
                await self.io.bootstrap(deadline.left_ms)
                return await attempt()
            except (protocol.KafkaError, OSError) as error:
                if not is_retriable(error):
                    raise
                wait = deadline.next_wait()
                if wait is None:
                    raise
                for topic in topics:
                    self._leaders.pop(topic, None)
                failures += 1
                if failures % _REBOOTSTRAP_AFTER == 0 and isinstance(error, _NO_ANSWER):
                    self.io.forget_brokers()
                await self.io.sleep(wait)

    async def retrying_at_coordinator(
        self, key: str, attempt: Callable[[], Awaitable[T]], deadline: Deadline,
        kind: CoordinatorType = CoordinatorType.TRANSACTION,
    ) -> T:
        """As `retrying`, for requests to the coordinator of a transactional id or a group. After an error the
        coordinator is looked up again: it may have moved.
        """

        async def attempt_anew() -> T:
            try:
                return await attempt()
            except protocol.ConcurrentTransactionsError:  # it is still ending the previous transaction
                raise
            except (protocol.KafkaError, OSError):
                self.io.forget_coordinator(key, kind)
                raise

        return await self.retrying(attempt_anew, deadline)

    async def leaders(
        self, topic: str, deadline: Deadline, create: bool = False, expected: int = -1
    ) -> dict[int, int]:
        """Returns the leader of each partition (-1: it has none at present). Raises UnknownTopicError."""
        known = self._leaders.get(topic)
        if known is not None and expected < len(known) and time.monotonic() < self._expire_at[topic]:
            return known
        if not create:
            deadline = Deadline(min(_UNKNOWN_TOPIC_MS, deadline.left_ms))
        try:
            return await self.retrying(lambda: self._fetch_leaders(topic, create), deadline)
        except protocol.UnknownTopicOrPartitionError as error:
            raise UnknownTopicError(f"topic {topic!r} does not exist, or this principal may not see it") from error

    async def find_leader(self, topic: str, partition: int, deadline: Deadline) -> int:
        """Returns the partition's leader. Waits until one is elected. Raises UnknownTopicError."""
        unknown = Deadline(min(_UNKNOWN_TOPIC_MS, deadline.left_ms))

        async def attempt() -> int:
            leaders = await self.leaders(topic, deadline)
            if partition not in leaders:
                if unknown.left_ms < 0:
                    raise UnknownTopicError(f"topic {topic!r} has no partition {partition}")
                raise protocol.UnknownTopicOrPartitionError(f"{topic}-{partition}")
            if leaders[partition] < 0:
                raise protocol.LeaderNotAvailableError(f"{topic}-{partition}")
            return leaders[partition]

        return await self.retrying(attempt, deadline, [topic])

    def known_leader(self, topic: str, partition: int) -> int | None:
        """Returns the partition's leader if it is cached, else None."""
        leader = self._leaders.get(topic, {}).get(partition, -1)
        return None if leader < 0 else leader

    def forget_leaders(self, topic: str) -> None:
        """Drops the cached leaders of a topic, because a broker has returned that it does not lead a partition."""
        self._leaders.pop(topic, None)

    async def look_up_leaders(self, topics: Iterable[str], deadline: Deadline) -> None:
        """Asks for the leaders of these topics, with one request, for `known_leader`. The errors of topics, which may
        not exist, are ignored.
        """

        async def attempt() -> None:
            for found in await self._describe(topics, create=False):
                self._leaders.pop(found.name, None)
                if not found.error_code:
                    self._keep(found)

        await self.retrying(attempt, deadline)

    async def _fetch_leaders(self, topic: str, create: bool) -> dict[int, int]:
        (found,) = await self._describe([topic], create=create)
        error = protocol.for_code(found.error_code)
        if error is not protocol.NoError:
            raise error(topic)
        return self._keep(found)

    def _keep(self, topic: Any) -> dict[int, int]:
        """Keeps the leader of each partition in the metadata of a topic, and drops those of topics that are no longer
        used: a source may write to another topic every hour.
        """
        now = time.monotonic()
        for old in [name for name, at in self._expire_at.items() if at <= now]:
            del self._expire_at[old]
            self._leaders.pop(old, None)
        leaders = self._leaders[topic.name] = {item.partition_index: item.leader_id for item in topic.partitions}
        self._expire_at[topic.name] = now + self._max_age_s
        return leaders

    async def _describe(self, topics: Iterable[str], *, create: bool) -> Sequence[Any]:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
            allow_auto_topic_creation=create,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = await self.io.send(request, None)
        self.io.update_metadata(response)
        described: Sequence[Any] = response.topics
        return described

    async def find_offsets(
        self, wanted: list[TopicPartition], which: str | int, isolation: Isolation, deadline: Deadline,
    ) -> dict[TopicPartition, int]:  # fmt: skip
        """The coroutine behind `offsets`."""
        offsets: dict[TopicPartition, int] = {}

        async def attempt() -> dict[TopicPartition, int]:
            by_node: dict[int, list[TopicPartition]] = defaultdict(list)
            for topic, partition in wanted:
                if (topic, partition) not in offsets:
                    by_node[await self.find_leader(topic, partition, deadline)].append((topic, partition))
            failure = None
            for node, items in by_node.items():
                failure = await self.list_offsets(node, items, which, isolation, offsets) or failure
            if failure is not None:
                raise failure
            return offsets

        return await self.retrying(attempt, deadline, {topic for topic, _ in wanted})

    async def find_offsets_by_now(
        self, wanted: list[TopicPartition], which: str | int, isolation: Isolation, deadline: Deadline,
    ) -> dict[TopicPartition, int]:  # fmt: skip
        """The coroutine behind `offsets_by_now`."""
        lost = {topic for topic, partition in wanted if self.known_leader(topic, partition) is None}
        if lost:
            await self.look_up_leaders(sorted(lost), deadline)
        by_node: dict[int, list[TopicPartition]] = defaultdict(list)
        for topic, partition in wanted:
            if (node := self.known_leader(topic, partition)) is not None:
                by_node[node].append((topic, partition))
        found: dict[TopicPartition, int] = {}
        for left, (node, items) in zip(range(len(by_node), 0, -1), by_node.items(), strict=True):
            wait_ms = max(_BROKER_WAIT_MS, deadline.left_ms / left)  # one that hangs must not delay the others
            failure: Exception | None
            try:
                failure = await self.list_offsets(node, items, which, isolation, found, wait_ms=wait_ms)
            except (protocol.KafkaError, OSError) as error:
                failure = error
            if failure is not None and not is_retriable(failure):
                raise failure
        for topic in {topic for topic, partition in wanted if (topic, partition) not in found}:
            self.forget_leaders(topic)
        return found

    async def list_offsets(
        self,
        node: int,
        items: list[TopicPartition],
        which: str | int,
        isolation: Isolation,
        found: dict[TopicPartition, int],
        *,
        wait_ms: float | None = None,
    ) -> Exception | None:
        """Adds the offsets that one broker knows to `found`. Returns the error of a partition without one. `wait_ms`:
        for the response; by default, the timeout of a request. Raises KafkaError, OSError.
        """
        named = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}
        spec = named[which] if isinstance(which, str) else which
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in items:
            topics[topic].append(partition)
        topic_type = ListOffsetsRequest.ListOffsetsTopic
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=LEVELS[isolation],
            topics=[
                topic_type(
                    name=topic,
                    partitions=[
                        topic_type.ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=spec)
                        for index in indexes
                    ],
                )
                for topic, indexes in topics.items()
            ],
            min_version=2,
            max_version=7,
        )
        response = await (
            self.io.send(request, node) if wait_ms is None else self.io.send(request, node, wait_ms=wait_ms))
        failure = None
        for topic in response.topics:
            for item in topic.partitions:
                error = error_of_read(item.error_code)
                if error is protocol.NoError:
                    found[topic.name, item.partition_index] = item.offset
                else:
                    failure = error(f"{topic.name}-{item.partition_index}")
        return failure

    async def new_identity(
        self, transactional_id: str | None, timeout_ms: int, producer_id: int, epoch: int, deadline: Deadline
    ) -> ProducerIdentity:
        """The coroutine behind `init_producer_id`."""

        async def attempt() -> ProducerIdentity:
            node = None if transactional_id is None else await self.io.coordinator(transactional_id)
            if deadline.left_ms <= 0:  # whoever asked may have given up, and another producer may be in use
                raise protocol.KafkaTimeoutError("the coordinator was found too late")
            request = InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
                min_version=3 if producer_id >= 0 else 0,
                max_version=4,
            )
            response = await self.io.send(request, node)
            error = protocol.for_code(response.error_code)
            if error is protocol.InvalidTransactionTimeoutError:
                raise error(f"transaction.timeout.ms {timeout_ms} is more than the brokers' transaction.max.timeout.ms")
            if error is not protocol.NoError:
                raise error(transactional_id)
            return ProducerIdentity(response.producer_id, response.producer_epoch, transactional_id)

        if transactional_id is None:
            return await self.retrying(attempt, deadline)
        return await self.retrying_at_coordinator(transactional_id, attempt, deadline)


def _close_soon(io: Connections) -> None:
    """Closes connections in another thread, because the IO thread may have dropped the last reference."""
    if io.alive:
        threading.Thread(target=io.close, name="close-kafka", daemon=True).start()
