"""Runs a connector's tasks in this process, one batch after the other, without Kafka and Spark (`heeler run`).

A source's records are passed to a callback; a sink writes the records that it is given. The caller stores the offsets,
as pairs of Kafka Connect's source partition and source offset.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from spark_tasks.data.rows import write_batches
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.plugins.api import SinkConnector, SourceConnector
from spark_tasks.plugins.spark_task import as_spark_task
from spark_tasks.sinks.writes import as_rows
from spark_tasks.sources.split import as_batches, read_simple
from spark_tasks.sources.stream_offsets import CommittedOffsets, StreamOffset, from_connect, to_connect
from spark_tasks.tasks.data_sources import data_source_of, pickled, writer_of
from spark_tasks.tasks.pace import SplitSize
from spark_tasks.trial import rows_of, shown, streams_of

Emit = Callable[[dict[str, Any]], None]
Save = Callable[[list[tuple[Any, Any]]], None]
"""Called with all offsets known so far, after all records of a batch have been emitted."""


class ForegroundSource:
    """All tasks of a source connector. `offsets` are those of an earlier run, from which the tasks continue."""

    def __init__(
        self, connector: type[SourceConnector], worker: Mapping[str, str], config: Mapping[str, str],
        offsets: CommittedOffsets,
    ) -> None:
        self._pipeline = SourcePipeline(worker, config, rows=connector.yields == "rows")
        _ = self._pipeline.stages  # raises if the configuration of a transform or converter is invalid
        self._streams = streams_of(connector, config)
        self._known = {_key(partition): (partition, offset) for partition, offset in offsets}
        self._positions: list[StreamOffset] = [
            from_connect(stream.reader, task, list(self._known.values())) for task, stream in enumerate(self._streams)]

    def run_once(self, emit: Emit, save: Save) -> int:
        """Reads a batch of each task, and returns the number of records. Raises the errors of the plugin and the
        pipeline; the next call then reads the same batch again.
        """
        count = 0
        for task, stream in enumerate(self._streams):
            start = self._positions[task]
            rows: Iterable[Any]
            if stream.simple:
                rows, end = read_simple(stream.reader, start)
            else:
                plan = stream.plan(start, SplitSize())
                if plan is None or plan.end is None:
                    continue
                rows, end = rows_of(stream.reader, plan.partitions), plan.end
            for batch in as_batches(rows, stream.schema):
                for topic, _, raw in self._pipeline.to_raw(batch):
                    for record in shown([raw.drop_columns(["offset"])]):
                        emit({"topic": topic, **record})
                        count += 1
            if end == start:
                continue
            self._positions[task] = end
            for partition, offset in to_connect(stream.reader, task, end):
                if offset is None:
                    self._known.pop(_key(partition), None)
                else:
                    self._known[_key(partition)] = (partition, offset)
            save(list(self._known.values()))
            stream.commit(end)
        return count

    def close(self) -> None:
        """Stops the readers."""
        for stream in self._streams:
            stream.stop()


class ForegroundSink:
    """One task of a sink connector."""

    def __init__(self, connector: type[SinkConnector], worker: Mapping[str, str], config: Mapping[str, str]) -> None:
        self._connector = connector
        self._pipeline = SinkPipeline(worker, config)
        _ = self._pipeline.stages  # as above
        self._writer = writer_of(data_source_of(connector, dict(config)))

    def write(self, raws: Sequence[tuple[str, int, pa.RecordBatch]]) -> None:
        """Writes and commits `raws`: tuples of topic, partition and a batch of RAW_SCHEMA. On an error, calls the
        writer's `abort` and raises the error again.
        """
        batches: Iterator[pa.RecordBatch] = itertools.chain.from_iterable(
            self._pipeline.to_connect_batches(topic, partition, raw) for topic, partition, raw in raws)
        if self._connector.accepts == "rows":
            batches = map(as_rows, batches)
        messages: list[Any] = []
        try:
            with as_spark_task():
                messages.append(write_batches(cloudpickle.loads(pickled(self._writer)), batches))
            self._writer.commit(messages)
        except Exception:
            self._writer.abort(messages or [None])
            raise


def _key(partition: Any) -> str:
    return json.dumps(partition, sort_keys=True)
