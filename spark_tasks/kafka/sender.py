"""Sends encoded batches to the partitions' leaders, in order, each acknowledged once. Runs on the IO thread."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import kafka.errors as protocol
import numpy as np
from kafka.protocol.producer import ProduceRequest

from spark_tasks.backoff import doubled
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.connections import Deadline
from spark_tasks.kafka.errors import KafkaUnavailableError, is_retriable, translated
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.kafka.records.errors import RecordTooLargeError

_TOO_LARGE: Final = (protocol.MessageSizeTooLargeError, protocol.RecordListTooLargeError)
_FIRST_WAIT_MS: Final = 10.0
# A broker serves one request of a connection at a time. Each partition always uses the same connection.
_CONNECTIONS: Final = 2
_LARGEST_WAIT_MS: Final = 1000.0


_Connection = tuple[int, int]  # a broker, and the connection to it


@dataclass(slots=True)
class PendingBatch:
    """One record batch on its way. `sequence` is -1 without an identity; `number` orders a partition's batches."""

    where: TopicPartition
    data: bytes | memoryview
    count: int
    sequence: int
    number: tuple[int, ...]
    since: float = field(default_factory=time.monotonic)
    landed: Landed | None = None


@dataclass(frozen=True, slots=True)
class Landed:
    """A callback for the offsets of rows of a batch: `tell` gets the partition, the rows and the first one's offset."""

    rows: np.ndarray[Any, Any]
    tell: Callable[[int, np.ndarray[Any, Any], int], None]


@dataclass(slots=True)
class _Line:
    """One partition's batches: waiting, sent, and to be sent again once none is in flight any more."""

    waiting: deque[PendingBatch] = field(default_factory=deque)
    sent: list[PendingBatch] = field(default_factory=list)
    failed: list[PendingBatch] = field(default_factory=list)
    pausing: bool = False
    known: bool = False
    retried: tuple[int, ...] = ()  # the number of the last batch that was sent again
    wait_ms: float = _FIRST_WAIT_MS

    @property
    def ready(self) -> bool:
        return bool(self.waiting) and not self.failed and not self.pausing

    def may_have_sent(self, most: int) -> int:
        """How many batches may be in flight. Only one until a leader has acknowledged the first batch: before that it
        accepts any sequence number, and so the second batch if the first one fails. Also one while batches are sent
        again: brokers remember five batches of a producer, and must not forget one whose acknowledgement may be lost
        once more.
        """
        first = self.sent[0] if self.sent else self.waiting[0]
        return most if self.known and first.number > self.retried else 1


class Sender:
    """`done` is called with every acknowledged batch, `broken` with the first fatal error, both on the IO thread.
    `split` divides a batch that is too large for the broker in two.
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
        split: Callable[[PendingBatch], list[PendingBatch]],
    ) -> None:
        self._cluster = cluster
        self._transactional_id = None if identity is None else identity.transactional_id
        self._acks = acks
        self._in_flight = in_flight
        # Without sequence numbers a broker cannot refuse a batch that was overtaken by a later one during a retry.
        self._in_flight_per_line = in_flight if identity is not None else 1
        self._max_request_bytes = max_request_bytes
        self._delivery_timeout_ms = delivery_timeout_ms
        self._done = done
        self._broken = broken
        self._split = split
        self._lines: dict[TopicPartition, _Line] = defaultdict(_Line)
        self._requests: dict[_Connection, int] = defaultdict(int)
        self._pumping = False
        self._stopped = False

    def add(self, batches: list[PendingBatch]) -> None:
        """Send these batches after all that were added before. Any thread."""
        self._cluster.io.start(self._add, batches)

    def stop(self) -> None:
        """Stop sending, without waiting for requests in flight."""
        self._stopped = True

    def _add(self, batches: list[PendingBatch]) -> None:
        for batch in batches:
            self._lines[batch.where].waiting.append(batch)
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pumping and not self._stopped:
            self._pumping = True
            self._cluster.io.start(self._pump)

    def _pump(self) -> None:
        """Send whatever may be sent now."""
        self._pumping = False
        while not self._stopped:
            by_connection = self._sendable()
            if not by_connection:
                return
            for connection, wheres in by_connection.items():
                self._send(connection, wheres)

    def _sendable(self) -> dict[_Connection, list[TopicPartition]]:
        """The partitions with something to send, by connection. For unknown leaders a lookup is started."""
        by_connection: dict[_Connection, list[TopicPartition]] = defaultdict(list)
        for where, line in self._lines.items():
            if line.ready and len(line.sent) < line.may_have_sent(self._in_flight_per_line):
                leader = self._cluster.known_leader(*where)
                if leader is None:
                    line.pausing = True
                    self._cluster.io.start(self._find_leader, where, line)
                elif self._requests[connection := (leader, where[1] % _CONNECTIONS)] < self._in_flight:
                    by_connection[connection].append(where)
        return by_connection

    async def _find_leader(self, where: TopicPartition, line: _Line) -> None:
        try:
            await self._cluster.find_leader(*where, Deadline(self._delivery_timeout_ms))
        except (ConnectError, protocol.KafkaError, OSError) as error:
            self._fail(translated(error, f"finding the leader of {where[0]}-{where[1]}"))
        line.pausing = False
        self._resume_if_due(line)
        self._pump_soon()

    def _send(self, connection: _Connection, wheres: list[TopicPartition]) -> None:
        """Send one request with the next batch of each of these partitions, as many as fit."""
        batches: list[PendingBatch] = []
        size = 0
        for where in wheres:
            line = self._lines[where]
            if batches and size + len(line.waiting[0].data) > self._max_request_bytes:
                continue
            batch = line.waiting.popleft()
            line.sent.append(batch)
            batches.append(batch)
            size += len(batch.data)
            self._lines[where] = self._lines.pop(where)  # those left out come first in the next request
        self._requests[connection] += 1
        self._cluster.io.start(self._exchange, connection, batches)

    async def _exchange(self, connection: _Connection, batches: list[PendingBatch]) -> None:
        try:
            await self._send_and_settle(connection, batches)
        except Exception as error:  # noqa: BLE001 - the caller of append waits for a result
            self._fail(translated(error, f"appending to {batches[0].where[0]}-{batches[0].where[1]}"))

    async def _send_and_settle(self, connection: _Connection, batches: list[PendingBatch]) -> None:
        node, number = connection
        try:
            response = await self._cluster.io.send(self._request(batches), node, lane=f"produce-{number}")
            results = _results(response)
        except (protocol.KafkaError, OSError) as error:
            results = dict.fromkeys([batch.where for batch in batches], error)
        finally:
            self._requests[connection] -= 1
        for batch in batches:
            if not self._stopped:
                self._settle(batch, results.get(batch.where, -1))
        self._pump_soon()

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
        line = self._lines[batch.where]
        line.sent.remove(batch)
        if isinstance(result, int | protocol.DuplicateSequenceNumberError):
            line.wait_ms = _FIRST_WAIT_MS
            line.known = True
            if batch.landed is not None and isinstance(result, int):
                batch.landed.tell(batch.where[1], batch.landed.rows, result)
            self._done(batch)
        elif isinstance(result, _TOO_LARGE):
            self._cut(line, batch)
        elif is_retriable(result) or self._behind_a_failed_one(line, batch, result):
            self._again(line, batch, result)
        else:
            self._fail(translated(result, f"appending to {batch.where[0]}-{batch.where[1]}"))
        self._resume_if_due(line)

    def _cut(self, line: _Line, batch: PendingBatch) -> None:
        if batch.count == 1:
            self._fail(RecordTooLargeError(0, len(batch.data), None, batch.where[0]))
        else:
            line.failed += self._split(batch)

    @staticmethod
    def _behind_a_failed_one(line: _Line, batch: PendingBatch, error: Exception) -> bool:
        """Whether the batch is out of order only because an earlier one of the same partition has to be sent again."""
        out_of_order = isinstance(error, (protocol.OutOfOrderSequenceNumberError, protocol.UnknownProducerIdError))
        return out_of_order and any(other.number < batch.number for other in (*line.failed, *line.sent))

    def _again(self, line: _Line, batch: PendingBatch, error: Exception) -> None:
        if (time.monotonic() - batch.since) * 1000 > self._delivery_timeout_ms:
            topic, partition = batch.where
            self._fail(
                KafkaUnavailableError(
                    f"{batch.count} records could not be appended to {topic}-{partition} "
                    f"within {self._delivery_timeout_ms:.0f} ms: {error}",
                ),
            )
            return
        if getattr(error, "invalid_metadata", False):
            self._cluster.forget_leaders(batch.where[0])
        line.failed.append(batch)

    def _resume_if_due(self, line: _Line) -> None:
        if line.failed and not line.sent and not line.pausing and not self._stopped:
            line.pausing = True
            self._cluster.io.start(self._resume, line)

    async def _resume(self, line: _Line) -> None:
        """All responses have arrived: wait a little, then send the failed batches again in order."""
        await self._cluster.io.sleep(line.wait_ms)
        line.wait_ms = doubled(line.wait_ms, 1, _LARGEST_WAIT_MS)
        line.retried = max(batch.number for batch in line.failed)
        line.waiting.extendleft(sorted(line.failed, key=lambda batch: batch.number, reverse=True))
        line.failed.clear()
        line.pausing = False
        self._pump_soon()

    def _fail(self, error: ConnectError) -> None:
        if not self._stopped:
            self._stopped = True
            self._broken(error)


def _results(response: Any) -> dict[TopicPartition, Exception | int]:
    """For each partition its error or the offset of the first record. With acks=0 there is no response."""
    found: dict[TopicPartition, Exception | int] = {}
    for topic in response.responses if response is not None else ():
        for item in topic.partition_responses:
            error = protocol.for_code(item.error_code)
            failed = error is not protocol.NoError
            found[topic.name, item.index] = (
                error(item.error_message or f"{topic.name}-{item.index}") if failed else item.base_offset)
    return found
