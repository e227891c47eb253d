"""Reads a range of offsets of a partition. While the records of a response are decoded, the next fetch is in flight."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import kafka.errors as protocol
import numpy as np
import pyarrow as pa
from kafka.protocol.consumer import FetchRequest

from spark_tasks.config.record_limit import DEFAULT_MAX_RECORD_BYTES
from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.cluster import LEVELS, Isolation, KafkaCluster
from spark_tasks.kafka.connections import Deadline
from spark_tasks.kafka.errors import (
    KafkaUnavailableError,
    OffsetOutOfRangeError,
    error_of_read,
    is_retriable,
    translated,
)
from spark_tasks.kafka.records.decode import decode_pieces
from spark_tasks.kafka.records.errors import CorruptRecordsError, OversizedRecordError, UnsupportedFormatError
from spark_tasks.kafka.records.scan import first_batch_bytes, has_transactions, next_offset
from spark_tasks.metrics.phases import each, phase

DEFAULT_FETCH_BYTES: Final = 16 * 1024 * 1024
_MIN_FETCH_BYTES: Final = 64 * 1024
_MAX_FETCH_BYTES: Final = 512 * 1024 * 1024
_FIRST_RECORD_BYTES: Final = 1024  # the estimate before the first response
_MAX_WAIT_MS: Final = 500
_MAX_AHEAD: Final = 2  # responses that wait to be decoded while another is fetched
_NOTHING: Final = pa.RecordBatch.from_pylist([], schema=RAW_SCHEMA)


@dataclass(frozen=True, slots=True)
class _Piece:
    """The record batches of one response, and its aborted transactions as (producer id, first offset)."""

    data: bytes
    aborted: tuple[tuple[int, int], ...]


def read_range(
    cluster: KafkaCluster,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    isolation: Isolation = "read_uncommitted",
    fetch_bytes: int = DEFAULT_FETCH_BYTES,
    check_crc: bool = True,
    timeout_ms: float = 60_000,
    first_timeout_ms: float | None = None,
    idle_s: float | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    held: bytes = b"",
) -> Iterator[pa.RecordBatch]:
    """Yields the records with start <= offset < end, in order, as non-empty batches of RAW_SCHEMA. Decompresses lazily:
    at most records.unpack.WINDOW_BYTES, or one record, at a time.

    Waits for records that do not exist yet, and for those of open transactions. Ends when it has passed `end`, even if
    the last offsets are transaction markers or have been compacted. `held`: record batches from `start` that another
    fetch (read_uncommitted) has already received. `idle_s`: yields an empty batch, too, whenever there has been no
    response for so long, so that the caller can do something else meanwhile.

    Raises OffsetOutOfRangeError if `start` has been deleted, KafkaUnavailableError after `timeout_ms` without progress
    (`first_timeout_ms` before the first records), UnknownTopicError, CorruptRecordsError, and OversizedRecordError for
    a record of more than `max_record_bytes`.
    """
    if start >= end:
        return
    fetcher = _Fetcher(cluster, topic, partition, start, end, isolation, fetch_bytes, timeout_ms)
    fetcher.start(held, Deadline(timeout_ms if first_timeout_ms is None else first_timeout_ms))
    position = start
    try:
        while position < end:
            with phase("fetch"):
                piece = fetcher.next(idle_s)
            if piece is None:
                yield _NOTHING
                continue
            for decoded in each("decode", decode_pieces(
                piece.data, start=position, end=end, aborted=piece.aborted, check_crc=check_crc,
                max_record_bytes=max_record_bytes,
            )):  # fmt: skip
                position = decoded.next_offset
                if decoded.records.num_rows:
                    yield decoded.records
    except CorruptRecordsError as error:
        raise error.at(topic, partition, position) from error.__cause__
    except UnsupportedFormatError as error:
        raise UnsupportedFormatError(f"{topic}-{partition} at offset {position}: {error}") from None
    except OversizedRecordError as error:
        raise error.at(topic, partition) from error.__cause__
    finally:
        fetcher.stop()


class _Fetcher:
    """Fetches on the IO thread, a bounded number of responses ahead of the reader."""

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        partition: int,
        start: int,
        end: int,
        isolation: Isolation,
        fetch_bytes: int,
        timeout_ms: float,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._position = start
        self._end = end
        self._isolation = isolation
        self._fetch_bytes = fetch_bytes
        self._timeout_ms = timeout_ms
        self._record_bytes = float(_FIRST_RECORD_BYTES)
        self._deadline = Deadline(timeout_ms)
        self._pieces: queue.SimpleQueue[_Piece | BaseException] = queue.SimpleQueue()
        self._ahead = 0
        self._running = False
        self._stopped = False

    def start(self, held: bytes, first: Deadline) -> None:
        """Starts to fetch, after the `held` record batches. `first`: the deadline of the first response."""
        self._use_held(held)
        self._deadline = first
        if self._pending:
            self._cluster.io.start(self._start)

    def next(self, timeout_s: float | None) -> _Piece | None:
        """Waits for the next response. Returns None if there is none in time. Raises a ConnectError if fetching has
        failed.
        """
        try:
            item = self._pieces.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(item, BaseException):
            doing = f"fetching {self._topic}-{self._partition} at {self._position}"
            raise translated(item, doing, needs="READ permission on the topic") from item
        if self._pending:
            self._cluster.io.start(self._continue)
        return item

    def stop(self) -> None:
        """Stops fetching."""
        self._stopped = True

    def _use_held(self, held: bytes) -> None:
        """Queues the held record batches, unless they are damaged, or their aborted transactions are needed."""
        if not held:
            return
        data = np.frombuffer(held, np.uint8)
        with suppress(CorruptRecordsError, UnsupportedFormatError):
            following = next_offset(data)
            if following is None or following <= self._position:
                return
            if self._isolation == "read_committed" and has_transactions(data):
                return
            self._position = following
            self._ahead = 1
            self._pieces.put(_Piece(held, ()))

    @property
    def _pending(self) -> bool:
        return self._position < self._end

    # The methods below run on the IO thread.

    def _continue(self) -> None:
        self._ahead -= 1
        self._start()

    def _start(self) -> None:
        if not self._running:
            self._running = True
            self._cluster.io.start(self._fetch)

    async def _fetch(self) -> None:
        try:
            while self._pending and self._ahead < _MAX_AHEAD and not self._stopped:
                piece = await self._piece()
                if piece is not None:
                    self._ahead += 1
                    self._pieces.put(piece)
        except Exception as error:  # noqa: BLE001 - `next` raises it in the reader
            self._stopped = True
            self._pieces.put(error)
        finally:
            self._running = False

    async def _piece(self) -> _Piece | None:
        """Fetches once. Returns None if there is no complete batch, or, after the backoff, for a retriable error."""
        try:
            await self._cluster.io.bootstrap(self._deadline.left_ms)
            requested = self._size()
            fetched = await self._fetched(requested)
        except (protocol.KafkaError, OSError) as error:
            await self._after(error)
            return None
        if fetched is None:
            return None
        data = fetched.records or b""
        following = next_offset(np.frombuffer(data, np.uint8)) if data else None
        if following is None or following <= self._position:
            self._enlarge(data, requested)
            return None
        self._record_bytes = max(len(data) / (following - self._position), 1.0)
        self._position = following
        self._deadline = Deadline(self._timeout_ms)
        aborted = tuple((item.producer_id, item.first_offset) for item in fetched.aborted_transactions or ())
        return _Piece(data, aborted)

    def _enlarge(self, data: bytes, requested: int) -> None:
        """Enlarges the next fetch if the first batch is larger than the last one. (Since Kafka 0.10.1, brokers return
        the first batch whole, KIP-74.) Raises CorruptRecordsError if larger fetches cannot help, and
        KafkaUnavailableError after the deadline.
        """
        if data:
            size = first_batch_bytes(data) or 0
            if len(data) < size and requested >= min(size, _MAX_FETCH_BYTES):
                raise CorruptRecordsError(f"its header says {size} bytes, but the broker returned {len(data)}", 0)
            self._fetch_bytes = min(max(self._fetch_bytes * 2, size), _MAX_FETCH_BYTES)
            self._record_bytes = float(self._fetch_bytes)
        if self._deadline.left_ms < 0:
            raise KafkaUnavailableError(
                f"no records of {self._topic}-{self._partition} from offset {self._position} on "
                f"within {self._timeout_ms:.0f} ms, although records up to offset {self._end} were expected",
            )

    async def _after(self, error: Exception) -> None:
        if isinstance(error, protocol.OffsetOutOfRangeError):
            # It may have been a former leader, which does not know yet that it is one, and whose log ends earlier.
            self._cluster.forget_leaders(self._topic)
            if (out := await self._out_of_range()) is not None:
                raise out
        elif not is_retriable(error):
            raise error
        wait = self._deadline.next_wait()
        if wait is None:
            raise error
        self._cluster.forget_leaders(self._topic)
        await self._cluster.io.sleep(wait)

    async def _out_of_range(self) -> OffsetOutOfRangeError | None:
        """Returns the error for a position that is not in the log, if it is not."""
        partitions = [(self._topic, self._partition)]
        ends = [
            (await self._cluster.find_offsets(partitions, which, "read_uncommitted", self._deadline))[partitions[0]]
            for which in ("earliest", "latest")
        ]
        if ends[0] <= self._position <= ends[1]:
            return None
        return OffsetOutOfRangeError(self._topic, self._partition, self._position, ends[0], ends[1])

    async def _fetched(self, size: int) -> Any:
        """Returns the partition's part of a response, or None: a broker returns no records if a quota is exceeded."""
        leader = await self._cluster.find_leader(self._topic, self._partition, self._deadline)
        topic_type = FetchRequest.FetchTopic
        part = topic_type.FetchPartition(
            partition=self._partition,
            current_leader_epoch=-1,
            fetch_offset=self._position,
            last_fetched_epoch=-1,
            partition_max_bytes=size,
        )
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=size,
            isolation_level=LEVELS[self._isolation],
            session_id=0,
            session_epoch=-1,  # no fetch session (KIP-227): every fetch is a full one
            topics=[topic_type(topic=self._topic, partitions=[part])],
            forgotten_topics_data=[],
            rack_id="",
            min_version=4,
            max_version=12,
        )
        response = await self._cluster.io.send(request, leader, lane="fetch")
        if response.throttle_time_ms > 0:
            self._deadline = Deadline(self._timeout_ms)  # the pause does not count as a failure of the broker
        partitions = [part for topic in response.responses for part in topic.partitions]
        for code in (response.error_code, *(part.error_code for part in partitions)):
            if code == protocol.CorruptRecordError.errno:
                raise CorruptRecordsError("the broker cannot read it either (CORRUPT_MESSAGE)", 0)
            if code:
                raise error_of_read(code)(f"{self._topic}-{self._partition}")
        if partitions:
            return partitions[0]
        if response.throttle_time_ms <= 0:
            raise protocol.UnknownTopicOrPartitionError(f"no result for {self._topic}-{self._partition}")
        return None

    def _size(self) -> int:
        """Returns the size of the next fetch: little more than the rest of the range, so short ranges are cheap."""
        left = int((self._end - self._position) * self._record_bytes * 1.1)
        return min(max(left, _MIN_FETCH_BYTES), self._fetch_bytes)
