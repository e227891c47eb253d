"""A worker's executor processes: which there are, which of them are idle, and how each of them leaves."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from spark_tasks.process.process_state import has_ended
from spark_tasks.spark.residents.batches import Item
from spark_tasks.spark.residents.binding import best_for
from spark_tasks.spark.residents.exit_description import describe_end
from spark_tasks.spark.residents.fairness import subject_of
from spark_tasks.spark.residents.process import Expects, Resident

_logger = logging.getLogger(__name__)

DEATH_S = 5.0  # how long it may take until the end of a killed process is noticed


class ProcessTable:
    """`died` is called when a process has ended unexpectedly. The caller of each method and property holds the lock."""

    def __init__(self, listener: Expects, died: Callable[[], None]) -> None:
        self.residents: dict[int, Resident] = {}
        self.idle: list[Resident] = []  # the one used last is the last one
        self.most_busy = 0  # how many were in use at a time; its reader resets it
        self._listener = listener
        self._died = died
        self._dying: dict[Resident, float] = {}

    @property
    def starting(self) -> list[Resident]:
        """The processes that have not joined yet."""
        return [r for r in self.residents.values() if r.line is None]

    @property
    def running(self) -> list[Item]:
        """The splits that are running and count."""
        return [r.item for r in self.residents.values() if r.item is not None and not r.exempt]

    def take(self, connector: str) -> Resident:
        """Takes the idle process that suits this connector best; one must suit."""
        resident = best_for(connector, self.idle)
        assert resident is not None  # noqa: S101 - the pool has taken a split for one of them
        self.idle.remove(resident)
        self.most_busy = max(self.most_busy, len(self.residents) - len(self.idle))
        return resident

    @property
    def owned(self) -> int:
        """How many processes belong to tasks. They count, but are neither idle nor running."""
        return sum(bool(resident.owner) for resident in self.residents.values())

    def give_up(self, resident: Resident, *, kill: bool) -> None:
        """Kills a process that belongs to a task, or asks it to end, unless that has been done."""
        if not resident.removed:
            if kill:
                self.kill([resident])
            else:
                self._ask_to_end(resident)

    def withdraw(self, resident: Resident) -> None:
        """No longer expects a process that has not joined."""
        resident.removed = True
        self.residents.pop(resident.number, None)
        self._listener.forget(resident.number)

    def end_idle(self, resident: Resident) -> None:
        """Ends an idle process."""
        self.idle.remove(resident)
        self._ask_to_end(resident)

    def _ask_to_end(self, resident: Resident) -> None:
        resident.removed = True
        del self.residents[resident.number]
        if resident.line is not None:
            resident.line.ask_to_end()
        resident.inbox.put(None)

    def kill(self, residents: Iterable[Resident], why: str = "was killed by the worker") -> None:
        """Kills processes and the splits that they run."""
        for resident in residents:
            resident.removed, resident.killed = True, resident.killed or why
            self.residents.pop(resident.number, None)
            if resident in self.idle:
                self.idle.remove(resident)
            if resident.item is None:  # its thread waits
                resident.inbox.put(None)
            if resident.line is not None:
                resident.line.kill()
                self._dying[resident] = time.monotonic() + DEATH_S

    def kill_dead_idle(self) -> None:
        """Finds idle processes that have ended or closed their connection, and those that belong to tasks and have
        ended.
        """
        dead = [(r, r.line) for r in self.idle if r.line is not None and r.line.ended]
        dead += [(r, r.line) for r in self.residents.values()
                 if r.owner and r.line is not None and r.line.pid and has_ended(r.line.pid, 0.0)]
        for resident, line in dead:
            self.report_end(resident, describe_end(line.pid, 0.0))
        if dead:
            self.kill([resident for resident, _ in dead])
            self._died()

    def report_end(self, resident: Resident, how: str) -> None:
        """Logs how a process has ended that runs no split of a batch."""
        _logger.warning("%s %s", resident.name, how,
                        extra={"heeler_about": resident.owner and subject_of(resident.owner)})

    def release(self, connector: str) -> None:
        """Ends the processes that are bound to a connector, when their split has ended."""
        for resident in [r for r in self.idle if r.bound_at and r.connector == connector]:
            self.end_idle(resident)
        for resident in self.residents.values():  # a split may still be declined, so that it stays with the one before
            if resident.item is not None and connector in {resident.connector, resident.item.connector}:
                resident.released |= {connector}

    def take_overdue(self) -> list[Resident]:
        """Those that were killed and have not ended in time: their host may be unreachable. Each is returned once."""
        now = time.monotonic()
        overdue = [resident for resident, deadline in self._dying.items() if now > deadline]
        for resident in overdue:
            del self._dying[resident]
        return overdue

    def ended(self, resident: Resident) -> None:
        """A process has ended, and so has its thread here."""
        self._dying.pop(resident, None)
