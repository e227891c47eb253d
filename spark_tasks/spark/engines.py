"""Chooses a worker's engine. This module is fast to import, because the engine starts before the rest of the data
plane.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_tasks.spark.engine import SparkEngine
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.spark.residents.monitor import Hangs
from spark_tasks.spark.residents.settings import BATCH, MODE

AnyEngine = SparkEngine | ResidentEngine


def engine_of(worker: Mapping[str, str], hangs: Hangs = lambda _task, _text: None) -> AnyEngine:
    """Returns the engine for heeler.executors.mode, not started. `hangs`: see ResidentEngine. Raises ConfigError."""
    return SparkEngine(worker) if worker.get(MODE) == BATCH else ResidentEngine(worker, hangs)
