"""The worker's settings for executor processes (heeler.executors.*)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from spark_tasks.spark.executor import MAX_RESULT_BYTES
from spark_tasks.spark.residents.fairness import Limits

MODE = "heeler.executors.mode"
RESIDENT, BATCH = "resident", "batch"
MAX_PROCESSES = 64
IDLE_MS = 60_000
SLOW_MS = 60_000
# A split waits for Kafka about half of the time, and a short one should not wait for the long ones of other tasks.
RUNNING_PER_CPU = 2


def default_running() -> int:
    """Two for each CPU."""
    return max(2, os.cpu_count() or 2) * RUNNING_PER_CPU


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """`mode`: RESIDENT or BATCH, for which only `slow_s` and `max_result_bytes` apply. `slow_s`: the time after which a
    split is reported; 0: never. `max_result_bytes`: the maximum size of a split's result.
    `max_processes`: the maximum number of processes; `running`: of splits that use the CPU at the same time (those that
    wait for something else or run for long do not count).
    `spark_delay_s`: how long after the first batch a local Spark is started; None: when the executors are quiet.
    """

    max_processes: int = MAX_PROCESSES
    running: int = field(default_factory=default_running)
    idle_s: float = IDLE_MS / 1000
    slow_s: float = SLOW_MS / 1000
    port: int = 0
    spark_delay_s: float | None = None
    spare: int = 1
    mode: str = RESIDENT
    max_result_bytes: int = MAX_RESULT_BYTES

    @property
    def max_answer_bytes(self) -> int:
        """The maximum size of what a process answers: it reports larger results as errors."""
        return self.max_result_bytes + (4 << 20)

    def limits(self, processes: int) -> Limits:
        """The limits of the queue if there may be so many processes."""
        most = self.max_per_connector(processes)
        return Limits(min(self.running, most), most, self.max_lingering(processes))

    def max_per_connector(self, processes: int) -> int:
        """How many splits of a connector may run at the same time if there may be so many processes: fewer."""
        return max(1, min(self.max_processes, processes) * 3 // 4)

    def max_lingering(self, processes: int) -> int:
        """How many splits of connectors that hold processes for long may run at the same time if there may be so many
        processes: fewer, if there are eight or more.
        """
        most = min(self.max_processes, processes)
        return most - min(self.running, most // 8)
