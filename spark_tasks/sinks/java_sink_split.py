"""The part of a Java sink's pipeline that heeler runs: splits whose writer returns the records to the worker."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter
from typing_extensions import override

from spark_tasks.pipeline.handover import JavaSinkPipeline
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.plugins.chain_cut import Cut, with_converters
from spark_tasks.plugins.kinds import PluginNotFoundError
from spark_tasks.plugins.origin import kafka_partition
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.split import SinkJob
from spark_tasks.task import TaskContext
from spark_tasks.tasks.data_sources import pickled

BATCH_BYTES: Final = 8 << 20  # of records that a split returns, and in a batch: they are held by the worker


class ReturningWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """A writer whose commit message is the list of the batches (CUT_SCHEMA, data/host_records.py)."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """Returns the batches."""
        return [_alone(batch) for batch in iterator]


def _alone(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch without the rest of the batch of which it is a piece, which would be sent with it."""
    return batch if batch.get_total_buffer_size() <= batch.nbytes else batch.take(pa.array(range(len(batch))))


class PlacedWriter(ReturningWriter):
    """As ReturningWriter, but the message is a pair of topic and partition of the records in Kafka, and the batches."""

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """Returns the pair."""
        return kafka_partition(), super().write(iterator)


class _ReplayPipeline(JavaSinkPipeline):
    """Marks replayed records with a header that the connector's header converter can read, wherever that runs."""

    def __init__(self, worker: Mapping[str, str], connector: Mapping[str, str], cut: Cut) -> None:
        super().__init__(worker, cut.for_far(connector), cut.converted)
        only_headers = Cut(converted=frozenset({"header"}))
        self._marking = SinkPipeline(worker, only_headers.for_far(with_converters(connector, worker)))

    @override
    def header_of(self, topic: str, name: str, text: str) -> bytes | None:
        try:
            return self._marking.header_of(topic, name, text)
        except PluginNotFoundError:  # it is in a jar, and may read no text
            return None


def java_sink_job(context: TaskContext, settings: SinkSettings, cut: Cut) -> bytes:
    """Returns the pickled SinkJob of a task. Raises ConfigError and PluginNotFoundError."""
    pipeline = JavaSinkPipeline(context.worker.converters, cut.for_far(context.connector), cut.converted)
    return _pickled_job(context, settings, pipeline, ReturningWriter())


def java_replay_job(context: TaskContext, settings: SinkSettings, cut: Cut | None) -> bytes:
    """As java_sink_job, for the ReplaySplits of a task. Without a `cut`, the host converts keys and values."""
    pipeline = _ReplayPipeline(context.worker.converters, context.connector, cut or Cut())
    return _pickled_job(context, settings, pipeline, PlacedWriter())


def _pickled_job(
    context: TaskContext, settings: SinkSettings, pipeline: JavaSinkPipeline, writer: ReturningWriter
) -> bytes:
    _ = pipeline.stages  # an invalid converter or transform fails here, not in the first batch
    return pickle.dumps(SinkJob(
        settings.client, settings.isolation, "records", pipeline, pickled(writer), context.worker.max_record_bytes,
        settings.errors, BATCH_BYTES))
