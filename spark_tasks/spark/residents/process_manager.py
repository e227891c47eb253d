"""Starts a worker's executor processes on demand, and ends them when it stops."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable

from spark_tasks.backoff import doubled
from spark_tasks.process.rate_limited_log import RateLimitedLog
from spark_tasks.spark.context import SparkLostError
from spark_tasks.spark.residents.binding import Choice
from spark_tasks.spark.residents.fairness import Demand
from spark_tasks.spark.residents.launch_queue import LaunchQueue
from spark_tasks.spark.residents.launchers import Launchers
from spark_tasks.spark.residents.listener import Line
from spark_tasks.spark.residents.process import Expects, Launcher, Resident
from spark_tasks.spark.residents.process_table import ProcessTable

_logger = logging.getLogger(__name__)

BACKOFF_S = 0.2  # doubled with each successive process that did not join
MAX_BACKOFF_S = 5.0
LATE_S = 1.0  # Spark's daemon forks a process within a tenth of this
GIVE_UP = 4  # after this many successive failures, waiting splits fail; their tasks repeat the batch and log the reason


class ProcessManager:
    """`serve` is called in a thread of its own for each process that has joined, until that has ended. `given_up` is
    called if no process can be started, and `died` when one has not started.

    Some methods require that the caller holds `lock`, as their docstrings say.
    """

    def __init__(
        self, processes: ProcessTable, launchers: Launchers, listener: Expects, lock: threading.Condition, *,
        serve: Callable[[Resident, Line], None], given_up: Callable[[Exception], None], died: Callable[[], None],
    ) -> None:
        self._processes = processes
        self._launchers = launchers
        self._lock = lock
        self._serve = serve
        self._given_up = given_up
        self._died = died
        self._log = RateLimitedLog()
        self._launches = LaunchQueue(listener, lock, self.never_joined)
        self._stand_in_launches = LaunchQueue(listener, lock, self.never_joined)
        self._numbers = itertools.count(1)
        self._failures = 0
        self._launch_after = 0.0

    def use(self, launcher: Launcher | None, stand_in: Launcher | None = None) -> None:
        """Starts further processes with this launcher; with None, starts none. The processes of the previous launcher
        end when the first new one has joined, or when their split has ended; until then, they are replaced if they end.
        `stand_in` also starts processes later, whenever one of the launcher takes longer than LATE_S to join, and until
        one has. The caller holds the lock.
        """
        self._launchers.use(launcher, stand_in)
        self._failures, self._launch_after = 0, 0.0
        if launcher is None:
            self._retire_former()

    def _retire_former(self) -> None:
        former = self._launchers.hand_over()
        for resident in [r for r in self._processes.idle if not self._launchers.kept(r)]:
            self._processes.end_idle(resident)
        for resident in [r for r in self._processes.starting if not self._launchers.kept(r)]:
            self._processes.withdraw(resident)
        for launcher in former:
            launcher.close()

    def has_spare(self, count: int) -> bool:
        """Whether so many are idle, for any connector, and no others have to be started. The caller holds the lock."""
        launchers = self._launchers
        return not launchers.former and sum(
            r.launcher is launchers.current and not r.bound_at for r in self._processes.idle) >= count

    def grow(self, wanted: int) -> None:
        """Starts processes until `wanted` are idle, for any connector, or will be. The caller holds the lock."""
        launchers = self._launchers
        if launchers.current is None:
            return
        if not self._pauses:
            self._grow(launchers.current, wanted)
            if launchers.former:  # the first new process has not joined; Spark may be slow
                self._grow(launchers.former[-1], wanted)
        if launchers.stand_in is not None and not launchers.former:
            late = self._failures > 0 or launchers.late(time.monotonic() - LATE_S)
            launchers.standing_in = launchers.standing_in or late
            if launchers.standing_in:
                self._grow(launchers.stand_in, wanted)

    def _grow(self, launcher: Launcher, wanted: int) -> None:
        processes = self._processes
        available = sum(
            1 for r in (*processes.idle, *processes.starting) if r.launcher is launcher and not r.bound_at)
        for _ in range(min(wanted - available, self._launchers.room(launcher))):
            resident = Resident(self.next_number(), launcher)
            processes.residents[resident.number] = resident
            (self._stand_in_launches if launcher is self._launchers.stand_in else self._launches).put(resident)

    @property
    def _pauses(self) -> bool:
        return time.monotonic() < self._launch_after

    def next_number(self) -> int:
        """A number that no other process has."""
        return next(self._numbers)

    def make_room(self, choice: Choice[Resident], waiting: Iterable[Demand]) -> None:
        """Ends idle processes that are bound to a connector if other connectors wait, no more may be started, and those
        that have ended can be replaced. The caller holds the lock.
        """
        current = self._launchers.current
        if current is None or self._pauses or not self._launchers.full or current.max_processes <= 0:
            return
        for resident in choice.to_evict(waiting, time.monotonic()):
            self._log.log(_logger, logging.WARNING, "Ending an executor process reserved for connector %s, because "
                          "other connectors are waiting and no more may be started. If this happens often, increase "
                          "heeler.executors.max or Spark's slots", resident.connector, about=resident.connector)
            self._processes.end_idle(resident)

    def never_joined(self, resident: Resident, why: str) -> None:
        """A process could not be started; after a pause, another one is."""
        with self._lock:
            if resident.number not in self._processes.residents or resident.line is not None:
                return
            self._processes.withdraw(resident)
            if resident.launcher is self._launchers.stand_in or self._pauses:  # others have failed, before the pause
                _logger.debug("An executor process did not start: %s", why)
                return
            self._failures += 1
            alone = not any(r.line is not None for r in self._processes.residents.values())
            given_up = alone and self._failures >= GIVE_UP
            pause = doubled(BACKOFF_S, self._failures, MAX_BACKOFF_S)
            self._launch_after = time.monotonic() + pause
        _logger.warning("An executor process did not start (next attempt in %.1f s): %s", pause, why)
        self._died()
        if given_up:
            self._given_up(SparkLostError(f"no executor process could be started: {why}"))

    def joined(self, number: int, line: Line) -> None:
        """Called by the listener: the process with this number has joined."""
        with self._lock:
            resident = self._processes.residents.get(number)
            if resident is None or resident.line is not None:
                line.close()
                return
            thread = threading.Thread(
                target=self._serve, args=(resident, line), name=f"executor-{number}", daemon=True)
            try:
                thread.start()  # with the lock held: `close` may join it at once
            except RuntimeError as error:  # too many threads
                _logger.warning("An executor process cannot be used: %s", error)
                self._processes.withdraw(resident)
                line.close()
                return
            resident.line, resident.thread = line, thread
            self._failures = 0
            if resident.launcher is self._launchers.current:
                self._retire_former()

    def close(self, timeout_s: float) -> None:
        """Ends idle processes and waits for that; kills the others. No more are started."""
        processes = self._processes
        with self._lock:
            launchers = self._launchers.close()
            joined = [r for r in processes.residents.values() if r.thread is not None]
            for resident in list(processes.idle):
                processes.end_idle(resident)
            for resident in processes.starting:
                processes.withdraw(resident)
            processes.kill(list(processes.residents.values()))
        for launches in (self._launches, self._stand_in_launches):
            launches.close()
        for launcher in launchers:
            launcher.close()
        deadline = time.monotonic() + timeout_s
        for resident in joined:
            if resident.thread is not None:
                resident.thread.join(max(0.0, deadline - time.monotonic()))
