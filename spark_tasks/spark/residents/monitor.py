"""The timer of the checks of executor processes: those that wait, hang, have been idle for long, or never joined.

Questions to Spark run in the background: while its JVM is suspended, processes that hang are still reported, and
others replaced.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from spark_tasks.process.process_state import cpu_use
from spark_tasks.spark.residents.background_call import BackgroundCall
from spark_tasks.spark.residents.fairness import Use
from spark_tasks.spark.residents.hang_reports import HangReports
from spark_tasks.spark.residents.pool import Pool
from spark_tasks.spark.residents.process import Launcher, Resident
from spark_tasks.spark.residents.process_upkeep import ProcessUpkeep

_logger = logging.getLogger(__name__)

TICK_S = 0.5
QUICK_S = 0.05  # while splits wait: running ones may turn out to use no CPU
STARTING_S = 2.0  # before Spark is asked why a process has not joined


class Monitor:
    """The thread of the checks. `beat` is called at each turn, and must not wait."""

    def __init__(
        self, pool: Pool, upkeep: ProcessUpkeep, reports: HangReports, lock: threading.Condition,
        beat: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._upkeep = upkeep
        self._reports = reports
        self._lock = lock
        self._beat = beat
        self._stop = threading.Event()
        self._checked = 0.0
        self._asking: WeakKeyDictionary[Launcher, BackgroundCall] = WeakKeyDictionary()
        threading.Thread(target=self._run, name="executors-monitor", daemon=True).start()

    def close(self) -> None:
        """Stops after the current turn."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(QUICK_S if self._pressed else TICK_S):
            try:
                self._turn()
            except Exception:  # the other processes must still be monitored
                _logger.exception("Monitoring the executor processes failed")

    @property
    def _pressed(self) -> bool:
        with self._lock:
            return bool(len(self._pool.queue)) and min(self._pool.room) <= 0

    def _turn(self) -> None:
        with self._lock:
            self._measure_cpu()
            self._pool.limit()
            self._pool.dispatch()
        now = time.monotonic()
        if now - self._checked < TICK_S:
            return
        self._checked = now
        self._beat()
        self._pool.exchange.settle_overdue()
        with self._lock:
            self._pool.processes.kill_dead_idle()
            self._upkeep.replace_suspended(now)
            self._upkeep.end_idle(now)
            starting = [r for r in self._pool.processes.starting if now - r.since > STARTING_S]
        self._ask_about(starting)
        self._reports.report()

    def _measure_cpu(self) -> None:
        """Finds splits that do not count as running (see Resident.measure; on other machines none counts: there the
        cores of the cluster limit how many run), and tells the queue of those that use the CPU, or hold their process,
        for long; they may never end. The caller holds the lock.
        """
        now = time.monotonic()
        for resident in self._pool.processes.residents.values():
            if resident.item is None:
                continue
            if resident.line is not None and now - resident.since >= QUICK_S:
                pid = resident.line.pid
                resident.measure(now, cpu_use(pid) if pid else None)
            self._pool.queue.look(resident.item, Use(resident.used_s, now - resident.since))

    def _ask_about(self, starting: list[Resident]) -> None:
        """Asks launchers, in the background, about processes that take long to join."""
        for launcher in {r.launcher for r in starting}:
            asking = self._asking.setdefault(launcher, BackgroundCall("executors-starting", self._find_failed))
            asking.begin([r for r in starting if r.launcher is launcher])

    def _find_failed(self, starting: list[Resident]) -> None:
        """Finds processes that will never join."""
        for resident in starting:
            if (why := resident.launcher.failure(resident.number)) is not None:
                self._pool.manager.never_joined(resident, why)
