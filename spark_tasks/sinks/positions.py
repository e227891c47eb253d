"""The position of a sink task in each of its partitions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Literal

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import Isolation, TopicPartition
from spark_tasks.kafka.errors import out_of_log
from spark_tasks.kafka.task_clients import Reset
from spark_tasks.kafka.watcher import EndWatcher
from spark_tasks.task import ResumeFrom

_logger = logging.getLogger(__name__)
LAG_S = 30.0  # how often a paused task looks up the ends of its partitions, for the lags
_TIMEOUT_MS = 5_000  # the task tries again; meanwhile it can be stopped
_LOOK_UP_S = 1.0
Committed = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]


class OffsetsMissingError(ConnectError):
    """There is no offset to start from, and `auto.offset.reset=none` forbids choosing one."""


class SinkAheadError(ConnectError):
    """A sink that stores offsets itself has a later one than the end of the log. It would mistake new records for
    records that it already has.
    """


class Positions:
    """The next offset to read of each assigned partition. `resume_from`: that of a ResumableWriter. Methods raise
    ConnectErrors of Kafka, and OffsetsMissingError.
    """

    def __init__(self, watcher: EndWatcher, isolation: Isolation, reset: Reset, resume_from: ResumeFrom | None) -> None:
        self._watcher = watcher
        self.isolation = isolation
        self._reset = reset
        self._resume_from = resume_from
        self._at: dict[TopicPartition, int] = {}
        self._chosen: dict[TopicPartition, int] = {}  # by `reset`, as nothing was committed
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}  # the newest known ones
        self._looked_at = float("-inf")  # when a task that reads nothing last looked up the ends
        self._look_up_at = float("-inf")
        self._rechecks_sink = self._rechecks_ends = False
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._committed: Committed | None = None

    def __bool__(self) -> bool:
        return bool(self._assigned)

    @property
    def resumable(self) -> bool:
        """Whether the writer stores offsets itself."""
        return self._resume_from is not None

    @property
    def missing(self) -> list[TopicPartition]:
        """The assigned partitions whose positions are not known yet, because they have no leader at present."""
        return sorted(self._assigned - self._at.keys())

    def at(self) -> dict[TopicPartition, int]:
        """Returns a copy of all positions."""
        return dict(self._at)

    @property
    def current(self) -> Mapping[TopicPartition, int]:
        """A view of all positions, which is valid until the next assignment."""
        return self._at

    def assign(self, partitions: frozenset[TopicPartition], committed: Committed) -> None:
        """Sets a new assignment and looks up all positions again: another member may have read further meanwhile."""
        self._assigned, self._committed = partitions, committed
        self._chosen = {tp: offset for tp, offset in self._chosen.items() if tp in partitions}
        self.forget()
        self._look_up()

    def forget(self) -> None:
        """Makes the next batch start at the committed offsets."""
        self._at, self._starts = {}, {}

    def take_starts(self) -> dict[TopicPartition, int]:
        """Returns where partitions without a committed offset began, once. As in Kafka Connect, this is committed with
        the first batch: with `latest`, a restarted task would skip what has arrived meanwhile in partitions that it has
        read nothing from.
        """
        starts, self._starts = self._starts, {}
        return starts

    def recheck(self) -> None:
        """Called when a batch has failed. Before the next one, the ends are requested: the log may have lost records
        for which the batch waited. A sink that stores offsets itself is asked for them, as it may have a part of it.
        """
        self._rechecks_sink = self._resume_from is not None
        self._rechecks_ends = True

    def _look_up(self) -> None:
        if self._rechecks_sink:
            self._at |= {tp: offset for tp in self._at if (offset := self._sink_offset(tp)) is not None}
            self._rechecks_sink = False
        missing = [tp for tp in sorted(self._assigned) if tp not in self._at]
        if not missing or self._committed is None or (self._at and time.monotonic() < self._look_up_at):
            return
        offsets = {tp: offset for tp in missing if (offset := self._sink_offset(tp)) is not None}
        left = [tp for tp in missing if tp not in offsets]
        if left:
            offsets |= self._committed(left)
        self._at |= offsets
        fresh = [tp for tp in left if tp not in offsets]
        unknown = [tp for tp in fresh if tp not in self._chosen]
        if unknown:
            self._chosen |= self._start_of(unknown)
        starts = {tp: self._chosen[tp] for tp in fresh if tp in self._chosen}
        self._starts |= starts
        self._at |= starts
        self._look_up_at = time.monotonic() + _LOOK_UP_S  # of those that have no leader at present

    def _sink_offset(self, partition: TopicPartition) -> int | None:
        if self._resume_from is None:
            return None
        offset: int | None = self._resume_from(*partition)
        return offset

    def _start_of(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if self._reset == "none":
            raise OffsetsMissingError(
                f"no offsets are committed for {_text(partitions)} and auto.offset.reset is none; commit some, or set"
                " consumer.override.auto.offset.reset to earliest or latest"
            )
        if isinstance(self._reset, timedelta):
            return self._since(partitions, self._reset)
        return self._offsets(partitions, self._reset)

    def _since(self, partitions: list[TopicPartition], duration: timedelta) -> dict[TopicPartition, int]:
        offsets = self._offsets(partitions, max(0, int(1000 * (time.time() - duration.total_seconds()))))
        older = [tp for tp, offset in offsets.items() if offset < 0]  # all their records are older
        newer = {tp: offset for tp, offset in offsets.items() if offset >= 0}
        return newer | (self._offsets(older, "latest") if older else {})

    def _offsets(
        self, partitions: list[TopicPartition], which: Literal["earliest", "latest"] | int
    ) -> dict[TopicPartition, int]:
        """Returns the offsets without those of partitions out of reach, unless the task has no other partitions."""
        cluster = self._watcher.cluster
        found = cluster.offsets_by_now(partitions, which, self.isolation, timeout_ms=_TIMEOUT_MS)
        if found or self._at:
            return found
        return cluster.offsets(partitions, which, self.isolation, timeout_ms=_TIMEOUT_MS)

    def known(self) -> dict[TopicPartition, int]:
        """Returns all positions, after looking up those that are not known yet."""
        self._look_up()
        return self.at()

    def ranges(self, max_records: int) -> list[tuple[TopicPartition, int, int]]:
        """Returns (partition, start, end) for all partitions with new records, with at most `max_records` offsets each.
        `end` is exclusive.
        """
        self._look_up()
        found, self._looked_at = [], float("-inf")
        look_up = self._watcher.refresh if self._rechecks_ends else self._watcher.ends
        self._ends = look_up(list(self._at), self.isolation)
        self._rechecks_ends = False
        for tp, end in self._ends.items():
            start = self._at[tp]
            if end > start:
                found.append((tp, start, min(end, start + max_records)))
            elif end < start:
                self._behind_the_end(tp, start)
        return found

    def fetched_ranges(self, max_records: int) -> list[tuple[TopicPartition, int, int, bytes]] | None:
        """Returns (partition, start, end, record batches) for all partitions with new records, or None if some of them
        have to be fetched, or a position is not known or behind the end of the log. Sends no request. Each
        range goes up to the known end, because no later response reports records that are before it.
        """
        if len(self._at) < len(self._assigned) or self._rechecks_sink:
            return None
        found = []
        for tp, start in self._at.items():
            end = self._ends[tp] = self._watcher.known_end(tp, self.isolation)
            if end == start:
                continue
            data, fetched = self._watcher.fetched(tp, start)
            if not start < fetched == end <= start + max_records:
                return None
            found.append((tp, start, end, data))
        return found

    def held(self, partition: TopicPartition, start: int) -> bytes:
        """Returns the fetched bytes from a position on (see EndWatcher.records)."""
        return self._watcher.records(partition, start)

    def end_by_now(self, partition: TopicPartition, start: int, end: int, max_records: int) -> int:
        """Returns the end of a range from `ranges`, extended by records that have arrived since. Sends no request. Can
        be called on any thread.
        """
        return max(end, min(self._watcher.known_end(partition, self.isolation), start + max_records))

    def refresh_ends(self) -> None:
        """Requests the ends, at most every LAG_S, for the `lags` of a task that reads nothing."""
        if self._assigned and time.monotonic() - self._looked_at > LAG_S:
            self._looked_at = time.monotonic()
            with suppress(ConnectError):  # Kafka does not respond; looked up again later
                self._ends = self._watcher.refresh(list(self._at), self.isolation, some=True)

    def lags(self) -> dict[TopicPartition, int]:
        """Returns the lag of each partition in offsets, relative to the newest known ends."""
        return {tp: max(0, self._ends.get(tp, at) - at) for tp, at in self._at.items()}

    def _behind_the_end(self, tp: TopicPartition, position: int) -> None:
        """Handles a position after the end of the log, which was truncated, or whose topic was deleted and created
        again.
        """
        end = self._watcher.refresh([tp], "read_uncommitted", some=True).get(tp)
        if end is None or end >= position:
            return  # the known end was outdated, or an open transaction was read before isolation.level was changed
        start = self._watcher.cluster.offsets_by_now(
            [tp], "earliest", "read_uncommitted", timeout_ms=_TIMEOUT_MS).get(tp)
        if start is not None:
            self.out_of_range(*tp, start, end)

    def out_of_range(self, topic: str, partition: int, log_start: int, log_end: int) -> None:
        """Applies `auto.offset.reset` to a position that is not in the log. Raises SinkAheadError."""
        tp = (topic, partition)
        held = self._sink_offset(tp)
        if held is not None and held > log_end:
            raise SinkAheadError(
                f"the sink holds {topic}-{partition} up to offset {held - 1}, but its log ends before offset {log_end}:"
                " the topic was recreated, or lost records. Have the connector write to another place, or remove "
                "what the sink holds of this topic, then restart the task"
            )
        text = out_of_log(*tp, self._at.get(tp), log_start, log_end)
        if self._reset == "none":
            raise OffsetsMissingError(
                f"{text}, and auto.offset.reset is none; stop the connector and commit others, or set"
                " consumer.override.auto.offset.reset to earliest or latest")
        if isinstance(self._reset, timedelta):
            found = self._since([tp], self._reset)
            if tp not in found:
                return  # it has no leader at present
            self._at |= found
        else:
            self._at[tp] = log_start if self._reset == "earliest" else log_end
        for known in (self._chosen, self._starts):
            if tp in known:
                known[tp] = self._at[tp]
        _logger.warning("%s; continuing at %d (auto.offset.reset=%s)", text, self._at[tp],
                        "by_duration" if isinstance(self._reset, timedelta) else self._reset)

    def out_of_reach(self, partition: TopicPartition) -> None:
        """Records that a partition could not be read. It is not planned again before its leader answers."""
        self._watcher.lose(partition)

    def advance(self, partition: TopicPartition, offset: int) -> None:
        """Records that a batch up to `offset` (exclusive) was written."""
        if partition in self._at:
            self._at[partition] = offset


def _text(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions)
