"""The delivery guarantees of source tasks: how a batch gets its producers and is committed.

A lane is a producer identity with its next sequence numbers. The task owns the lanes. An executor only appends with a
lane, and returns the new sequence numbers. Only one split at a time uses a lane, so its records keep their order from
batch to batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from typing_extensions import override

from spark_tasks.errors import RetriableError
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.kafka.transactions import TransactionMember
from spark_tasks.plugins.api import SourceOffset, SourcePartition, TransactionSignal
from spark_tasks.process.suspension import process_pulse
from spark_tasks.sources.boundaries import Boundary
from spark_tasks.sources.stream_offsets import Changed, SourceOffsets, partition_key
from spark_tasks.task import OffsetStore

MAX_LANES = 32
INIT_TIMEOUT_MS = 5_000  # short, as the task can be stopped only between attempts


@dataclass(frozen=True, slots=True)
class Lane:
    """The producer of one split. `identity`: None without idempotence. `sequences`: the next sequence number of each
    partition. `added`: the partitions that are already in the transaction; the split adds others before it appends to
    them. `likely`: partitions to add together with the first new one, which saves requests.
    """

    identity: ProducerIdentity | None
    sequences: Mapping[TopicPartition, int] = field(default_factory=dict)
    added: frozenset[TopicPartition] = frozenset()
    likely: frozenset[TopicPartition] = frozenset()

    def member(self, cluster: KafkaCluster) -> TransactionMember | None:
        """Returns an appender's access to the transaction; None without one."""
        if self.identity is None or self.identity.transactional_id is None:
            return None
        return TransactionMember(cluster, self.identity, self.added, self.likely)


class LaneUse(Protocol):
    """What a split has made of its lane."""

    @property
    def sequences(self) -> Mapping[TopicPartition, int]:
        """The next sequence numbers."""

    @property
    def added(self) -> frozenset[TopicPartition]:
        """The partitions that are in the transaction now, also those for which brokers have refused all records."""


class Delivery(Protocol):
    """The delivery guarantee of one task. All methods raise ConnectErrors. After an error the runner calls `abort`."""

    @property
    def max_lanes(self) -> int:
        """How many splits of a batch may append in parallel."""

    @property
    def overlaps(self) -> bool:
        """Whether the next batch may start while the offsets of the last one are being written."""

    @property
    def suspended(self) -> bool:
        """Whether this process was suspended for so long since `recover` that another worker may run this task and have
        written its offsets. Always False with transactions, as Kafka fences them.
        """

    def check(self) -> None:
        """Raises RetriableError if `suspended`. Called before offsets are written."""

    def start(self) -> None:
        """Called before the first batch. A transactional delivery fences earlier producers."""

    def lanes(self, count: int) -> Sequence[Lane]:
        """Returns `count` lanes for the next batch, at most `max_lanes`."""

    def written(self, uses: Sequence[LaneUse]) -> None:
        """Called when all records of the batch are acknowledged, with the uses of its lanes, in the same order."""

    def begin_commit(self, offsets: SourceOffsets) -> None:
        """May be called before `commit` with the same offsets: starts to write them, unless that is part of a
        transaction. Whatever the caller does in between may take long.
        """

    def commit(self, offsets: SourceOffsets, signal: TransactionSignal = "commit") -> bool:
        """Called when a batch is complete. `offsets`: those after it. `signal`: the reader's signal for the
        transaction. Returns whether the batch and all earlier ones are committed now.
        """

    def settle(self, *, finish: bool) -> bool:
        """Called between batches. Commits a transaction that is due or, with `finish` (the task pauses or stops), also
        one that is not due yet. Returns whether a commit has taken place.
        """

    @property
    def owes(self) -> bool:
        """Whether offsets of acknowledged records could not be written by `commit`: `settle` tries again, so that the
        records need not be repeated. Always False with transactions, which are aborted with their records.
        """

    @property
    def due_ms(self) -> float | None:
        """Milliseconds until `settle` has a transaction to commit; None if there is none."""

    @property
    def open(self) -> bool:
        """Whether there are records that are not committed."""

    @property
    def boundary(self) -> Boundary | None:
        """When transactions end; None without transactions."""

    def abort(self) -> None:
        """Gives up the records that are not committed, because they will be read again or the task ends. Sends no
        request.
        """

    def recover(self) -> None:
        """Called after an abort, before the offsets are loaded again, and called again after a retriable error."""

    def failure(self, error: Exception) -> Exception:
        """Returns an error as it should be shown to users."""

    def cancel(self) -> None:
        """Makes `start` end soon. Any thread."""

    def close(self) -> None:
        """Releases all resources. May be called twice."""


class _Write(NamedTuple):
    """A write of offsets in flight. `before`: what was known to be written before it."""

    before: Changed
    offsets: SourceOffsets
    wait: Callable[[], None]


class AtLeastOnce(Delivery):
    """At-least-once delivery with idempotent lanes. Offsets are written when all records are acknowledged; those that
    cannot be written are kept, as in Kafka Connect, until they can. After any other failure the batch is repeated from
    the last offsets, with new producer identities.
    """

    max_lanes = MAX_LANES
    overlaps = True
    boundary = None
    due_ms = None
    open = False

    def __init__(
        self, cluster: KafkaCluster, offsets: OffsetStore, session_timeout_ms: float, *, idempotent: bool = True
    ) -> None:
        self._cluster = cluster
        self._offsets = offsets
        self._session_s = session_timeout_ms / 1000
        self._recovered_at = time.monotonic()
        self._idempotent = idempotent
        self._lanes: list[Lane] = []
        self._changed = Changed()
        self._owed: dict[str, tuple[SourcePartition, SourceOffset | None]] = {}
        self._begun: _Write | None = None

    @property
    @override
    def owes(self) -> bool:
        return bool(self._owed) and not self.suspended

    @property
    @override
    def suspended(self) -> bool:
        return process_pulse().longest_gap_since(self._recovered_at) > self._session_s

    @override
    def check(self) -> None:
        if self.suspended:
            raise RetriableError("this process was suspended for so long that another worker may be running its tasks")

    @override
    def start(self) -> None:
        """Does nothing, as there are no earlier producers to fence."""

    @override
    def lanes(self, count: int) -> Sequence[Lane]:
        while len(self._lanes) < count:
            identity = self._cluster.init_producer_id(deadline_ms=INIT_TIMEOUT_MS) if self._idempotent else None
            self._lanes.append(Lane(identity))
        return self._lanes[:count]

    @override
    def written(self, uses: Sequence[LaneUse]) -> None:
        for number, use in enumerate(uses):
            self._lanes[number] = Lane(self._lanes[number].identity, use.sequences)

    @override
    def begin_commit(self, offsets: SourceOffsets) -> None:
        self._owed |= {partition_key(partition): (partition, offset) for partition, offset in offsets}
        self._begin()

    @override
    def commit(self, offsets: SourceOffsets, signal: TransactionSignal = "commit") -> bool:
        if self._begun is None:
            self.begin_commit(offsets)
        self._end()
        return True

    @override
    def settle(self, *, finish: bool) -> bool:
        """Writes what `commit` could not write."""
        if not self._owed:
            return False
        self.check()
        self._begin()
        self._end()
        return True

    def _begin(self) -> None:
        changed = self._changed.of(list(self._owed.values()))
        if changed:
            before, self._changed = self._changed, Changed()  # a write that fails may have arrived
            self._begun = _Write(before, changed, self._offsets.begin_write(changed))

    def _end(self) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.wait()
            self._changed = begun.before
            self._changed.note(begun.offsets)
        self._owed.clear()

    @override
    def abort(self) -> None:
        self._begun = None
        self._lanes.clear()
        self._owed.clear()
        self._changed = Changed()  # a write that failed may have arrived

    @override
    def recover(self) -> None:
        self._owed.clear()
        self._recovered_at = time.monotonic()  # the next lanes are new ones

    @override
    def failure(self, error: Exception) -> Exception:
        return error

    @override
    def cancel(self) -> None:
        """Does nothing, as `start` does not block."""

    @override
    def close(self) -> None:
        """Does nothing: the cluster's connections are shared and stay open."""
