"""The Spark job that starts an executor process: it has one partition, and runs until the process ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from spark_tasks.spark.executor import refuse_second_attempt
from spark_tasks.spark.residents.executor_loop import serve
from spark_tasks.spark.residents.wire import Ticket


class ExecutorJob:
    """The function of the job, whose process joins the worker with a ticket."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket

    def __call__(self, _index: int, rows: Iterable[Any]) -> Iterator[bytes]:
        """Serves the worker until it ends the process. The result is empty; so is `rows`, which must be consumed."""
        from pyspark import TaskContext  # noqa: PLC0415 - local processes do not need it

        for _ in rows:
            pass
        refuse_second_attempt(TaskContext.get())
        self.run(self._ticket)
        yield b""

    def run(self, ticket: Ticket) -> None:
        """Joins the worker, and runs splits. Raises OSError."""
        serve(ticket)
