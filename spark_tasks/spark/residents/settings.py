"""The worker's settings for executor processes (heeler.executors.*)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

MODE = "heeler.executors.mode"
RESIDENT, BATCH = "resident", "batch"
MAX_PROCESSES = 64
IDLE_MS = 60_000
SLOW_MS = 60_000
# A split waits for Kafka about half of the time, and a short one should not wait for the long ones of other tasks.
RUNNING_PER_CPU = 2


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """`max_processes`: the maximum number of processes; `running`: of splits that use the CPU at the same time (splits
    that wait for something else do not count).
    """

    max_processes: int = MAX_PROCESSES
    running: int = 4
    idle_s: float = IDLE_MS / 1000
    slow_s: float = SLOW_MS / 1000
    port: int = 0
    spark_delay_s: float = 0.0
    spare: int = 1

    @classmethod
    def of(cls, worker: Mapping[str, str]) -> ExecutorSettings:
        """From a worker's properties, which have been validated."""
        max_processes = max(1, int(worker.get("heeler.executors.max", MAX_PROCESSES)))
        return cls(
            max_processes=max_processes,
            running=max(1, min(max_processes, int(worker.get("heeler.executors.running.max") or default_running()))),
            idle_s=int(worker.get("heeler.executors.idle.ms", IDLE_MS)) / 1000,
            slow_s=int(worker.get("heeler.executors.slow.ms", SLOW_MS)) / 1000,
            port=int(worker.get("heeler.executors.port", 0)),
            spark_delay_s=int(worker.get("heeler.spark.start.delay.ms", 0)) / 1000,
        )

    @property
    def max_per_task(self) -> int:
        """How many splits of a task may run at the same time."""
        return self.running

    @property
    def max_per_connector(self) -> int:
        """How many splits of a connector may run at the same time: fewer than there are processes."""
        return max(1, self.max_processes * 3 // 4)


def default_running() -> int:
    """Two for each CPU."""
    return max(2, os.cpu_count() or 2) * RUNNING_PER_CPU
