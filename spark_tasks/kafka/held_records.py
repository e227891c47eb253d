"""Records that have been fetched already and wait for the task that reads them: pure.

What a long poll brings of a partition is put behind what it brought before, as long as nothing is missing in between;
so a task that is some batches late still needs no fetch of its own.
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
    end: int
    pieces: deque[tuple[int, bytes]] = field(default_factory=deque)  # and the requested offset of each


class HeldRecords:
    """By partition; `most_bytes` of all, and `most_of_one` of a single partition. Not thread-safe."""

    def __init__(self, most_bytes: int, most_of_one: int) -> None:
        self._most = most_bytes
        self._most_of_one = most_of_one
        self._held: OrderedDict[TopicPartition, _Held] = OrderedDict()  # the one that was added to last is the last
        self.size = 0

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._held

    def add(self, partition: TopicPartition, offset: int, data: bytes) -> None:
        """What a fetch from this offset on has brought, in the broker's format; the last batch may be cut off."""
        length, end = _complete(data)
        if not length or length > self._most_of_one or end <= offset:
            return
        held = self._held.get(partition)
        if held is None or held.end != offset or self._size(held) + length > self._most_of_one:
            self.drop(partition)
            held = self._held[partition] = _Held(end)
        held.end = end
        held.pieces.append((offset, data[:length]))
        self._held.move_to_end(partition)
        self.size += length
        while self.size > self._most:
            self.drop(next(iter(self._held)))

    def take(self, partition: TopicPartition, offset: int) -> bytes:
        """All that is held from this offset on; what is before it is forgotten. Empty where the record at the offset is
        not held.
        """
        held = self._held.get(partition)
        if held is None or not held.pieces[0][0] <= offset < held.end:
            return b""
        while len(held.pieces) > 1 and held.pieces[1][0] <= offset:
            self.size -= len(held.pieces.popleft()[1])
        return b"".join(data for _, data in held.pieces)

    def drop(self, partition: TopicPartition) -> None:
        """Forget what is held of a partition."""
        held = self._held.pop(partition, None)
        if held is not None:
            self.size -= self._size(held)

    def keep(self, wanted: set[TopicPartition]) -> None:
        """Forget all other partitions."""
        for partition in self._held.keys() - wanted:
            self.drop(partition)

    @staticmethod
    def _size(held: _Held) -> int:
        return sum(len(data) for _, data in held.pieces)


def _complete(data: bytes) -> tuple[int, int]:
    """The length of the whole batches at the beginning, and the offset after them; (0, 0) without any."""
    at = end = 0
    while at + HEADER_BYTES <= len(data) and data[at + MAGIC_AT] == MAGIC:
        base, length, *_ = PREFIX.unpack_from(data, at)
        if length < HEADER_BYTES - LOG_OVERHEAD or at + LOG_OVERHEAD + length > len(data):
            break
        end = base + SUFFIX.unpack_from(data, at + PREFIX.size)[1] + 1
        at += LOG_OVERHEAD + length
    return at, end
