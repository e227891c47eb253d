"""Checks executor processes periodically: those that wait, hang, have been idle for long, or never joined.

Questions to Spark run in the background: while its JVM is suspended, processes that hang are still reported, and
others replaced.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from spark_tasks.process.process_state import cpu_use, handles_signal, is_suspended, why_signal_is_ignored
from spark_tasks.spark.executor import ExecutorTracebackError
from spark_tasks.spark.residents.background_call import BackgroundCall
from spark_tasks.spark.residents.binding import to_retire
from spark_tasks.spark.residents.fairness import Use, subject_of
from spark_tasks.spark.residents.link import STACK_SIGNAL
from spark_tasks.spark.residents.listener import Line
from spark_tasks.spark.residents.pool import Pool
from spark_tasks.spark.residents.process import Launcher, Resident
from spark_tasks.spark.residents.settings import ExecutorSettings

_logger = logging.getLogger(__name__)

Hangs = Callable[[str, str], None]  # the task, and what is wrong
TICK_S = 0.5
QUICK_S = 0.05  # while splits wait: running ones may turn out to use no CPU
SUSPENDED_S = 3.0  # a process that is suspended for longer while it runs a split is replaced
STARTING_S = 2.0  # before Spark is asked why a process has not joined
STACK_S = 2.0  # how long a process may take to write its stacks
_MAX_STACK = 8_000  # characters of stacks that are reported


class Monitor:
    """The thread of the checks. `beat` is called at each turn, and must not wait; `stacks` is the folder to which
    processes write their stacks; `hangs` is called with what is also logged.
    """

    def __init__(
        self, pool: Pool, settings: ExecutorSettings, lock: threading.Condition, stacks: Path, beat: Callable[[], None],
        hangs: Hangs,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._lock = lock
        self._stacks = stacks
        self._beat = beat
        self._hangs = hangs
        self._stop = threading.Event()
        self._looked = 0.0
        self._counted = time.monotonic()
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
            self._find_exempt()
            self._find_long()
            self._pool.limit()
            self._pool.dispatch()
        if time.monotonic() - self._looked < TICK_S:
            return
        self._looked = time.monotonic()
        self._beat()
        self._pool.processes.cut_off()
        with self._lock:
            self._pool.processes.find_dead()
            self._replace_suspended()
            self._end_idle()
            starting = [r for r in self._pool.processes.starting if self._looked - r.since > STARTING_S]
            slow = [r for r in self._pool.processes.residents.values() if self._is_slow(r)]
        for launcher in {r.launcher for r in starting}:
            asking = self._asking.setdefault(launcher, BackgroundCall("executors-starting", self._find_failed))
            asking.begin([r for r in starting if r.launcher is launcher])
        for resident in slow:
            threading.Thread(target=self._report_slow, args=(resident,), name="executors-stack", daemon=True).start()
        self._report_waiting()

    def _find_failed(self, starting: list[Resident]) -> None:
        """Finds processes that will never join."""
        for resident in starting:
            if (why := resident.launcher.failure(resident.number)) is not None:
                self._pool.processes.never_joined(resident, why)

    def _find_exempt(self) -> None:
        """Finds splits that do not count as running: see Resident.measure. On other machines none counts: there the
        cores of the cluster limit how many run.
        """
        now = time.monotonic()
        for resident in self._pool.processes.residents.values():
            if resident.item is not None and resident.line is not None and now - resident.since >= QUICK_S:
                pid = resident.line.pid
                resident.measure(now, cpu_use(pid) if pid else None)

    def _find_long(self) -> None:
        """Tells the queue of splits that use the CPU, or hold their process, for long; they may never end."""
        now = time.monotonic()
        for resident in self._pool.processes.residents.values():
            if resident.item is not None:
                self._pool.queue.look(resident.item, Use(resident.used_s, now - resident.since))

    def _replace_suspended(self) -> None:
        """Kills processes that somebody has suspended: idle ones at once, before they get a split. The caller holds the
        lock.
        """
        found = []
        for resident in self._pool.processes.residents.values():
            if resident.line is None or not resident.line.pid or not is_suspended(resident.line.pid):
                resident.suspended_at = 0.0
                continue
            resident.suspended_at = resident.suspended_at or self._looked
            if resident.item is None or self._looked - resident.suspended_at > SUSPENDED_S:
                found.append(resident)
        for resident in found:
            task = ("an idle executor process" if resident.item is None
                    else f"the executor process of {resident.item.batch.task}")
            about = None if resident.item is None else subject_of(resident.item.batch.task)
            _logger.warning("Replacing %s, which is suspended (SIGSTOP)", task, extra={"heeler_about": about})
        self._pool.processes.kill(found, "was suspended (SIGSTOP) and has been killed")

    def _end_idle(self) -> None:
        """Ends those that nobody has used for long; and, if each is used now and then because each connector prefers
        its own, those above the number that was used at a time, but none that is bound to its connector. The caller
        holds the lock.
        """
        processes, spare, idle_s = self._pool.processes, self._settings.spare, self._settings.idle_s
        for resident in to_retire([(r, self._looked - r.since) for r in processes.idle], spare, idle_s):
            processes.end_idle(resident)
        if self._looked - self._counted > idle_s:
            shared = [r for r in processes.idle if not r.bound_at]
            bound = sum(1 for r in processes.residents.values() if r.bound_at)
            surplus = len(processes.residents) - bound - processes.most_busy - spare - 1
            for resident in shared[:max(0, surplus)]:
                processes.end_idle(resident)
            self._counted, processes.most_busy = self._looked, len(processes.residents) - len(processes.idle)

    def _is_slow(self, resident: Resident) -> bool:
        """Whether to report it: after the configured time, and each time the duration has doubled since."""
        due = self._settings.slow_s if not resident.slow_at else 2 * (resident.slow_at - resident.since)
        if not self._settings.slow_s or resident.item is None or self._looked - resident.since < due:
            return False
        resident.slow_at = self._looked
        return True

    def _report_slow(self, resident: Resident) -> None:
        item = resident.item
        if item is None:
            return
        seconds = time.monotonic() - resident.since
        where, stack = self._where(resident)
        text = f"A split of {item.batch.task} has been running for {seconds:.0f} s. {where}"
        _logger.warning("%s", text, exc_info=ExecutorTracebackError(stack) if stack else None,
                        extra={"heeler_about": subject_of(item.batch.task)})
        self._hangs(item.batch.task, f"{text}\n{stack}" if stack else text)

    def where(self, batch: Future[list[Any]]) -> str | None:
        """The stacks of the processes that run splits of a batch now; None if none does. Takes seconds."""
        with self._lock:
            residents = self._pool.processes.residents.values()
            busy = [r for r in residents if r.item is not None and r.item.batch.future is batch]
        return "\n".join("\n".join(filter(None, self._where(resident))) for resident in busy) or None

    def _where(self, resident: Resident) -> tuple[str, str]:
        """A description, and the stacks if they are available."""
        line = resident.line
        if line is None or not line.pid:
            return "The log of its Spark executor shows the stack", ""
        silent = f"Its process {line.pid} writes no stack: "
        if not handles_signal(line.pid, STACK_SIGNAL):  # without a handler, the signal would kill it
            return silent + why_signal_is_ignored(line.pid, STACK_SIGNAL), ""
        file = self._stacks / str(resident.number)
        try:
            before = file.stat().st_size
            _signal(line)
        except OSError:
            return "Its process has just ended", ""
        deadline = time.monotonic() + STACK_S
        size = before
        while time.monotonic() < deadline:  # until it has grown and stops growing
            self._stop.wait(QUICK_S)
            now = file.stat().st_size if file.exists() else before
            if now > before and now == size:
                break
            size = now
        if size == before:
            return silent + why_signal_is_ignored(line.pid, STACK_SIGNAL), ""
        with file.open("rb") as found:
            found.seek(before)
            text = found.read(_MAX_STACK).decode(errors="replace")
        return f"The stack of its process {line.pid}:", text.rstrip()

    def degraded(self) -> list[str]:
        """Tasks with a split that has been running, or a batch that has been waiting, for longer than `slow_s`."""
        slow_s, now = self._settings.slow_s, time.monotonic()
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

    def _report_waiting(self) -> None:
        """Reports batches that have been waiting for a process for long."""
        if not self._settings.slow_s:
            return
        with self._lock:
            processes = self._pool.processes
            late = [
                batch for batch in self._pool.batches.values()
                if not batch.begun and self._looked - max(batch.submitted_at, batch.logged_at) > self._settings.slow_s
            ]
            for batch in late:
                batch.logged_at = self._looked
            busy = sorted((r for r in processes.residents.values() if r.item is not None), key=lambda r: r.since)
            holders = ", ".join(f"{r.item.batch.task} for {self._looked - r.since:.0f} s" for r in busy[:5] if r.item)
            why = self._why_they_wait()
        for batch in late:
            seconds = self._looked - batch.submitted_at
            text = (f"A batch of {batch.task} has been waiting for an executor process for {seconds:.0f} s. {why}. "
                    f"Running for the longest time: {holders or 'nothing'}")
            _logger.warning("%s", text, extra={"heeler_about": subject_of(batch.task)})
            self._hangs(batch.task, text)

    def _why_they_wait(self) -> str:
        """The caller holds the lock."""
        processes = self._pool.processes
        if processes.starting:
            return "Processes are being started"
        if processes.launchers.full and all(resident.bound_at for resident in processes.idle):
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


def _signal(line: Line) -> None:
    """Signals this process, and no later one with its id: while its connection is open, it lives. Raises OSError."""
    if not hasattr(os, "pidfd_open"):
        os.kill(line.pid, STACK_SIGNAL)
        return
    process = os.pidfd_open(line.pid)
    try:
        if not line.ended:
            signal.pidfd_send_signal(process, STACK_SIGNAL)
    finally:
        os.close(process)
