"""How a source batch gets its producers and becomes final. The runner is the same for every guarantee.

A lane is one writer's producer identity and its next sequence numbers. The task owns lanes; an executor only appends
under one and tells the sequences afterwards (design: section 5.2). A lane has one writer at a time, so what it writes
keeps its order from batch to batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.running.stream_offsets import Changed, SourceOffsets
from spark_tasks.task import OffsetStore

MOST_LANES = 32
INIT_TIMEOUT_MS = 5_000  # the task tries again; meanwhile it can be stopped


@dataclass(frozen=True, slots=True)
class Lane:
    """What a writer appends under. `identity` None: the user turned idempotence off."""

    identity: ProducerIdentity | None
    sequences: Mapping[TopicPartition, int] = field(default_factory=dict)


class Delivery(Protocol):
    """One task's guarantee. Errors are ConnectErrors; after one the runner calls `abort`."""

    @property
    def most_lanes(self) -> int:
        """How many splits of a batch may write in parallel."""

    @property
    def overlaps(self) -> bool:
        """Whether the next batch may start while the offsets of the last are written."""

    def start(self) -> None:
        """Before the first batch; a transactional delivery fences its predecessors here."""

    def lanes(self, count: int) -> Sequence[Lane]:
        """The lanes of the next batch, at most `most_lanes`."""

    def written(self, sequences: Sequence[Mapping[TopicPartition, int]]) -> None:
        """All splits of the batch are acknowledged; their next sequence numbers, in the order of the lanes."""

    def commit(self, offsets: SourceOffsets) -> None:
        """Make the batch final with the offsets after it."""

    def abort(self) -> None:
        """Nothing of the batch in flight may be built upon; it will be repeated or the task ends."""

    def close(self) -> None:
        """Free what is held. Safe twice."""


class AtLeastOnce:
    """Idempotent lanes; the offsets are written after every acknowledgement. After a failure the batch is repeated
    from the last offsets under new identities.
    """

    most_lanes = MOST_LANES
    overlaps = True

    def __init__(self, cluster: KafkaCluster, offsets: OffsetStore, *, idempotent: bool = True) -> None:
        self._cluster = cluster
        self._offsets = offsets
        self._idempotent = idempotent
        self._lanes: list[Lane] = []
        self._changed = Changed()

    def start(self) -> None:
        """Nobody has to be fenced."""

    def lanes(self, count: int) -> Sequence[Lane]:
        """See Delivery."""
        while len(self._lanes) < count:
            found = self._cluster.init_producer_id(deadline_ms=INIT_TIMEOUT_MS) if self._idempotent else None
            self._lanes.append(Lane(found))
        return self._lanes[:count]

    def written(self, sequences: Sequence[Mapping[TopicPartition, int]]) -> None:
        """See Delivery."""
        for number, following in enumerate(sequences):
            self._lanes[number] = Lane(self._lanes[number].identity, following)

    def commit(self, offsets: SourceOffsets) -> None:
        """See Delivery."""
        changed = self._changed.of(offsets)
        if changed:
            self._offsets.write(changed)
            self._changed.note(changed)

    def abort(self) -> None:
        """See Delivery."""
        self._lanes.clear()

    def close(self) -> None:
        """See Delivery. The cluster's connections are shared."""
