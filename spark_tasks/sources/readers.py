"""A common interface to the two kinds of PySpark stream readers."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import StructType

from spark_tasks.plugins.api import TransactionSignal
from spark_tasks.sources.boundaries import BoundaryKind, signal_of
from spark_tasks.sources.delivery import Delivery
from spark_tasks.sources.split import SourceSplit
from spark_tasks.sources.stream_offsets import (
    CommittedOffsets,
    SourceOffsets,
    StreamOffset,
    from_connect,
    plain,
    to_connect,
)
from spark_tasks.tasks.data_sources import pickled, schema_of, stream_reader_of
from spark_tasks.tasks.pace import SplitSize

_FIRST_RECORD_BYTES = 80.0  # the estimate before the first batch
_EACH_BATCH = frozenset({"to_source_offsets", "commit", "transaction"})
_NO_COMMITS = (DataSourceStreamReader.commit, SimpleDataSourceStreamReader.commit)
_FIRST_ROWS = 10_000  # in the first batch of a reader that limits rows, whose size is unknown


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The next batch. `end`: its end offset, or None for a simple reader, whose `read` in the executor returns it.
    `partitions`: the InputPartitions to read, pickled. `start`: a simple reader's start offset, pickled.
    """

    end: StreamOffset | None
    partitions: tuple[bytes, ...] = ()
    start: bytes | None = None

    @classmethod
    def simple(cls, start: StreamOffset) -> BatchPlan:
        """Returns the plan of a simple reader's batch."""
        return cls(None, start=pickle.dumps(start))


@dataclass(frozen=True, slots=True)
class ReaderFacts:
    """`pickled`: the reader as executors get it; `defines`: which of the methods of _EACH_BATCH it has."""

    schema: StructType
    simple: bool
    pickled: bytes
    defines: frozenset[str]


class StreamReader:
    """The DataSourceStreamReader or SimpleDataSourceStreamReader of a data source. `simple`: it is the latter."""

    def __init__(self, source: Any) -> None:
        self.schema = schema_of(source)
        self.reader, self.simple = stream_reader_of(source, self.schema)
        takes_limit = not self.simple and bool(inspect.signature(self.reader.latestOffset).parameters)
        self._default: ReadLimit | None = self.reader.getDefaultReadLimit() if takes_limit else None

    def facts(self) -> ReaderFacts:
        """What a task has to know of the reader. Raises ConnectError if it cannot be pickled."""
        defines = {name for name in _EACH_BATCH if hasattr(self.reader, name)}
        if getattr(getattr(self.reader, "commit", None), "__func__", None) in _NO_COMMITS:
            defines.discard("commit")
        return ReaderFacts(self.schema, self.simple, pickled(self.reader), frozenset(defines))

    def position(self, task: int, committed: CommittedOffsets) -> StreamOffset:
        """Returns the stream offset that the committed offsets stand for; the initial one without any."""
        return from_connect(self.reader, task, committed)

    def offsets(self, task: int, end: StreamOffset) -> SourceOffsets:
        """Returns the offsets to commit after a batch."""
        return to_connect(self.reader, task, end)

    def signal(self, kind: BoundaryKind, start: StreamOffset, end: StreamOffset) -> TransactionSignal:
        """Returns whether the transaction ends with a batch, see signal_of."""
        return signal_of(self.reader, kind, start, end)

    def plan(self, start: StreamOffset, size: SplitSize, try_here: bool = False) -> BatchPlan | None:
        """Returns the plan of the batch from `start`, or None if there are no new records.

        A simple reader reads in the executor, which finds out whether there are new records. With `try_here`, it reads
        here first (as PySpark always does), so that an idle task submits no batches.
        """
        if self.simple:
            if try_here and plain(self.reader, self.reader.read(plain(self.reader, start))[1]) == start:
                return None
            return BatchPlan.simple(start)
        if self._default is None:
            latest = self.reader.latestOffset()
        else:
            latest = self.reader.latestOffset(plain(self.reader, start), _limited(self._default, size))
        if latest is None or latest == start or (end := plain(self.reader, latest)) == start:
            return None
        partitions = tuple(pickled(partition) for partition in self.reader.partitions(start, end))
        return BatchPlan(end, partitions)

    def commit(self, end: StreamOffset) -> None:
        """Calls the reader's `commit`: all records up to `end` are in Kafka, and their offsets are committed."""
        self.reader.commit(end)

    def stop(self) -> None:
        """Stops the reader."""
        stop = getattr(self.reader, "stop", None)  # simple readers do not have this method
        if stop is not None:
            stop()


def _limited(default: ReadLimit, size: SplitSize) -> ReadLimit:
    """Returns the reader's limit, reduced to the size for a batch."""
    if isinstance(default, ReadMaxBytes):
        record_bytes = size.record_bytes or _FIRST_RECORD_BYTES
        return ReadMaxBytes(min(default.max_bytes, int(size.records * record_bytes)))
    if isinstance(default, ReadMaxRows):
        return ReadMaxRows(min(default.max_rows, size.records if size.record_bytes else _FIRST_ROWS))
    return default if not isinstance(default, ReadAllAvailable) else ReadAllAvailable()


def splits_of(plan: BatchPlan, job: bytes, delivery: Delivery, seconds: float) -> list[SourceSplit]:
    """Returns the splits of a batch, one for each lane. `job`: a pickled SourceJob; `seconds`: see SourceSplit."""
    if plan.start is not None:
        (lane,) = delivery.lanes(1)
        return [SourceSplit(job, lane, start=plan.start)]
    by_lane = distribute(plan.partitions, delivery.max_lanes) if plan.partitions else []
    lanes = delivery.lanes(len(by_lane))
    return [SourceSplit(job, lane, partitions, expected_seconds=seconds, numbers=(first, len(lanes)))
            for first, (lane, partitions) in enumerate(zip(lanes, by_lane, strict=True))]


def distribute(partitions: Sequence[bytes], lanes: int) -> list[tuple[bytes, ...]]:
    """Distributes partitions to at most `lanes` lanes, as evenly as possible. The partitions of a lane keep their
    order.
    """
    count = max(1, min(lanes, len(partitions)))
    return [tuple(partitions[number::count]) for number in range(count)]
