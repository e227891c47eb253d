"""PySpark's TaskContext for readers and writers. Many of them name files and batches by its ids. An executor process
runs many splits in one Spark task, or in none before Spark is up, so its own context cannot tell them apart.
"""

from __future__ import annotations

import os

from pyspark import TaskContext


class as_spark_task:  # noqa: N801 - used as a function
    """A context manager in whose block TaskContext.get() returns the context of a Spark task of its own: with the
    number of the partition in its batch, and an attempt id that no other block has, in any process.
    """

    def __init__(self, partition: int = 0) -> None:
        self._partition = partition

    def __enter__(self) -> None:
        self._outer = TaskContext.get()
        TaskContext._setTaskContext(_context(self._partition))  # noqa: SLF001

    def __exit__(self, *_: object) -> None:
        TaskContext._setTaskContext(self._outer)  # noqa: SLF001


def _context(partition: int) -> TaskContext:
    """Made for each call of a writer, also for the thousands that search for bad records. PySpark's constructor takes
    several times as long, and returns the outer context.
    """
    context = object.__new__(TaskContext)
    context._partitionId = partition
    context._taskAttemptId = int.from_bytes(os.urandom(8), "big") >> 1
    context._attemptNumber = context._stageId = 0
    context._cpus = 1
    context._localProperties, context._resources = {}, {}
    return context
