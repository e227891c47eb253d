"""Batches of a few records that the sink tasks of a connector share.

A task that keeps up lends itself to the worker's SharedBatches and sleeps: all records that it has not read are in the
watcher's responses. When more arrive, one thread plans the batches of all lent tasks, runs those of a connector in one
split (SharedSplit), and lets each task collect its results. For hundreds of tasks with a few records a second, this
takes a fraction of what as many batches would, each with its own thread, message and conversion.

A lent task is used only by this thread, until its own thread has it back: to rebalance, pause or stop, and for whatever
is not simple. That is a batch with records that have to be fetched, an error, a bad record, a slow write, a rebalance.
A shared split that hangs is cancelled (see HangWatch), and each of its tasks continues on its own, so that only the one
that hangs is delayed. A split of only one task is not cancelled, because that task would hang again; other tasks with
its key continue without it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol

from spark_tasks.errors import RetriableError
from spark_tasks.futures import error_of, fail
from spark_tasks.kafka.group_io import COMMITS_PER_S
from spark_tasks.sinks.hang_watch import HangWatch
from spark_tasks.sinks.shared_split import SharedSplit
from spark_tasks.sinks.split import SinkResult, SinkSplit
from spark_tasks.task import Engine

_logger = logging.getLogger(__name__)

TICK_S: Final = 0.1
COMMITS_AT_ONCE: Final = max(1, int(COMMITS_PER_S * TICK_S))  # in a tick: many at once delay the records behind them
WAIT_WEIGHT: Final = 0.05  # of a flight in the moving average of how long flights have waited
# The next shared split starts when the one before it has ended. So, with many tasks, each gets more records instead of
# all CPUs. Only a short one is waited for, so that a slow writer delays the others once, by this time.
SHORT_FLIGHT_S: Final = 0.005
MAX_SHORT_FLIGHTS: Final = max(1, (os.cpu_count() or 1) // 2)


class LentTask(Protocol):
    """The part of a SinkTask that runs shared batches."""

    @property
    def id(self) -> str:
        """The task's id."""

    def plan_shared(self) -> Sequence[SinkSplit] | None:
        """Returns the splits of the next batch. None if it has to be a batch of the task's own. Does not block."""

    def collect_shared(self, results: Sequence[SinkResult]) -> bool:
        """Commits a batch. False if the task has to do that itself. Does not block."""

    def commit_shared(self) -> bool:
        """Commits offsets if that is due. Returns whether some are left to commit. Does not block."""

    def wake(self) -> None:
        """Makes the task's thread take the task back. Any thread."""


@dataclass(slots=True, eq=False)
class Loan:
    """A lent task. `key`: tasks with equal ones share splits; all of them are of one connector, which pays for these
    splits (ADR 0052). `outcome`: the results or the error of a batch that the task has to handle itself.
    """

    task: LentTask
    key: Hashable
    outcome: Sequence[SinkResult] | Exception | None = None
    busy: bool = False  # the thread uses the task, or its split is in flight
    ended: bool = False
    batch: Future[list[Any]] | None = None


@dataclass(slots=True, eq=False)
class _Flight:
    """A shared split in flight, with the number of each task's splits in it. `started`: when it was submitted
    (time.monotonic). `watch`: None before the first tick, when most splits have ended.
    """

    key: Hashable
    loans: list[tuple[Loan, int]]
    future: Future[list[Any]]
    started: float = field(default_factory=time.monotonic)
    watch: HangWatch | None = None


class SharedBatches:
    """The lent tasks of a worker. Its thread starts with the first one. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changed = threading.Condition()
        self._event = threading.Event()
        # By key, the oldest first: the tasks that may have records, and since when (time.monotonic).
        self._arrivals: dict[Hashable, dict[Loan, float]] = {}
        self._uncommitted: dict[Loan, None] = {}  # those first whose turn is next
        self._flights: dict[Hashable, _Flight] = {}
        self._landed: deque[_Flight] = deque()
        self._ticked = 0.0
        self._waited_s = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    def lend(self, task: LentTask, key: Hashable) -> Loan:
        """Lends a task. Call `notify` at once, and when it may have records."""
        loan = Loan(task, key)
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="shared-batches", daemon=True)
                thread.start()  # may raise, if the system has no thread left; the next task tries again
                self._thread = thread
            self._uncommitted[loan] = None  # perhaps offsets of its own batches
        return loan

    def notify(self, loans: Iterable[Loan]) -> float:
        """Tells that there may be records for these tasks. Returns how many seconds batches have recently waited for
        those of other connectors. Any thread.
        """
        with self._changed:
            for loan in loans:
                self._note_arrival(loan)
        if not self._event.is_set():  # hundreds of times a second
            self._event.set()
        return self._waited_s

    def take_back(self, loan: Loan, timeout_s: float) -> bool:
        """Ends a loan, after the task's batch in flight. Returns False if that takes longer than the timeout; the task
        then gets no further batch. Call it again.
        """
        with self._changed:
            loan.ended = True
            if not self._changed.wait_for(lambda: not loan.busy, timeout_s):
                return False
            self._forget(loan)
            return True

    def withdraw(self, loan: Loan) -> None:
        """Ends the loan, and withdraws the batch in flight unless it has begun. Call `take_back` next."""
        with self._changed:
            loan.ended = True
            batch = loan.batch
        if batch is not None:
            batch.cancel()

    def cancel(self, loan: Loan) -> None:
        """Cancels the batch in flight. Any thread."""
        batch = loan.batch
        if batch is not None:
            self._engine.cancel(batch)

    def close(self) -> None:
        """Ends the thread. All tasks must have been taken back."""
        self._closed = True
        self._event.set()

    def _note_arrival(self, loan: Loan) -> None:
        self._arrivals.setdefault(loan.key, {}).setdefault(loan, time.monotonic())

    def _forget(self, loan: Loan) -> None:
        waiting = self._arrivals.get(loan.key, {})
        waiting.pop(loan, None)
        if not waiting:
            self._arrivals.pop(loan.key, None)
        self._uncommitted.pop(loan, None)

    def _run(self) -> None:
        wait_s: float | None = None
        while not self._closed:
            self._event.wait(wait_s)
            self._event.clear()
            try:
                wait_s = self._turn()
            except Exception:  # the other tasks must go on
                _logger.exception("Shared batches of sink tasks failed")
                wait_s = TICK_S

    def _turn(self) -> float | None:
        """Does what is due. Returns the time until the next turn, None if that begins with an event."""
        while self._landed:
            self._collect(self._landed.popleft())
        pause_s = self._submit()
        now = time.monotonic()
        if now - self._ticked >= TICK_S:
            self._ticked = now
            self._cut_off(now)
            self._commit()
        return pause_s or (TICK_S if self._flights or self._uncommitted else None)

    def _submit(self) -> float:
        """Starts flights. Returns the time until the next one may start, 0.0 if none waits for that."""
        while not (pause_s := self._pause_s()):
            with self._changed:
                found = self._next()
                if found is None:
                    return 0.0
                key, waiting = found
                loans = [loan for loan in waiting if not loan.ended]
                for loan in loans:
                    loan.busy = True
            self._waited_s += WAIT_WEIGHT * (time.monotonic() - next(iter(waiting.values())) - self._waited_s)
            self._submit_group(key, loans)
        with self._changed:
            return pause_s if self._arrivals.keys() - self._flights.keys() else 0.0

    def _next(self) -> tuple[Hashable, dict[Loan, float]] | None:
        """Returns the key whose records have waited longest, and its tasks, without those in a flight that hangs."""
        for key, waiting in self._arrivals.items():
            if key not in self._flights and (free := {one: at for one, at in waiting.items() if not one.busy}):
                del self._arrivals[key]
                if rest := {one: at for one, at in waiting.items() if one.busy}:
                    self._arrivals[key] = rest
                return key, free
        return None

    def _pause_s(self) -> float:
        """Returns the time until the next flight may start, if none ends before."""
        old = time.monotonic() - SHORT_FLIGHT_S
        recent = sorted(flight.started - old for flight in self._flights.values() if flight.started > old)
        return recent[-MAX_SHORT_FLIGHTS] if len(recent) >= MAX_SHORT_FLIGHTS else 0.0

    def _submit_group(self, key: Hashable, loans: Iterable[Loan]) -> None:
        """Starts a flight with what these tasks have planned."""
        members: list[tuple[Loan, int]] = []
        splits: list[SinkSplit] = []
        unused: list[Loan] = []
        for loan in loans:
            try:
                planned = loan.task.plan_shared()
            except Exception as error:  # noqa: BLE001 - the task handles it
                loan.outcome, planned = error, None
            if planned:
                splits += planned
                members.append((loan, len(planned)))
            else:
                unused.append(loan)
                if planned is None:
                    self._end(loan)
        self._release(unused)
        if not members:
            return
        try:
            future = self._engine.submit(members[0][0].task.id, [SharedSplit(tuple(splits))])
        except Exception as error:  # noqa: BLE001 - the tasks handle it
            future = Future()
            fail(future, error)
        flight = self._flights[key] = _Flight(key, members, future)
        for loan, _ in members:
            loan.batch = future
        future.add_done_callback(lambda _: self._land(flight))

    def _land(self, flight: _Flight) -> None:
        self._landed.append(flight)
        self._event.set()

    def _collect(self, flight: _Flight) -> None:
        attached = self._flights.get(flight.key) is flight
        if attached:
            del self._flights[flight.key]
        with self._changed:
            if attached and (waiting := self._arrivals.get(flight.key)):  # for this flight, not for others
                self._arrivals[flight.key] = dict.fromkeys(waiting, time.monotonic())
        loans = [loan for loan, _ in flight.loans]
        error = None if flight.future.cancelled() else error_of(flight.future)
        if flight.future.cancelled():  # withdrawn for one of the tasks
            with self._changed:
                for loan in loans:
                    if not loan.ended:
                        self._note_arrival(loan)
        elif error is not None:
            for loan in loans:
                loan.outcome = _retriable(error)
                self._end(loan)
        else:
            (results,), at = flight.future.result(), 0
            for loan, count in flight.loans:
                self._collect_one(loan, results[at : at + count])
                at += count
        self._release(loans)

    def _collect_one(self, loan: Loan, results: Sequence[SinkResult]) -> None:
        try:
            if not loan.task.collect_shared(results):
                loan.outcome = results
                self._end(loan)
                return
        except Exception as error:  # noqa: BLE001 - the task handles it
            loan.outcome = error
            self._end(loan)
            return
        self._uncommitted.setdefault(loan)

    def _end(self, loan: Loan) -> None:
        loan.ended = True
        loan.task.wake()

    def _release(self, loans: Iterable[Loan]) -> None:
        with self._changed:
            for loan in loans:
                loan.busy, loan.batch = False, None
            self._changed.notify_all()

    def _cut_off(self, now: float) -> None:
        """Cancels splits that hang. One of a single task only leaves the other tasks with its key to later splits."""
        for flight in tuple(self._flights.values()):
            watch = flight.watch = flight.watch or HangWatch(self._engine, flight.future)
            if not watch.hangs(now):
                continue
            if len(flight.loans) == 1:
                del self._flights[flight.key]
            else:
                watch.cancel([loan.task.id for loan, _ in flight.loans])

    def _commit(self) -> None:
        """Commits the offsets of the next few tasks for which that is due."""
        with self._changed:
            due = list(islice((one for one in self._uncommitted if not one.busy and not one.ended), COMMITS_AT_ONCE))
            for loan in due:
                loan.busy = True
                del self._uncommitted[loan]
        for loan in due:
            try:
                if loan.task.commit_shared():
                    self._uncommitted[loan] = None  # after all others
            except Exception as error:  # noqa: BLE001 - the task handles it
                loan.outcome = error
                self._end(loan)
        self._release(due)


def _retriable(error: Exception) -> Exception:
    """The task repeats its part without others; if the error is its own, it occurs again."""
    return error if isinstance(error, RetriableError) else RetriableError(f"a shared split failed: {error}")
