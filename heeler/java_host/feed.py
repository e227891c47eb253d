"""The records for a sink task's plugin: read from the partitions in turn, as frames for the host."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from heeler.java_host.pieces import FRAME_BYTES, whole_records
from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.host_frames import records
from spark_tasks.kafka.cluster import Isolation, TopicPartition
from spark_tasks.kafka.errors import KafkaUnavailableError, OffsetOutOfRangeError, UnknownTopicError
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.sinks.positions import Positions

_logger = logging.getLogger(__name__)
FRAME_RECORDS: Final = 16_384
AHEAD: Final = 4  # frames that the host is processing; they are in the memory of the JVM that all tasks share
_AHEAD_BYTES: Final = AHEAD * FRAME_BYTES
_MIN_FETCH_BYTES: Final = 64 << 10
_FETCH_TIMEOUT_MS: Final = 5_000  # after this, a partition is out of reach
_IDLE_S: Final = 0.2  # after this, others have their turn; the task handles messages in between
_MAX_UNLED: Final = 4  # partitions without a known leader that are waited for


class Feed:
    """Reads records and advances `positions`. `given`: the numbers of records and bytes of each frame that the host has
    not finished.
    """

    def __init__(self, positions: Positions, client: Mapping[str, Any], isolation: Isolation, record_limit: int,
                 used: Callable[[str], None]) -> None:
        """`client`: kafka-python's settings. `record_limit`: bytes of the largest record. `used` is called with the
        topic of each frame that has records.
        """
        self.given: deque[tuple[int, int]] = deque()
        self._positions = positions
        self._client = client
        self._isolation = isolation
        self._record_limit = record_limit
        self._used = used
        self._record_bytes = 1024.0
        self.open({})

    def open(self, places: Mapping[TopicPartition, int]) -> None:
        """Begins at these offsets, by partition; the host has no frames then."""
        self.given.clear()
        self._expected = dict(places)
        self._held: set[TopicPartition] = set()
        self._last_read: dict[TopicPartition, int] = {}  # the higher, the later
        self._forget_reads()

    def _forget_reads(self) -> None:
        self._frames: Iterator[bytes] = iter(())
        self._waiting: dict[TopicPartition, Iterator[bytes | None]] = {}  # reads that go on in the next pass

    def move(self, places: Iterable[tuple[TopicPartition, int]]) -> None:
        """The plugin has moved to other offsets; -1 means that it has paused the partition."""
        self._forget_reads()  # they may be for the old offsets
        for place, offset in places:
            self._held.discard(place)
            if offset < 0:
                self._held.add(place)
            else:
                self._positions.advance(place, offset)
                self._expected[place] = offset

    def at(self) -> dict[TopicPartition, int]:
        """The position in each partition that is not paused."""
        return {place: offset for place, offset in self._positions.at().items() if place not in self._held}

    @property
    def busy(self) -> bool:
        """Whether the host has enough frames."""
        return len(self.given) >= AHEAD or sum(size for _, size in self.given) >= _AHEAD_BYTES

    @property
    def pending(self) -> bool:
        """Whether a read is in progress, so that it is not known yet whether there are new records."""
        return bool(self._waiting)

    def next(self) -> bytes | None:
        """The next frame; None if there are no new records, or if they are `pending`. Raises RetriableError and other
        errors of reading.
        """
        frame = next(self._frames, None)
        if frame is None:
            self._frames = self._read()
            frame = next(self._frames, None)
        return frame

    def _read(self) -> Iterator[bytes]:
        """One pass over all partitions with new records, and one of those whose brokers have not responded before."""
        ranges = [one for one in self._positions.ranges(FRAME_RECORDS)
                  if one[0] not in self._held and one[0] not in self._waiting]
        # A broker may respond to one read in each pass only: those that have waited longest go first.
        ranges.sort(key=lambda one: self._last_read.get(one[0], 0))
        reads = [(place, self._read_partition(place, start, end)) for place, start, end in ranges]
        some = False
        for place, read in [*reads, *list(self._waiting.items())[:1]]:
            if place not in self._waiting and not self._may_read(place):
                continue
            self._waiting.pop(place, None)
            self._last_read[place] = 1 + max(self._last_read.values(), default=0)
            try:
                for frame in read:
                    if frame is None:
                        self._waiting[place] = read
                        break
                    some = True
                    yield frame
            except OffsetOutOfRangeError as error:
                self._positions.out_of_range(*place, error.log_start, error.log_end)
            except (KafkaUnavailableError, UnknownTopicError) as error:
                self._positions.out_of_reach(place)
                self._positions.recheck()  # the next `ranges` are without this one and all others that do not respond
                if not some:
                    raise
                _logger.warning("Partition %s-%d is currently unavailable: %s", *place, error)
                return

    def _may_read(self, place: TopicPartition) -> bool:
        """Whether the partition's broker is not waited for already: it responds to one fetch after the other."""
        find = shared_cluster(self._client).known_leader
        leader = find(*place)
        same = sum(find(*other) == leader for other in self._waiting)
        return same < (_MAX_UNLED if leader is None else 1)

    def _read_partition(self, place: TopicPartition, start: int, end: int) -> Iterator[bytes | None]:
        """Yields frames, and None whenever the broker has not responded for a while."""
        wanted = int(self._record_bytes * (end - start) * 1.1)
        records = size = 0
        for raw in read_range(
            shared_cluster(self._client), *place, start, end, isolation=self._isolation,
            fetch_bytes=min(max(wanted, _MIN_FETCH_BYTES), FRAME_BYTES), timeout_ms=_FETCH_TIMEOUT_MS, idle_s=_IDLE_S,
            max_record_bytes=self._record_limit, held=self._positions.held(place, start),
        ):
            if not len(raw):
                yield None
                continue
            for part in whole_records(raw):
                upto = part.column("offset")[len(part) - 1].as_py() + 1
                records, size = records + len(part), size + part.nbytes
                yield self._frame(place, start, upto, part)
                start = upto
        if start < end:  # there are no records at the last offsets
            yield self._frame(place, start, end, pa.RecordBatch.from_pylist([], schema=RAW_SCHEMA))
        if records:
            self._record_bytes = size / records

    def _frame(self, place: TopicPartition, start: int, end: int, part: pa.RecordBatch) -> bytes:
        frame = records(*place, start, end, part, reset=self._expected.get(place) != start)
        self._record_given(place, end, len(part), part.nbytes)
        return frame

    def _record_given(self, place: TopicPartition, end: int, rows: int, size: int) -> None:
        self._expected[place] = end
        self._positions.advance(place, end)
        self.given.append((rows, size))
        if rows:
            self._used(place[0])
