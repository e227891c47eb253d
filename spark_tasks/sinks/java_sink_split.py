"""The part of a Java sink's chain that heeler runs: splits whose writer hands the records back to the worker."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter

from spark_tasks.pipeline.handover import JavaSinkPipeline
from spark_tasks.plugins.cut import Cut
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.split import SinkJob
from spark_tasks.task import TaskContext
from spark_tasks.tasks.data_sources import pickled


class ReturningWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Its message has all that it was given: batches of CUT_SCHEMA (data/cut.py)."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """The batches."""
        return list(iterator)


def java_sink_job(context: TaskContext, settings: SinkSettings, cut: Cut) -> bytes:
    """The pickled SinkJob of a task. ConfigError, PluginNotFoundError."""
    pipeline = JavaSinkPipeline(context.worker.converters, cut.for_far(context.connector), cut.converted)
    _ = pipeline.stages  # an invalid converter or transform fails here, not in the first batch
    return pickle.dumps(SinkJob(
        settings.client, settings.isolation, "records", pipeline, pickled(ReturningWriter()),
        context.worker.max_record_bytes, settings.errors))
