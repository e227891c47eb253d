"""Starts executor processes through Spark: each is a Spark job with one task, which runs until the process ends."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from typing_extensions import override

from spark_tasks.spark.context import SparkJobs
from spark_tasks.spark.residents.executor_job import ExecutorJob
from spark_tasks.spark.residents.fork_server import ForkServerJob
from spark_tasks.spark.residents.process import Launcher
from spark_tasks.spark.residents.settings import ExecutorSettings
from spark_tasks.spark.residents.wire import Ticket

_logger = logging.getLogger(__name__)

_FEW = 4  # slots
_LACKING = re.compile(r"Cannot run program|No module named|PYTHON_VERSION_MISMATCH|different version")
# They log a Java stack several times for each process that is killed. Errors in a plugin's own Spark jobs are raised
# where the jobs were started.
_NOISY = tuple(f"org.apache.spark.{name}" for name in (
    "executor.Executor", "scheduler.TaskSetManager", "scheduler.TaskSchedulerImpl"))


def room(slots: int, running: int) -> int:
    """How many of the slots executor processes may occupy; the others are for Spark jobs of plugins."""
    return slots - min(running, slots // _FEW) if slots >= _FEW else slots


class SparkLauncher(Launcher):
    """Starts processes as Spark jobs that run until the process ends."""

    def __init__(self, spark: SparkJobs, settings: ExecutorSettings) -> None:
        self._spark = spark
        self._running = settings.running
        self._processes = settings.max_processes
        self._lock = threading.Lock()
        self._jobs: dict[int, Any] = {}
        self._closed = False
        self._local = spark.master.slots
        spark.quiet(_NOISY)
        if self._local is not None and room(self._slots, self._running) == self._slots:
            _logger.warning("Spark has %d slots, which executor processes may occupy completely: Spark jobs of plugins "
                            "then never start. If plugins use Spark jobs, give Spark at least %d slots",
                            self._slots, _FEW)

    @property
    def _slots(self) -> int:
        return self._local or self._spark.slots  # the number changes in a cluster

    @property
    def has_other_slots(self) -> bool:
        """Whether Spark has a slot that processes do not need."""
        return self._slots > self._processes + self._running

    @property
    @override
    def max_processes(self) -> int:
        return 0 if self._closed else room(self._slots, self._running)

    @override
    def launch(self, ticket: Ticket) -> None:
        """Raises Spark's errors."""
        label = f"executor {ticket.number}"
        job = self._spark.begin(f"executor-{ticket.number}", label, ExecutorJob(ticket))
        with self._lock:
            self._jobs[ticket.number] = job
            for number in [n for n, job in self._jobs.items() if n < ticket.number - 2 * self._slots and job.isDone()]:
                del self._jobs[number]

    def launch_fork_server(self, ticket: Ticket) -> Callable[[], str | None]:
        """Starts a fork server. Returns a function that returns why its job has ended, or None. Raises Spark's
        errors.
        """
        job = self._spark.begin(f"executor-{ticket.number}", f"fork server {ticket.number}", ForkServerJob(ticket))
        return partial(self._spark.failure, job)

    @override
    def failure(self, number: int) -> str | None:
        with self._lock:
            job = self._jobs.get(number)
        why = None if job is None else self._spark.failure(job)
        return why if why is None or self._local is not None else advised(why, self._spark.python)

    @override
    def close(self) -> None:
        """The jobs end with their processes, or with Spark."""
        self._closed = True


def advised(why: str, python: str) -> str:
    """Why an executor process of a cluster did not start, with advice if its machine lacks something."""
    if _LACKING.search(why) is None:
        return why
    return (f"{why.rstrip('.')}. Every machine of the Spark cluster needs the same heeler as this worker, in a Python "
            f"{sys.version_info.major}.{sys.version_info.minor} that is {python} there, or where spark.pyspark.python "
            "says (docs/spark-cluster.md)")
