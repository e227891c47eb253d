"""Sends encoded batches to the leaders of their partitions, in order. Runs on the IO thread."""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import kafka.errors as protocol
import numpy as np
from kafka.protocol.producer import ProduceRequest

from spark_tasks.backoff import doubled
from spark_tasks.errors import ConnectError, counted
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.connections import Deadline
from spark_tasks.kafka.errors import (
    KafkaUnavailableError,
    OutOfOrderSequenceError,
    SequenceLostError,
    is_retriable,
    translated,
)
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.kafka.pending_batch import PendingBatch, Rows
from spark_tasks.kafka.produce_results import RecordsError, error_of_record, results_of
from spark_tasks.kafka.producer_state import has_appended
from spark_tasks.kafka.records.encode import earlier_sequence, next_sequence, sequence_of, with_sequence
from spark_tasks.process.rate_limited_log import RateLimitedLog

_logger = logging.getLogger(__name__)

_FIRST_WAIT_MS: Final = 10.0
# Connections to each broker, which handles one request per connection at a time. A partition always uses the same one.
_CONNECTIONS: Final = 2
_LARGEST_WAIT_MS: Final = 1000.0
_LEADER_TIMEOUT_MS: Final = 5_000.0  # of one attempt: an appender may be closed meanwhile
_WRITE: Final = "WRITE permission on the topic"
_waiting: Final = RateLimitedLog(max_lines=1)
LONG_S: Final = 5.0  # after which it is said that records are sent again


_Connection = tuple[int, int]  # broker, number of the connection to it
_Step = Callable[..., Awaitable[None] | None]


@dataclass(slots=True)
class _PartitionQueue:
    """One partition's batches: waiting to be sent, in flight (`sent`), and `failed`, which are sent again as soon as no
    other is in flight. `pausing`: nothing may be sent during a backoff or a leader lookup. `known`: the leader has
    acknowledged a batch, so it knows the producer. `left_out`: the number of refused records, by which the sequence
    numbers of all later ones are lower than their sender thinks.
    """

    waiting: deque[PendingBatch] = field(default_factory=deque)
    sent: list[PendingBatch] = field(default_factory=list)
    failed: list[PendingBatch] = field(default_factory=list)
    pausing: bool = False
    known: bool = False
    retried: tuple[int, ...] = ()  # the largest number of a batch that was sent again
    wait_ms: float = _FIRST_WAIT_MS
    left_out: int = 0

    @property
    def ready(self) -> bool:
        return bool(self.waiting) and not self.failed and not self.pausing

    def in_flight_limit(self, max_in_flight: int) -> int:
        """Returns how many batches may be in flight, at most `max_in_flight`.

        Only one until the leader has acknowledged the first batch: until then it accepts any sequence number, and would
        accept the second batch if the first one failed. Also only one while batches are sent again: a broker remembers
        the last five batches of a producer. With more in flight it could forget one whose acknowledgment was lost, and
        append it twice.
        """
        first = self.sent[0] if self.sent else self.waiting[0]
        return max_in_flight if self.known and first.number > self.retried else 1


class Sender:
    """Sends batches and retries them. The callbacks are called on the IO thread: `done` with each acknowledged batch,
    `broken` with the first fatal error, and `split` to re-encode groups of a batch's records, each as a batch, with
    consecutive sequence numbers: the halves of one that the broker rejects as too large, or what is left of one without
    the records that it refuses, which may be nothing. Its last argument: whether later batches should be smaller.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        identity: ProducerIdentity | None,
        *,
        acks: int,
        in_flight: int,
        max_request_bytes: int,
        delivery_timeout_ms: float,
        done: Callable[[PendingBatch], None],
        broken: Callable[[ConnectError], None],
        split: Callable[[PendingBatch, Sequence[Rows], bool], list[PendingBatch]],
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._transactional_id = None if identity is None else identity.transactional_id
        self._acks = acks
        self._in_flight = in_flight
        # Without sequence numbers, a broker would accept batches in the wrong order after a retry.
        self._in_flight_per_partition = in_flight if identity is not None else 1
        self._max_request_bytes = max_request_bytes
        self._delivery_timeout_ms = delivery_timeout_ms
        self._done = done
        self._broken = broken
        self._split = split
        self._queues: dict[TopicPartition, _PartitionQueue] = defaultdict(_PartitionQueue)
        self._requests: dict[_Connection, int] = defaultdict(int)
        self._pumping = False
        self._stopped = False

    def add(self, batches: list[PendingBatch]) -> None:
        """Sends these batches after all that were added before. Any thread."""
        self._start(batches[0].where if batches else None, self._add, batches)

    def left_out(self, where: TopicPartition) -> int:
        """Returns how many records of a partition brokers have refused; final when all batches are done."""
        return self._queues[where].left_out if where in self._queues else 0

    def stop(self) -> None:
        """Stops sending without waiting for requests in flight."""
        self._stopped = True

    def _start(self, where: TopicPartition | None, step: _Step, *arguments: Any) -> None:
        """Runs a step on the IO thread without waiting for it. `where`: the partition to name if it fails."""
        self._cluster.io.start(self._run, where, step, *arguments)

    async def _run(self, where: TopicPartition | None, step: _Step, *arguments: Any) -> None:
        try:
            if (result := step(*arguments)) is not None:
                await result
        except Exception as error:  # noqa: BLE001 - the caller of flush waits for a result
            doing = "appending" if where is None else f"appending to {where[0]}-{where[1]}"
            self._fail(translated(error, doing, needs=_WRITE))

    def _add(self, batches: list[PendingBatch]) -> None:
        for batch in batches:
            queue = self._queues[batch.where]
            batch.sequence = earlier_sequence(batch.sequence, queue.left_out)
            queue.waiting.append(batch)
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pumping and not self._stopped:
            self._pumping = True
            self._start(None, self._pump)

    def _pump(self) -> None:
        """Sends all batches that may be sent now."""
        self._pumping = False
        while not self._stopped:
            by_connection = self._sendable()
            if not by_connection:
                return
            for connection, partitions in by_connection.items():
                self._send(connection, partitions)

    def _sendable(self) -> dict[_Connection, list[TopicPartition]]:
        """Returns the partitions with a batch to send, by connection. Starts a lookup for each unknown leader."""
        by_connection: dict[_Connection, list[TopicPartition]] = defaultdict(list)
        for partition, queue in self._queues.items():
            if queue.ready and len(queue.sent) < queue.in_flight_limit(self._in_flight_per_partition):
                leader = self._cluster.known_leader(*partition)
                if leader is None:
                    queue.pausing = True
                    self._start(partition, self._find_leader, partition, queue)
                elif self._requests[connection := (leader, partition[1] % _CONNECTIONS)] < self._in_flight:
                    by_connection[connection].append(partition)
        return by_connection

    async def _find_leader(self, partition: TopicPartition, queue: _PartitionQueue) -> None:
        end = time.monotonic() + self._delivery_timeout_ms / 1000
        while not self._stopped:
            left_ms = (end - time.monotonic()) * 1000
            try:
                await self._cluster.find_leader(*partition, Deadline(min(left_ms, _LEADER_TIMEOUT_MS)))
            except (ConnectError, protocol.KafkaError, OSError) as error:
                if is_retriable(error) and left_ms > _LEADER_TIMEOUT_MS:
                    _waiting.log(_logger, logging.WARNING, "Records wait for a leader of partition %s-%d: %s",
                                 *partition, error)
                    continue
                self._fail(translated(error, f"finding the leader of {partition[0]}-{partition[1]}", needs=_WRITE))
            break
        queue.pausing = False
        self._resume_if_due(queue)
        self._pump_soon()

    def _send(self, connection: _Connection, partitions: list[TopicPartition]) -> None:
        """Sends one request with the next batch of each of these partitions, as many as fit."""
        batches: list[PendingBatch] = []
        size = 0
        for partition in partitions:
            queue = self._queues[partition]
            if batches and size + len(queue.waiting[0].data) > self._max_request_bytes:
                continue
            batch = queue.waiting.popleft()
            if batch.sequence != sequence_of(batch.data):  # a record before it was left out
                batch.data = with_sequence(batch.data, batch.sequence)
            queue.sent.append(batch)
            batches.append(batch)
            size += len(batch.data)
            # To the end, so that the next request starts with the others.
            self._queues[partition] = self._queues.pop(partition)
        self._requests[connection] += 1
        self._start(batches[0].where, self._exchange, connection, batches)

    async def _exchange(self, connection: _Connection, batches: list[PendingBatch]) -> None:
        node, number = connection
        absent: Exception | int = -1  # without acks there is no response
        try:
            response = await self._cluster.io.send(self._request(batches), node, lane=f"produce-{number}")
            results = results_of(response)
            if response is not None:
                absent = protocol.RequestTimedOutError("the response has no result for the partition")
        except (protocol.KafkaError, OSError) as error:
            results, absent = {}, error
        finally:
            self._requests[connection] -= 1
        for batch in batches:
            result = await self._checked(batch, node, results.get(batch.where, absent))
            if not self._stopped:
                self._settle(batch, result)
        self._pump_soon()

    async def _checked(self, batch: PendingBatch, node: int, result: Exception | int) -> Exception | int:
        """Returns the result of a batch; that of a duplicate if the leader has forgotten that it appended it before, or
        does not look because it refuses the records now: the topic's settings may have changed meanwhile.
        """
        sent_before = batch.number <= self._queues[batch.where].retried
        doubtful = isinstance(result, protocol.OutOfOrderSequenceNumberError) or (
            isinstance(result, RecordsError) and (batch.count == 1 or bool(result.bad)))
        if self._identity is None or not sent_before or not doubtful:
            return result
        last = next_sequence(batch.sequence, batch.count - 1)
        try:
            if await has_appended(self._cluster, node, batch.where, self._identity, last):
                result = protocol.DuplicateSequenceNumberError(str(result))
        except (protocol.KafkaError, OSError) as error:
            if is_retriable(error):  # not so an old broker, which cannot tell, and one whose ACLs forbid it
                result = error
        return result

    def _request(self, batches: list[PendingBatch]) -> Any:
        topics: dict[str, list[Any]] = defaultdict(list)
        data = ProduceRequest.TopicProduceData
        for batch in batches:
            topic, partition = batch.where
            topics[topic].append(data.PartitionProduceData(index=partition, records=batch.data))
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._cluster.io.request_timeout_ms,
            topic_data=[data(name=topic, partition_data=parts) for topic, parts in topics.items()],
            min_version=3,
            max_version=9,
        )

    def _settle(self, batch: PendingBatch, result: Exception | int) -> None:
        queue = self._queues[batch.where]
        queue.sent.remove(batch)
        if isinstance(result, int | protocol.DuplicateSequenceNumberError):
            queue.wait_ms = _FIRST_WAIT_MS
            queue.known = True
            listener = batch.listener
            if listener is not None and listener.appended is not None and isinstance(result, int):
                listener.appended(batch.where[1], listener.rows, result)
            self._done(batch)
        elif isinstance(result, RecordsError):
            self._refused(queue, batch, result)
        elif self._follows_a_failed_batch(queue, batch, result):
            queue.failed.append(batch)
        elif is_retriable(result):
            self._retry(queue, batch, result)
        else:
            self._fail(translated(result, f"appending to {batch.where[0]}-{batch.where[1]}", needs=_WRITE))
        self._resume_if_due(queue)

    def _refused(self, queue: _PartitionQueue, batch: PendingBatch, refusal: RecordsError) -> None:
        """Sends the batch again in two halves, or without the records that are known to be refused."""
        bad = refusal.bad or ({0: str(refusal)} if batch.count == 1 else {})
        on_refusal = None if batch.listener is None else batch.listener.refused
        if not bad and (on_refusal is not None or refusal.too_large):
            queue.failed += self._split(batch, np.array_split(np.arange(batch.count), 2), refusal.too_large)
        elif batch.listener is None or on_refusal is None:
            self._fail(error_of_record(batch, refusal, 0, next(iter(bad.values()), str(refusal))))
        else:
            for row, why in bad.items():
                number = int(batch.listener.rows[row])
                on_refusal(number, error_of_record(batch, refusal, number, why))
            self._leave_out(queue, batch, list(bad))
        queue.wait_ms = 0.0  # the broker has answered

    def _leave_out(self, queue: _PartitionQueue, batch: PendingBatch, rows: Sequence[int]) -> None:
        """Sends the batch again without these records, and all later ones of its partition with the sequence numbers
        that are next then. Those in flight come back as out of order.
        """
        queue.left_out += len(rows)
        for later in (*queue.waiting, *queue.failed, *queue.sent):
            if later.number > batch.number:
                later.sequence = earlier_sequence(later.sequence, len(rows))
        queue.failed += self._split(batch, [np.delete(np.arange(batch.count), rows)], False)

    @staticmethod
    def _follows_a_failed_batch(queue: _PartitionQueue, batch: PendingBatch, error: Exception) -> bool:
        """Returns whether a batch is out of order only because an earlier one of its partition has to be sent again."""
        out_of_order = isinstance(error, (protocol.OutOfOrderSequenceNumberError, protocol.UnknownProducerIdError))
        return out_of_order and any(other.number < batch.number for other in (*queue.failed, *queue.sent))

    def _retry(self, queue: _PartitionQueue, batch: PendingBatch, error: Exception) -> None:
        if (time.monotonic() - batch.since) * 1000 > self._delivery_timeout_ms:
            topic, partition = batch.where
            self._fail(
                KafkaUnavailableError(
                    f"{counted(batch.count, 'record')} could not be appended to {topic}-{partition} "
                    f"within {self._delivery_timeout_ms:.0f} ms: {error}",
                ),
            )
            return
        if time.monotonic() - batch.since > LONG_S:
            _waiting.log(_logger, logging.WARNING, "Records for partition %s-%d are sent again and again: %s",
                         *batch.where, error)
        if _may_have_moved(error):
            self._cluster.forget_leaders(batch.where[0])
        queue.wait_ms = max(queue.wait_ms, _FIRST_WAIT_MS)
        queue.failed.append(batch)

    def _resume_if_due(self, queue: _PartitionQueue) -> None:
        if queue.failed and not queue.sent and not queue.pausing and not self._stopped:
            queue.pausing = True
            self._start(queue.failed[0].where, self._resume, queue)

    async def _resume(self, queue: _PartitionQueue) -> None:
        """Sends the failed batches again, in order, after a backoff. All responses have arrived."""
        await self._cluster.io.sleep(queue.wait_ms)
        queue.wait_ms = doubled(queue.wait_ms, 1, _LARGEST_WAIT_MS)
        queue.retried = max(queue.retried, *(batch.number for batch in queue.failed))
        again = (batch for batch in queue.failed if batch.count)
        queue.waiting.extendleft(sorted(again, key=lambda batch: batch.number, reverse=True))
        queue.failed.clear()
        queue.pausing = False
        self._pump_soon()

    def _fail(self, error: ConnectError) -> None:
        if isinstance(error, OutOfOrderSequenceError) and self._transactional_id is None:
            error = SequenceLostError(str(error), error.code)
        if not self._stopped:
            self._stopped = True
            self._broken(error)


def _may_have_moved(error: Exception) -> bool:
    """Returns whether a partition may have another leader: its broker says so, or has not responded. A broker that
    hangs or has left the cluster cannot say that it no longer leads.
    """
    if isinstance(error, protocol.RequestTimedOutError) or not isinstance(error, protocol.BrokerResponseError):
        return True
    return bool(error.invalid_metadata)
