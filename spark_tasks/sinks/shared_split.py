"""The executor's part of a batch that several tasks of a connector share: their ranges, decoded and converted together.

Most of the cost of a small split does not depend on its number of records. So the ranges of several partitions are
decoded and converted in one pass. Then each is written by its own task's writer; or all in one call, if the writer is a
MultiPartitionWriter.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from spark_tasks.kafka.records.decode import Piece, decode_together
from spark_tasks.kafka.records.errors import CorruptRecordsError, OversizedRecordError
from spark_tasks.metrics.blocked_time import blocked_clock
from spark_tasks.metrics.phases import measured, phase
from spark_tasks.metrics.plugins import counting
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.sinks.split import ConvertedRange, SinkResult, SinkSplit, unpacked
from spark_tasks.sinks.writes import write_together

_logger = logging.getLogger(__name__)

_LONG_S: Final = 0.01  # for a split: only then it may have been blocked for long


class SharedSplit(NamedTuple):
    """Splits of tasks with the same pipeline, whose records have been fetched (`held`). Each has its own result:
    the error of one does not affect the others.
    """

    splits: tuple[SinkSplit, ...]

    def run(self) -> list[SinkResult]:
        """Returns the results of the splits, in order."""
        of_topic: dict[str, list[int]] = defaultdict(list)
        for at, split in enumerate(self.splits):
            of_topic[split.topic].append(at)
        results: dict[int, SinkResult] = {}
        blocked = _BlockedTime()
        for places in of_topic.values():
            results |= zip(places, _results([self.splits[at] for at in places], blocked), strict=True)
        return [results[at] for at in range(len(self.splits))]


@dataclass(frozen=True, slots=True)
class _Together:
    """The converted records of several splits of a topic. `counts`: of each split. `size` and `connect_size`: the mean
    bytes of a record before and after the conversion, since those of a slice take long to find.
    """

    connect: pa.RecordBatch
    counts: Sequence[int]
    size: float
    connect_size: float

    def cut(self) -> list[ConvertedRange]:
        """Returns the records of each split."""
        begin, found = 0, []
        for count in self.counts:
            part = self.connect.slice(begin, count)
            found.append(ConvertedRange(part, count, int(self.size * count), int(self.connect_size * count)))
            begin += count
        return found


class _BlockedTime:
    """Measures how long splits were blocked, one after the other."""

    def __init__(self) -> None:
        self._at = blocked_clock()

    def of(self, seconds: float) -> float:
        """Returns how long the split that has just ended was blocked. `seconds`: its duration; short ones count as 0,
        since it takes long to look.
        """
        if seconds <= _LONG_S:
            return 0.0
        before, self._at = self._at, blocked_clock()
        return self._at - before


def _results(splits: Sequence[SinkSplit], blocked: _BlockedTime) -> list[SinkResult]:
    """Returns the results of splits of one topic."""
    with measured() as watch:
        together = _converted(splits)
    shared = _parts(watch.seconds, len(splits))
    if together is not None and (written := _written(splits, together, shared, blocked)) is not None:
        return written
    results = []
    for split, converted in zip(splits, [None] * len(splits) if together is None else together.cut(), strict=True):
        result = split.run(converted, shared)
        results.append(result._replace(blocked=blocked.of(result.seconds)))
    return results


def _converted(splits: Sequence[SinkSplit]) -> _Together | None:
    """Returns the records of the splits, or None if these have to be read apart."""
    job = unpacked(splits[0].job)
    pipeline = job.pipeline
    if not isinstance(pipeline, SinkPipeline):
        return None
    try:
        with phase("decode"):
            decoded = decode_together(
                [Piece(split.held, split.start, split.end) for split in splits], job.max_record_bytes)
    except (CorruptRecordsError, OversizedRecordError):
        return None  # the split with this record reports it
    if decoded is None:
        return None
    raw, counts = decoded
    partitions = np.repeat(np.array([split.partition for split in splits], np.int32), counts)
    connect = pipeline.to_connect_together(splits[0].topic, partitions, raw)
    if connect is None:
        return None
    rows = max(len(raw), 1)
    # Nothing is sliced, so these are the sizes; nbytes takes a hundred times as long, a tenth of a small split.
    sizes = raw.get_total_buffer_size(), connect.get_total_buffer_size()
    return _Together(connect, counts, sizes[0] / rows, sizes[1] / rows)


def _written(
    splits: Sequence[SinkSplit], together: _Together, shared: Mapping[str, float], blocked: _BlockedTime
) -> list[SinkResult] | None:
    """Writes all records in one call and returns the results. Returns None if they have to be written apart: by other
    writers, or because the call failed, so that each split has its own error.
    """
    jobs, count = [unpacked(split.job) for split in splits], len(splits)
    job = jobs[0]
    # Not the whole jobs: each has the number of its task.
    if any((other.writer, other.accepts) != (job.writer, job.accepts) for other in jobs):
        return None
    try:
        with measured() as watch, counting() as plugins, phase("write"):
            written = write_together(job.writer, job.accepts, together.connect)
    except Exception as error:  # noqa: BLE001 - plugin code
        _logger.debug("A write of %d splits failed; each is repeated: %s", count, error)
        return None
    if written is None:
        return None
    seconds = {**shared, **_parts(watch.seconds, count)}
    total, figures = sum(seconds.values()), plugins.counted()
    blocked_s, results = blocked.of(watch.seconds["write"]), []
    for split, records in zip(splits, together.counts, strict=True):
        size, connect_size = int(together.size * records), int(together.connect_size * records)
        results.append(SinkResult(
            split.topic, split.partition, split.end, records, size, total, written,
            figures=SplitFigures(records, size, records, connect_size, seconds, figures), blocked=blocked_s,
        ))
        figures = None  # count once
    return results


def _parts(seconds: Mapping[str, float], count: int) -> dict[str, float]:
    return {name: each / count for name, each in seconds.items()}
