"""Which engine a worker has."""

from __future__ import annotations

from spark_tasks.engines import engine_of
from spark_tasks.spark.batch_engine import SparkEngine
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.spark.residents.settings import ExecutorSettings


def test_the_engine_follows_heeler_executors_mode():
    assert isinstance(engine_of({}, ExecutorSettings()), ResidentEngine)
    assert isinstance(engine_of({}, ExecutorSettings(mode="resident")), ResidentEngine)
    assert isinstance(engine_of({}, ExecutorSettings(mode="batch")), SparkEngine)
