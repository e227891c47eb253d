"""The two kinds of PySpark stream readers behind one interface for the source runner."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from spark_tasks.sources.stream_offsets import StreamOffset, plain
from spark_tasks.tasks.data_sources import pickled, schema_of, stream_reader_of
from spark_tasks.tasks.pace import SplitSize

_GUESSED_RECORD_BYTES = 80.0
_FIRST_ROWS = 10_000  # the first batch of a reader that limits rows, which may be large


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The next batch: its end (None if only the executor will know it) and the partitions to read, pickled."""

    end: StreamOffset | None
    partitions: tuple[bytes, ...] = ()
    start: bytes | None = None


class StreamReader:
    """A DataSourceStreamReader or SimpleDataSourceStreamReader of a data source."""

    def __init__(self, source: Any) -> None:
        self.schema = schema_of(source)
        self.reader, self.simple = stream_reader_of(source, self.schema)
        takes_limit = not self.simple and bool(inspect.signature(self.reader.latestOffset).parameters)
        self._default: ReadLimit | None = self.reader.getDefaultReadLimit() if takes_limit else None

    def plan(self, start: StreamOffset, size: SplitSize, *, idle: bool = False) -> BatchPlan | None:
        """The batch from `start` on; None if there is nothing new. Planning happens on the worker, so it must be quick.
        For a simple reader the executor finds out whether there is anything; with `idle` the reader is asked here first
        (as PySpark always does), so that an idle task costs no Spark job.
        """
        if self.simple:
            if idle and plain(self.reader, self.reader.read(plain(self.reader, start))[1]) == start:
                return None
            return BatchPlan(None, start=pickle.dumps(start))
        if self._default is None:
            latest = self.reader.latestOffset()
        else:
            latest = self.reader.latestOffset(plain(self.reader, start), _limited(self._default, size))
        if latest is None or latest == start or (end := plain(self.reader, latest)) == start:
            return None
        partitions = tuple(pickled(partition) for partition in self.reader.partitions(start, end))
        return BatchPlan(end, partitions)

    def commit(self, end: StreamOffset) -> None:
        """Tell the reader that everything up to `end` is in Kafka and its offsets are written."""
        self.reader.commit(end)

    def stop(self) -> None:
        """Stop the reader."""
        stop = getattr(self.reader, "stop", None)  # simple readers have none
        if stop is not None:
            stop()


def _limited(default: ReadLimit, size: SplitSize) -> ReadLimit:
    """The reader's limit, reduced if a batch would take too long."""
    if isinstance(default, ReadMaxBytes):
        known = size.record_bytes or _GUESSED_RECORD_BYTES
        return ReadMaxBytes(min(default.max_bytes, int(size.records * known)))
    if isinstance(default, ReadMaxRows):
        return ReadMaxRows(min(default.max_rows, size.records if size.record_bytes else _FIRST_ROWS))
    return default if not isinstance(default, ReadAllAvailable) else ReadAllAvailable()


def deal(partitions: Sequence[bytes], lanes: int) -> list[tuple[bytes, ...]]:
    """Distribute partitions to lanes, one each while there are enough lanes. A lane's partitions keep their order."""
    count = max(1, min(lanes, len(partitions)))
    return [tuple(partitions[number::count]) for number in range(count)]
