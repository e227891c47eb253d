"""Keeps fetched records until the task of their partition reads them.

The records of a response are appended to those of earlier responses if there is no gap between them. So a task that is
some batches late still needs no fetch of its own.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.records.layout import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    PREFIX,
    SUFFIX,
)


@dataclass(slots=True)
class _Held:
    """The records of one partition. `end`: the offset after the last one. `pieces`: the requested offset and the record
    batches of each response. `size`: of all pieces, in bytes.
    """

    end: int
    size: int = 0
    pieces: deque[tuple[int, bytes]] = field(default_factory=deque)


class HeldRecords:
    """Record batches by partition. `max_bytes` limits their total size, `max_partition_bytes` that of each partition.
    If the total is exceeded, the partitions that have had no new records for the longest time are dropped. Not
    thread-safe.
    """

    def __init__(self, max_bytes: int, max_partition_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._max_partition_bytes = max_partition_bytes
        self._held: OrderedDict[TopicPartition, _Held] = OrderedDict()  # the newest one last
        self.size = 0  # in bytes

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._held

    def add(self, partition: TopicPartition, offset: int, data: bytes) -> None:
        """Adds the records of a fetch from `offset` on, in the broker's format. An incomplete last batch is ignored."""
        length, end = _complete(data)
        if not length or length > self._max_partition_bytes or end <= offset:
            return
        held = self._held.get(partition)
        if held is None or held.end != offset or held.size + length > self._max_partition_bytes:
            self.drop(partition)
            held = self._held[partition] = _Held(end)
        held.end = end
        held.pieces.append((offset, data[:length]))
        held.size += length
        self._held.move_to_end(partition)
        self.size += length
        while self.size > self._max_bytes:
            self.drop(next(iter(self._held)))

    def take(self, partition: TopicPartition, offset: int) -> bytes:
        """Returns the record batches from this offset on, or b"" if the record at this offset is not held. Earlier
        pieces are dropped.
        """
        held = self._held.get(partition)
        if held is None or not held.pieces[0][0] <= offset < held.end:
            return b""
        while len(held.pieces) > 1 and held.pieces[1][0] <= offset:
            length = len(held.pieces.popleft()[1])
            held.size -= length
            self.size -= length
        return b"".join(data for _, data in held.pieces)

    def end(self, partition: TopicPartition) -> int:
        """Returns the offset after the last record that is held, or -1 if there is none."""
        held = self._held.get(partition)
        return -1 if held is None else held.end

    def drop(self, partition: TopicPartition) -> None:
        """Drops the records of a partition."""
        held = self._held.pop(partition, None)
        if held is not None:
            self.size -= held.size

    def keep(self, wanted: set[TopicPartition]) -> None:
        """Drops the records of all other partitions."""
        for partition in self._held.keys() - wanted:
            self.drop(partition)


def _complete(data: bytes) -> tuple[int, int]:
    """Returns the length in bytes of the complete batches at the start of `data`, and the offset after them; (0, 0) if
    there are none.
    """
    at = end = 0
    while at + HEADER_BYTES <= len(data) and data[at + MAGIC_AT] == MAGIC:
        base, length, *_ = PREFIX.unpack_from(data, at)
        if length < HEADER_BYTES - LOG_OVERHEAD or at + LOG_OVERHEAD + length > len(data):
            break
        end = base + SUFFIX.unpack_from(data, at + PREFIX.size)[1] + 1
        at += LOG_OVERHEAD + length
    return at, end
