"""The settings of Spark, and the error of an executor in Spark's."""

from __future__ import annotations

from spark_tasks.spark.context import python_error, spark_settings


def test_a_local_spark_has_slots_for_all_processes_and_an_unchanged_parallelism():
    usual = spark_settings({})["spark.master"]
    found = spark_settings({}, 69)
    assert found["spark.master"] == "local[69]"
    assert f"local[{found['spark.default.parallelism']}]" == usual
    own = spark_settings({"spark.master": "local[2]"}, 69)
    assert (own["spark.master"], "spark.default.parallelism" in own) == ("local[2]", False)


def test_the_python_error_of_an_executor_is_extracted_from_sparks_error():
    text = """An error occurred while calling o1.get.
: java.util.concurrent.ExecutionException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
ModuleNotFoundError: No module named 'spark_tasks'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
"""
    assert python_error(RuntimeError(text)) == "ModuleNotFoundError: No module named 'spark_tasks'"
    assert python_error(RuntimeError("no traceback\njava.lang.OutOfMemoryError: heap")) is None
