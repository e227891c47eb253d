"""How a source batch gets its producers and is committed. The runner is the same for every guarantee.

A lane is a producer identity with its next sequence numbers. The task owns the lanes; an executor only appends under
one and returns the new sequence numbers. A lane has one writer at a time, so its records keep their order from batch to
batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from typing_extensions import override

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
    """The identity for one writer. `identity` None: idempotence is turned off. `added`: partitions already in the
    transaction; the writer adds others before it writes to them, the `likely` ones in one request.
    """

    identity: ProducerIdentity | None
    sequences: Mapping[TopicPartition, int] = field(default_factory=dict)
    added: frozenset[TopicPartition] = frozenset()
    likely: frozenset[TopicPartition] = frozenset()


class Delivery(Protocol):
    """The delivery guarantee of one task. Errors are ConnectErrors; after an error the runner calls `abort`."""

    @property
    def most_lanes(self) -> int:
        """How many splits of a batch may write in parallel."""

    @property
    def overlaps(self) -> bool:
        """Whether the next batch may start while the offsets of the last one are being written."""

    def start(self) -> None:
        """Called before the first batch; a transactional delivery fences its predecessors here."""

    def lanes(self, count: int) -> Sequence[Lane]:
        """The lanes of the next batch, at most `most_lanes`."""

    def written(self, sequences: Sequence[Mapping[TopicPartition, int]]) -> None:
        """All splits of the batch are acknowledged; their next sequence numbers, in the order of the lanes."""

    def commit(self, offsets: SourceOffsets, signal: TransactionSignal = "commit") -> bool:
        """The batch is complete, and these are the offsets after it. True if it is committed now, with all before it.
        `signal`: the reader's wish for the transaction, if transactions end where the reader decides.
        """

    def settle(self, *, finish: bool) -> bool:
        """Called between batches: commit what is due; with `finish` (the task pauses or stops) also what is not due
        yet. True if everything is committed now.
        """

    @property
    def due_ms(self) -> float | None:
        """Milliseconds until `settle` has something to do; None if nothing waits."""

    @property
    def open(self) -> bool:
        """Whether anything was written that is not committed."""

    @property
    def boundary(self) -> Boundary | None:
        """When transactions end; None if there are none."""

    def abort(self) -> None:
        """Give up what is not committed: it will be repeated, or the task ends. Sends no request."""

    def recover(self) -> None:
        """Called after an abort, before the offsets are loaded again, and called again after a retriable error."""

    def failure(self, error: Exception) -> Exception:
        """The error as users should see it."""

    def cancel(self) -> None:
        """Make `start` end soon. Any thread."""

    def close(self) -> None:
        """Release all resources. May be called twice."""


class AtLeastOnce(Delivery):
    """Idempotent lanes; the offsets are written after all records are acknowledged. After a failure the batch is
    repeated from the last offsets under new identities.
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

    @override
    def start(self) -> None:
        """Nothing to do: there are no predecessors to fence."""

    @override
    def lanes(self, count: int) -> Sequence[Lane]:
        while len(self._lanes) < count:
            found = self._cluster.init_producer_id(deadline_ms=INIT_TIMEOUT_MS) if self._idempotent else None
            self._lanes.append(Lane(found))
        return self._lanes[:count]

    @override
    def written(self, sequences: Sequence[Mapping[TopicPartition, int]]) -> None:
        for number, following in enumerate(sequences):
            self._lanes[number] = Lane(self._lanes[number].identity, following)

    @override
    def commit(self, offsets: SourceOffsets, signal: TransactionSignal = "commit") -> bool:
        changed = self._changed.of(offsets)
        if changed:
            self._offsets.write(changed)
            self._changed.note(changed)
        return True

    @override
    def settle(self, *, finish: bool) -> bool:
        """Nothing to do: commits do not wait."""
        return False

    @override
    def abort(self) -> None:
        self._lanes.clear()

    @override
    def recover(self) -> None:
        """Nothing to do: the next lanes are new ones."""

    @override
    def failure(self, error: Exception) -> Exception:
        return error

    @override
    def cancel(self) -> None:
        """Nothing to do: `start` does not wait."""

    @override
    def close(self) -> None:
        """Release the identities. The cluster's connections are shared and stay open."""
