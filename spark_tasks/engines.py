"""Creates a worker's engine: processes of its own, or Spark jobs. This module is fast to import, because the engine
starts before the rest of the data plane.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_tasks.spark.batch_engine import SparkEngine
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.spark.residents.hang_reports import Hangs
from spark_tasks.spark.residents.settings import BATCH, ExecutorSettings

AnyEngine = SparkEngine | ResidentEngine


def engine_of(
    spark: Mapping[str, str], settings: ExecutorSettings, hangs: Hangs = lambda _task, _text: None
) -> AnyEngine:
    """Returns the engine for heeler.executors.mode, not started. `spark`: the worker's properties for Spark; `hangs`:
    see ResidentEngine. Raises ConfigError.
    """
    if settings.mode == BATCH:
        return SparkEngine(spark, settings.max_result_bytes, settings.slow_s)
    return ResidentEngine(spark, settings, hangs)
