"""Records of dead letters that are put into a Java sink together: their frames, and which of them the sink has stored.

A sink decides itself when it stores records, and reports that by the offsets that it would commit. Those of a partition
have to ascend, so letters that are not in the order of their records are in several rounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from heeler.java_host.feed import AHEAD
from heeler.java_host.pieces import whole_records
from spark_tasks.errors import ConnectError
from spark_tasks.host_frames import cut_records
from spark_tasks.kafka.cluster import TopicPartition

Placed = tuple[TopicPartition, Sequence[pa.RecordBatch]]
"""Records (CUT_SCHEMA) of one partition. The offsets of each batch ascend."""


class OwnOffsetsError(ConnectError):
    """The connector has moved to another position than that of a replay's records."""


class _Piece(NamedTuple):
    place: TopicPartition
    start: int
    end: int
    batch: pa.RecordBatch


class ReplayRound:
    """`records`: of each partition, in the order of their offsets. `starts`: the first offset of each."""

    def __init__(self, records: Mapping[TopicPartition, Sequence[pa.RecordBatch]]) -> None:
        self._pieces: list[_Piece] = []
        self.starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        for place, batches in records.items():
            at = self.starts[place] = _offset(batches[0], 0)
            for part in (part for batch in batches for part in whole_records(batch)):
                end = _offset(part, -1) + 1
                self._pieces.append(_Piece(place, at, end, part))
                at = end  # a frame that began later would have been lost, for the host
            self._ends[place] = at
        self._waiting = deque(self._pieces)
        self._sent = dict(self.starts)
        self._stored = dict(self.starts)
        self._in_flight = 0

    def next(self) -> bytes | None:
        """The next frame; None if there is none, or the host has enough."""
        if not self._waiting or self._in_flight >= AHEAD:
            return None
        place, start, end, batch = self._waiting.popleft()
        self._in_flight += 1
        self._sent[place] = max(end, self._sent[place])
        return cut_records(*place, start, end, batch, reset=False)

    def done(self) -> None:
        """The host is done with a frame."""
        self._in_flight -= 1

    def move(self, place: TopicPartition, offset: int) -> None:
        """The plugin has moved to this offset, from which it needs the records again; -1: it has paused the partition.
        Raises OwnOffsetsError.
        """
        if offset < 0 or place not in self.starts:
            return
        if not self.starts[place] <= offset <= self._sent[place]:
            raise OwnOffsetsError(
                f"the connector keeps offsets itself: it wants to go to offset {offset} of {place[0]}-{place[1]}, but "
                f"the records of dead letters that it was given begin at {self.starts[place]}")
        again = [piece for piece in self._pieces if piece.place == place and piece.end > offset]
        self._waiting = deque([*again, *(piece for piece in self._waiting if piece.place != place)])
        self._stored[place] = min(self._stored[place], offset)

    def store(self, place: TopicPartition, offset: int) -> None:
        """The plugin has stored the records of a partition before this offset."""
        self._stored[place] = offset

    @property
    def given(self) -> bool:
        """Whether the host has done all that it could do."""
        return not self._waiting and self._in_flight <= 0

    @property
    def missing(self) -> list[TopicPartition]:
        """The partitions of which the plugin has not stored all records."""
        return [place for place, end in self._ends.items() if self._stored[place] < end]


def rounds_of(messages: Iterable[Placed]) -> Iterator[ReplayRound]:
    """Yields the rounds of a range of the queue, in order."""
    records: dict[TopicPartition, list[pa.RecordBatch]] = {}
    for place, batch in ((place, batch) for place, batches in messages for batch in batches):
        if place in records and _offset(batch, 0) <= _offset(records[place][-1], -1):
            yield ReplayRound(records)
            records = {}
        records.setdefault(place, []).append(batch)
    if records:
        yield ReplayRound(records)


def _offset(batch: pa.RecordBatch, row: int) -> int:
    return int(batch.column("offset")[row].as_py())
