"""Reports splits that have been running for long, with the stacks of their processes, and batches that have been
waiting for a process for long, with the reason.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from spark_tasks.spark.executor import ExecutorTracebackError
from spark_tasks.spark.residents.fairness import subject_of
from spark_tasks.spark.residents.pool import Pool
from spark_tasks.spark.residents.process import Resident
from spark_tasks.spark.residents.stack_reader import read_stacks

_logger = logging.getLogger(__name__)

Hangs = Callable[[str, str], None]  # the task, and what is wrong
_MAX_HOLDERS = 5  # tasks that are named in a report


class HangReports:
    """`slow_s`: the time after which something is reported; 0: never. `stacks`: the folder to which processes write
    their stacks. `hangs` is called with what is also logged.
    """

    def __init__(self, pool: Pool, slow_s: float, lock: threading.Condition, stacks: Path, hangs: Hangs) -> None:
        self._pool = pool
        self._slow_s = slow_s
        self._lock = lock
        self._stacks = stacks
        self._hangs = hangs

    def report(self) -> None:
        """Reports what is due. Does not wait for stacks."""
        if not self._slow_s:
            return
        now = time.monotonic()
        with self._lock:
            slow = [r for r in self._pool.processes.residents.values() if self._is_slow(r, now)]
        for resident in slow:
            threading.Thread(target=self._report_slow, args=(resident,), name="executors-stack", daemon=True).start()
        self._report_waiting(now)

    def _is_slow(self, resident: Resident, now: float) -> bool:
        """Whether to report it: after the configured time, and each time the duration has doubled since."""
        due = self._slow_s if not resident.slow_at else 2 * (resident.slow_at - resident.since)
        if resident.item is None or now - resident.since < due:
            return False
        resident.slow_at = now
        return True

    def _report_slow(self, resident: Resident) -> None:
        item = resident.item
        if item is None:
            return
        seconds = time.monotonic() - resident.since
        where, stack = read_stacks(resident, self._stacks)
        text = f"A split of {item.batch.task} has been running for {seconds:.0f} s. {where}"
        _logger.warning("%s", text, exc_info=ExecutorTracebackError(stack) if stack else None,
                        extra={"heeler_about": subject_of(item.batch.task)})
        self._hangs(item.batch.task, f"{text}\n{stack}" if stack else text)

    def where(self, batch: Future[list[Any]]) -> str | None:
        """The stacks of the processes that run splits of a batch now; None if none does. Takes seconds."""
        with self._lock:
            residents = self._pool.processes.residents.values()
            busy = [r for r in residents if r.item is not None and r.item.batch.future is batch]
        return "\n".join(map(self.stacks_of, busy)) or None

    def stacks_of(self, resident: Resident) -> str:
        """The stacks of a process, or why there are none. Takes seconds."""
        return "\n".join(filter(None, read_stacks(resident, self._stacks)))

    def degraded(self) -> list[str]:
        """Tasks with a split that has been running, or a batch that has been waiting, for longer than `slow_s`."""
        slow_s, now = self._slow_s, time.monotonic()
        if not slow_s:
            return []
        with self._lock:
            busy = [r for r in self._pool.processes.residents.values() if r.item is not None]
            running = {r.item.batch.task: r.since for r in sorted(busy, key=lambda r: -r.since) if r.item is not None}
            waiting = {b.task: b.submitted_at for b in self._pool.batches.values() if not b.begun}
        return [
            *(f"{t}: a split has been running for {now - at:.0f} s" for t, at in running.items() if now - at > slow_s),
            *(f"{t}: a batch has been waiting for an executor process for {now - at:.0f} s"
              for t, at in waiting.items() if now - at > slow_s),
        ]

    def _report_waiting(self, now: float) -> None:
        """Reports batches that have been waiting for a process for long."""
        with self._lock:
            late = [
                batch for batch in self._pool.batches.values()
                if not batch.begun and now - max(batch.submitted_at, batch.logged_at) > self._slow_s
            ]
            for batch in late:
                batch.logged_at = now
            residents = self._pool.processes.residents.values()
            busy = sorted((r for r in residents if r.item is not None), key=lambda r: r.since)
            holders = ", ".join(f"{r.item.batch.task} for {now - r.since:.0f} s" for r in busy[:_MAX_HOLDERS] if r.item)
            why = self._why_they_wait()
        for batch in late:
            seconds = now - batch.submitted_at
            text = (f"A batch of {batch.task} has been waiting for an executor process for {seconds:.0f} s. {why}. "
                    f"Running for the longest time: {holders or 'nothing'}")
            _logger.warning("%s", text, extra={"heeler_about": subject_of(batch.task)})
            self._hangs(batch.task, text)

    def _why_they_wait(self) -> str:
        """The caller holds the lock."""
        processes = self._pool.processes
        if processes.starting:
            return "Processes are being started"
        if self._pool.launchers.full and all(resident.bound_at for resident in processes.idle):
            reserved = " or reserved for other connectors" if processes.idle else ""
            return f"All executor processes (heeler.executors.max) are busy{reserved}"
        if self._pool.queue.room_to_linger() <= 0:
            return ("Connectors with long splits already use all the processes that they may use; the remaining ones "
                    "(heeler.executors.max) are reserved for others")
        if min(self._pool.room) <= 0:
            return "As many splits are running as may run at a time (heeler.executors.running.max)"
        if processes.idle:
            return "The connector already uses as many processes as one connector may use (of heeler.executors.max)"
        return "No process is idle"
