"""Ends executor processes that nobody needs any more, and replaces suspended ones."""

from __future__ import annotations

import logging
import time

from spark_tasks.process.process_state import is_suspended
from spark_tasks.spark.residents.binding import to_retire
from spark_tasks.spark.residents.fairness import subject_of
from spark_tasks.spark.residents.process_table import ProcessTable

_logger = logging.getLogger(__name__)

SUSPENDED_S = 3.0  # a process that is suspended for longer while it runs a split is replaced


class ProcessUpkeep:
    """`spare`: how many idle processes are kept. `idle_s`: how long a process may be idle. The caller of each method
    holds the lock; `now` is the time (time.monotonic).
    """

    def __init__(self, processes: ProcessTable, spare: int, idle_s: float) -> None:
        self._processes = processes
        self._spare = spare
        self._idle_s = idle_s
        self._counted = time.monotonic()

    def replace_suspended(self, now: float) -> None:
        """Kills processes that somebody has suspended: idle ones at once, before they get a split."""
        found = []
        for resident in self._processes.residents.values():
            if resident.line is None or not resident.line.pid or not is_suspended(resident.line.pid):
                resident.suspended_at = 0.0
                continue
            resident.suspended_at = resident.suspended_at or now
            idle = resident.item is None and not resident.owner
            if idle or now - resident.suspended_at > SUSPENDED_S:
                found.append(resident)
        for resident in found:
            task = resident.owner if resident.item is None else resident.item.batch.task
            _logger.warning("Replacing %s, which is suspended (SIGSTOP)",
                            f"the executor process of {task}" if task else "an idle executor process",
                            extra={"heeler_about": subject_of(task) if task else None})
        self._processes.kill(found, "was suspended (SIGSTOP) and has been killed")

    def end_idle(self, now: float) -> None:
        """Ends those that nobody has used for long; and, if each is used now and then because each connector prefers
        its own, those above the number that was used at a time, but none that is bound to its connector.
        """
        processes, spare = self._processes, self._spare
        for resident in to_retire([(r, now - r.since) for r in processes.idle], spare, self._idle_s):
            processes.end_idle(resident)
        if now - self._counted > self._idle_s:
            shared = [r for r in processes.idle if not r.bound_at]
            bound = sum(1 for r in processes.residents.values() if r.bound_at)
            surplus = len(processes.residents) - bound - processes.most_busy - spare - 1
            for resident in shared[:max(0, surplus)]:
                processes.end_idle(resident)
            self._counted, processes.most_busy = now, len(processes.residents) - len(processes.idle)
