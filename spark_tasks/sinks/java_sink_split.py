"""The part of a Java sink's pipeline that heeler runs: splits whose writer returns the records to the worker."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter

from spark_tasks.pipeline.handover import JavaSinkPipeline
from spark_tasks.plugins.chain_cut import Cut
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.split import SinkJob
from spark_tasks.task import TaskContext
from spark_tasks.tasks.data_sources import pickled

BATCH_BYTES: Final = 8 << 20  # of records that a split returns, and in a batch: they are held by the worker


class ReturningWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """A writer whose commit message is the list of the batches (CUT_SCHEMA, data/host_records.py)."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """Returns the batches."""
        return list(iterator)


def java_sink_job(context: TaskContext, settings: SinkSettings, cut: Cut) -> bytes:
    """Returns the pickled SinkJob of a task. Raises ConfigError and PluginNotFoundError."""
    pipeline = JavaSinkPipeline(context.worker.converters, cut.for_far(context.connector), cut.converted)
    _ = pipeline.stages  # an invalid converter or transform fails here, not in the first batch
    return pickle.dumps(SinkJob(
        settings.client, settings.isolation, "records", pipeline, pickled(ReturningWriter()),
        context.worker.max_record_bytes, settings.errors, BATCH_BYTES))
