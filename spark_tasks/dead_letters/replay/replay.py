"""A replay of the dead letter queue by a task, between its batches: plans the ranges and tracks the progress."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import numpy as np

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import Refused
from spark_tasks.dead_letters.replay.letter_range import LetterRange, ReplayCounts, count_kind
from spark_tasks.dead_letters.replay.replayed_offsets import ReplayedOffsets
from spark_tasks.dead_letters.replay.request import ReplayOrder
from spark_tasks.errors import BusyError, ConfigError, ConnectError, counted
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.errors import UnknownTopicError
from spark_tasks.task import ResumeFrom

_logger = logging.getLogger(__name__)

STEP: Final = 20_000  # offsets of the queue in a range, so that the connector's own records do not wait for long
SAMPLES: Final = 10
_TIMEOUT_MS: Final = 5_000
_NO_LIMIT: Final = 2**62

Committed = Callable[[TopicPartition], tuple[int, str] | None]


class QueueRecreatedError(ConnectError):
    """A sink that stores offsets itself has a later one than the end of the queue. It would mistake new letters for
    letters that it already has.
    """


class Replay:
    """One request for a replay. `resume_from`: the method of a ResumableWriter, None for other writers. Call all
    methods on the task's thread.
    """

    def __init__(
        self, errors: ErrorHandling, body: Mapping[str, Any], former: Replay | None, resume_from: ResumeFrom | None
    ) -> None:
        """Parses the request's body. Raises ConfigError if it is invalid or the connector does not allow replays, and
        BusyError while `former` (the previous replay) is running.
        """
        if not errors.queue:
            raise ConfigError("the connector has no dead letter queue: errors.deadletterqueue.topic.name is not set")
        self._order = order = ReplayOrder.of(body)
        if not order.dry_run:
            _check(errors, order, resume_from)
        if former is not None and former.running:
            raise BusyError(f"A replay of the dead letters of connector {errors.connector} is already running")
        self._queue = errors.queue
        self._connector = errors.connector
        self._resume_from = resume_from
        self._state: Literal["RUNNING", "DONE", "FAILED"] = "RUNNING"
        self._error: str | None = None
        self._begun_ms = int(time.time() * 1000)
        self._ends: dict[int, tuple[int, int]] | None = None  # for each partition: the next letter, the end
        self._done: dict[int, ReplayedOffsets] = {}
        self._resume: dict[int, int | None] = {}
        self._totals: Counter[str] = Counter()
        self._counts: dict[str, Counter[str]] = {}
        self._samples: list[Mapping[str, Any]] = []

    @property
    def running(self) -> bool:
        """Whether the replay has not ended."""
        return self._state == "RUNNING"

    def next_range(self, cluster: KafkaCluster, committed: Committed) -> LetterRange | None:
        """Returns the next range, or None if the replay is done. Raises ConnectError if Kafka does not return the
        queue's offsets, and QueueRecreatedError.
        """
        if self._ends is None:
            self._plan(cluster, committed)
        room = (self._order.limit or _NO_LIMIT) - self._totals["chosen"]
        for partition, (at, end) in (self._ends or {}).items():
            if at < end and room:
                return LetterRange(
                    self._queue, partition, at, min(end, at + STEP), self._order, self._done[partition], room,
                    SAMPLES - len(self._samples) if self._order.dry_run else 0, self._resume[partition],
                )
        self._state = "DONE"
        totals, dry = self._totals, self._order.dry_run
        _logger.info("Replay of dead letters for %s finished%s: %s of %s read, %d %s, %d refused again, "
                     "%d excluded by the filter, %d not replayable", self._connector, " (dry run)" if dry else "",
                     counted(totals["scanned"], "letter"), self._queue, totals["chosen"],
                     "would be replayed" if dry else "replayed", totals["refused"], totals["left"], totals["foreign"])
        return None

    def _plan(self, cluster: KafkaCluster, committed: Committed) -> None:
        order, queue, ends = self._order, self._queue, dict[int, tuple[int, int]]()
        try:
            places = [(queue, p) for p in cluster.partitions(queue, timeout_ms=_TIMEOUT_MS)
                      if order.partition in (None, p)]
        except UnknownTopicError:
            places = []
        first = cluster.offsets(places, "earliest", timeout_ms=_TIMEOUT_MS)
        last = cluster.offsets(places, "latest", "read_committed", timeout_ms=_TIMEOUT_MS)
        for place in places:
            partition = place[1]
            done = ReplayedOffsets.of(*(committed(place) or (0, "")))
            if done.low > last[place]:
                _logger.warning("Dead letters of %s were replayed up to offset %d of %s-%d, but its log ends before "
                                "offset %d: the queue was created again, so all of its letters are new",
                                self._connector, done.low - 1, *place, last[place])
                done = ReplayedOffsets()
            # Deleted letters count as replayed.
            done = done.after(0, first[place], np.empty(0, np.int64))
            self._done[partition] = done
            self._resume[partition] = None
            if self._resume_from is not None:
                self._resume[partition] = _resume(self._resume_from(*place) or 0, place, last[place])
            ends[partition] = max(first[place], done.low, order.first_offset), min(last[place], order.end_offset)
        self._ends = ends

    def add_result(self, part: LetterRange, result: ReplayCounts, refused: Refused) -> None:
        """Adds the result of a range whose records and offsets are committed."""
        if self._ends is None:
            return
        self._ends[part.partition] = result.next_offset, self._ends[part.partition][1]
        self._done[part.partition] = result.done
        for name in ("scanned", "chosen", "left", "foreign", "held"):
            self._totals[name] += getattr(result, name)
        self._totals["refused"] += refused.count
        for name, counts in result.kinds.items():
            counter = self._counts.setdefault(name, Counter())
            for kind, count in counts.items():
                count_kind(counter, kind, count)
        self._samples += result.samples

    def fail(self, error: Exception) -> None:
        """Ends the replay with an error. Committed ranges stay replayed, and the task continues."""
        self._state, self._error = "FAILED", f"{type(error).__name__}: {error}"
        _logger.warning("Replay of dead letters for %s failed: %s", self._connector, self._error)

    def status(self) -> dict[str, Any]:
        """Returns the state of the replay as a JSON object of the REST API."""
        totals = self._totals
        dry = self._order.dry_run
        return {
            "connector": self._connector, "queue": self._queue, "dry_run": dry, "state": self._state,
            "error": self._error, "started_at": self._begun_ms, "scanned": totals["scanned"],
            "replayed": 0 if dry else totals["chosen"], "would_replay": totals["chosen"] if dry else 0,
            "refused_again": totals["refused"], "left": totals["left"], "not_replayable": totals["foreign"],
            "held_by_the_sink": totals["held"], "by_topic": dict(self._counts.get("topic", {})),
            "by_stage": dict(self._counts.get("stage", {})), "by_exception": dict(self._counts.get("error_class", {})),
            "partitions": [{"partition": p, "position": at, "end": max(at, end)}
                           for p, (at, end) in (self._ends or {}).items()],
            "samples": list(self._samples),
        }


def _resume(offset: int, place: TopicPartition, end: int) -> int:
    if offset > end:
        queue, partition = place
        raise QueueRecreatedError(
            f"the sink holds {queue}-{partition} up to offset {offset - 1}, but its log ends before offset {end}: the "
            "dead letter queue was created again, or lost letters. Remove what the sink holds of this topic, or have "
            "the connector write to another place, then replay again"
        )
    return offset


def _check(errors: ErrorHandling, order: ReplayOrder, resume_from: ResumeFrom | None) -> None:
    if not errors.tolerant:
        raise ConfigError(
            "errors.tolerance is none: the record of a dead letter fails the task, which then reads it again "
            "anyway. Set errors.tolerance to all to replay the dead letters of skipped records"
        )
    if resume_from is not None and not order.in_order:
        raise ConfigError(
            "this sink stores its offset in each partition, so its dead letters have to be replayed in order: use only "
            "limit and, in the filter, partition and last_offset; a dry run allows every filter"
        )
