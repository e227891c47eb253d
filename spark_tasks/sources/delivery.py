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
from spark_tasks.plugins.api import TransactionSignal
from spark_tasks.sources.boundaries import Boundary
from spark_tasks.sources.stream_offsets import Changed, SourceOffsets
from spark_tasks.task import OffsetStore

MOST_LANES = 32
INIT_TIMEOUT_MS = 5_000  # the task tries again; meanwhile it can be stopped


@dataclass(frozen=True, slots=True)
class Lane:
    """What a writer appends under. `identity` None: the user turned idempotence off. `added`: partitions that are in
    the transaction already; the writer adds others before it writes to them, the `likely` ones in one request.
    """

    identity: ProducerIdentity | None
    sequences: Mapping[TopicPartition, int] = field(default_factory=dict)
    added: frozenset[TopicPartition] = frozenset()
    likely: frozenset[TopicPartition] = frozenset()


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

    def commit(self, offsets: SourceOffsets, signal: TransactionSignal = "commit") -> bool:
        """The batch is complete, these are the offsets after it. True where it is final now, and all before it.
        `signal`: what the reader wants of the transaction; counts where transactions end as the reader says.
        """

    def settle(self, *, finish: bool) -> bool:
        """Between batches: make final what waits for that and is due; with `finish` (the task pauses or stops) what
        is not due as well. True where everything is final now.
        """

    @property
    def due_ms(self) -> float | None:
        """When `settle` has something to do; None: nothing waits."""

    @property
    def open(self) -> bool:
        """Whether anything was written that is not final."""

    @property
    def boundary(self) -> Boundary | None:
        """Where transactions end; None where there are none."""

    def abort(self) -> None:
        """Give up what is not final: it will be repeated, or the task ends. Sends no request."""

    def recover(self) -> None:
        """After an abort, before the offsets are loaded anew. Retriable errors have it called again."""

    def failure(self, error: Exception) -> Exception:
        """The error as the user shall see it."""

    def cancel(self) -> None:
        """From any thread: let `start` end soon."""

    def close(self) -> None:
        """Free what is held. Safe twice."""


class AtLeastOnce:
    """Idempotent lanes; the offsets are written after every acknowledgement. After a failure the batch is repeated
    from the last offsets under new identities.
    """

    most_lanes = MOST_LANES
    overlaps = True
    boundary = None
    due_ms = None
    open = False

    def __init__(self, cluster: KafkaCluster, offsets: OffsetStore, *, idempotent: bool = True) -> None:
        self._cluster = cluster
        self._offsets = offsets
        self._idempotent = idempotent
        self._lanes: list[Lane] = []
        self._changed = Changed()

    def start(self) -> None:
        """There is nobody to fence."""

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

    def commit(self, offsets: SourceOffsets, signal: TransactionSignal = "commit") -> bool:  # noqa: ARG002
        """See Delivery."""
        changed = self._changed.of(offsets)
        if changed:
            self._offsets.write(changed)
            self._changed.note(changed)
        return True

    def settle(self, *, finish: bool) -> bool:  # noqa: ARG002
        """Nothing waits."""
        return False

    def abort(self) -> None:
        """See Delivery."""
        self._lanes.clear()

    def recover(self) -> None:
        """The next lanes are new ones."""

    def failure(self, error: Exception) -> Exception:
        """See Delivery."""
        return error

    def cancel(self) -> None:
        """`start` is over at once."""

    def close(self) -> None:
        """See Delivery. The cluster's connections are shared."""
