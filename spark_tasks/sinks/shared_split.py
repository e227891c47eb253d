"""The executor's part of a batch that several tasks of a connector share: their ranges, decoded and converted together.

Most of what a split of a few records takes does not depend on their number. So the ranges of several partitions are
decoded and converted in one pass; then each is written by its own task's writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from spark_tasks.kafka.records.decode import Piece, decode_together
from spark_tasks.kafka.records.errors import CorruptRecordsError, OversizedRecordError, UnsupportedFormatError
from spark_tasks.metrics.blocked_time import blocked_clock
from spark_tasks.metrics.phases import measured, phase
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.sinks.split import ConvertedRange, SinkResult, SinkSplit, unpacked

_LONG_S: Final = 0.01  # for a split: only then it may have been blocked for long


@dataclass(frozen=True, slots=True)
class SharedSplit:
    """Splits of tasks with the same pipeline, whose records have been fetched (`held`). Each has a result of its own:
    the error of one does not affect the others.
    """

    splits: tuple[SinkSplit, ...]

    def run(self) -> list[SinkResult]:
        """Returns the results of the splits, in order."""
        with measured() as watch:
            converted = _converted(self.splits)
        each = {name: seconds / len(self.splits) for name, seconds in watch.seconds.items()}
        blocked, results = blocked_clock(), []
        for split, done in zip(self.splits, converted, strict=True):
            result = split.run(done, each)
            if result.seconds > _LONG_S:
                before, blocked = blocked, blocked_clock()
                result = replace(result, blocked=blocked - before)
            results.append(result)
        return results


def _converted(splits: Sequence[SinkSplit]) -> list[ConvertedRange | None]:
    """Returns the converted records of each split, or None for those that have to be read apart."""
    found: list[ConvertedRange | None] = [None] * len(splits)
    of_topic: dict[str, list[int]] = defaultdict(list)
    for at, split in enumerate(splits):
        of_topic[split.topic].append(at)
    for topic, places in of_topic.items():
        for at, done in zip(places, _of_topic(topic, [splits[at] for at in places]), strict=False):
            found[at] = done
    return found


def _of_topic(topic: str, splits: Sequence[SinkSplit]) -> list[ConvertedRange]:
    job = unpacked(splits[0].job)
    pipeline = job.pipeline
    if not isinstance(pipeline, SinkPipeline):
        return []
    try:
        with phase("decode"):
            decoded = decode_together(
                [Piece(split.held, split.start, split.end) for split in splits], job.max_record_bytes)
    except (CorruptRecordsError, OversizedRecordError, UnsupportedFormatError):
        decoded = None  # the split with this record reports it
    if decoded is None:
        return []
    raw, counts = decoded
    partitions = np.repeat(np.array([split.partition for split in splits], np.int32), counts)
    connect = pipeline.to_connect_together(topic, partitions, raw)
    return [] if connect is None else _cut(raw, connect, counts)


def _cut(raw: pa.RecordBatch, connect: pa.RecordBatch, counts: Sequence[int]) -> list[ConvertedRange]:
    begin, found, rows = 0, [], max(len(raw), 1)
    before, after = raw.nbytes / rows, connect.nbytes / rows  # on average: for each slice that would take long
    for count in counts:
        found.append(ConvertedRange(connect.slice(begin, count), count, int(before * count), int(after * count)))
        begin += count
    return found
