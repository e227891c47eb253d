"""PySpark's TaskContext for readers and writers. Many of them name files and batches by its ids. An executor process
runs many splits in one Spark task, or in none before Spark is up, so its own context cannot tell them apart.
"""

from __future__ import annotations

import uuid

from pyspark import TaskContext


class as_spark_task:  # noqa: N801 - used as a function
    """A context manager in whose block TaskContext.get() returns the context of a Spark task of its own: with the
    number of the partition in its batch, and an attempt id that no other block has, in any process.
    """

    def __init__(self, partition: int = 0) -> None:
        self._partition = partition

    def __enter__(self) -> None:
        self._outer = TaskContext.get()
        TaskContext._setTaskContext(None)  # noqa: SLF001 - or the next line would return the outer context
        TaskContext(
            partitionId=self._partition, taskAttemptId=uuid.uuid4().int >> 65, attemptNumber=0, stageId=0, cpus=1,
            localProperties={}, resources={},
        )

    def __exit__(self, *_: object) -> None:
        TaskContext._setTaskContext(self._outer)  # noqa: SLF001
