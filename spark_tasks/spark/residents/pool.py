"""Decides which split runs in which executor process, and how many processes are needed.

A split has a process to itself while it runs; cancelling it kills only that process. The number of splits that run at a
time is limited so that they use the CPUs well. A split that waits for something else does not count, nor does one that
has been running for long, and another process is started for splits that are ready to run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from spark_tasks.futures import complete
from spark_tasks.process.process_state import ready_s
from spark_tasks.spark.context import ExecutorEndedError
from spark_tasks.spark.executor import Outcome
from spark_tasks.spark.residents.batches import Item, SplitBatch, Waiting
from spark_tasks.spark.residents.binding import KEEP_S, Choice, best_for
from spark_tasks.spark.residents.fairness import Demand, FairQueue, Room, Use
from spark_tasks.spark.residents.launchers import Launchers
from spark_tasks.spark.residents.own_process import ResidentOwnProcess
from spark_tasks.spark.residents.process import Expects, Launcher, Resident
from spark_tasks.spark.residents.process_manager import ProcessManager
from spark_tasks.spark.residents.process_table import ProcessTable
from spark_tasks.spark.residents.settings import ExecutorSettings
from spark_tasks.spark.residents.split_exchange import SplitExchange

OWN_SHARE = 2  # at most half of the processes may belong to tasks


class Pool:
    """The queue of splits and their processes. `submit` and `cancel` are thread-safe. `died` is called when a
    process has ended unexpectedly, or has not started; `where` returns the stacks of a process.
    """

    def __init__(
        self, settings: ExecutorSettings, listener: Expects, lock: threading.Condition, died: Callable[[], None],
        where: Callable[[Resident], str] = lambda _: "",
    ) -> None:
        self.batches: dict[Future[list[Any]], SplitBatch] = {}
        self.queue: FairQueue[Item] = FairQueue(settings.limits(settings.max_processes))
        self._requests: list[Item] = []  # for processes that only one task uses
        self._settings = settings
        self._lock = lock
        self._where = where
        self.processes = ProcessTable(listener, died)
        self.launchers = Launchers(self.processes.residents, settings.max_processes)
        self.exchange = SplitExchange(
            self.processes, self.launchers, listener, lock, settings.max_answer_bytes,
            ended=self._ended, returned=self._returned, changed=self.dispatch, died=died,
        )
        self.manager = ProcessManager(
            self.processes, self.launchers, listener, lock, serve=self.exchange.serve, died=died,
            given_up=lambda error: self.fail(error, waiting_only=True),
        )

    def submit(self, batch: SplitBatch, splits: Sequence[Waiting]) -> None:
        """Queues the splits of a batch. A None asks for a process that only the task uses."""
        with self._lock:
            self.batches[batch.future] = batch
            for index, split in enumerate(splits):
                item = Item(batch, index, split)
                if split is None:  # it uses no CPU yet, and waits for no other split
                    self._requests.append(item)
                else:
                    self.queue.put(batch.task, item)
            batch.future.add_done_callback(self._withdraw)
            self.dispatch()

    def _withdraw(self, future: Future[list[Any]]) -> None:
        """Drops a batch whose task has cancelled its future before it began."""
        if future.cancelled():
            self.cancel(future)

    def use(self, launcher: Launcher | None, stand_in: Launcher | None = None) -> None:
        """Starts further processes with this launcher. See ProcessManager.use."""
        with self._lock:
            self.manager.use(launcher, stand_in)
            self.limit()
            self.dispatch()

    def limit(self) -> None:
        """Limits connectors and tasks by the number of processes that there may be now. It changes with the launcher,
        and in a cluster with its size. The caller holds the lock.
        """
        self.queue.limits = self._settings.limits(self.launchers.most)

    def cancel(self, future: Future[list[Any]]) -> None:
        """Gives up a batch: the processes of running splits are killed, waiting splits are dropped."""
        with self._lock:
            batch = self.batches.pop(future, None)
            if batch is None:
                return
            self._drop(batch, CancelledError(f"a batch of {batch.task} was cancelled"))
            self.dispatch()
        batch.end()

    def runs(self, future: Future[list[Any]]) -> bool:
        """Whether a split of the batch has begun, and no process has given it back."""
        batch = self.batches.get(future)
        return batch is not None and batch.begun

    def ready_s(self, future: Future[list[Any]]) -> float:
        """How many seconds the main threads of the batch's processes have been ready to run without a CPU."""
        with self._lock:
            lines = [r.line for r in self.processes.residents.values()
                     if r.item is not None and r.item.batch.future is future]
        return sum(ready_s(line.pid) for line in lines if line is not None and line.pid)

    def release(self, connector: str) -> None:
        """Keeps no processes for this connector any more, and forgets what its splits were like: its last task has
        ended or was given up.
        """
        with self._lock:
            self.queue.release(connector)
            self.processes.release(connector)
            self.dispatch()

    def fail(self, error: Exception, *, waiting_only: bool = False) -> None:
        """Ends all batches, or only those with a waiting split, with an error."""
        with self._lock:
            failed = [b for b in self.batches.values() if not waiting_only or self._waits(b)]
            for batch in failed:
                self._drop(batch, error)
                del self.batches[batch.future]
        for batch in failed:
            batch.end()

    def _waits(self, batch: SplitBatch) -> bool:
        return any(item.batch is batch for item in (*self.queue.waiting(batch.task), *self._requests))

    def _drop(self, batch: SplitBatch, why: Exception) -> None:
        """Kills or removes all splits of a batch. The caller holds the lock."""
        ended = isinstance(why, ExecutorEndedError)  # if one process may still run, the retry has to wait for it
        if batch.lost is None or (isinstance(batch.lost, ExecutorEndedError) and not ended):
            batch.lost = why
        residents = self.processes.residents.values()
        self.processes.kill([r for r in residents if r.item is not None and r.item.batch is batch])
        for item in self.queue.waiting(batch.task):
            if item.batch is batch and self.queue.remove(batch.task, item):
                batch.left -= 1
        for item in [one for one in self._requests if one.batch is batch]:
            self._requests.remove(item)
            batch.left -= 1

    def dispatch(self) -> None:
        """Gives waiting splits to idle processes, and starts processes if more are needed. The caller holds the
        lock.
        """
        if len(self.queue) or self._requests:
            self._give_out()
        if not len(self.queue) and not self._requests and self.manager.has_spare(self._settings.spare):
            return
        self.manager.grow(len(self._requests) + self.queue.takeable(self.room) + self._settings.spare)

    @property
    def room(self) -> Room:
        """How many more splits may use the CPU. The caller holds the lock."""
        return Room.beside(self.processes.running, self._settings.running)

    def _give_out(self) -> None:
        """Gives waiting splits to idle processes, and has bound ones end if others need their room."""
        processes, choice = self.processes, self._choice()
        requests = [Demand(item.connector, 1, 0) for item in self._requests]
        self.manager.make_room(choice, (*requests, *self.queue.in_turn(self.room)))
        self._give_processes()
        while (len(self.queue) and processes.idle
               and (taken := self.queue.take(self.room, choice.may_run())) is not None):
            task, item = taken.task, taken.item
            item.brief, item.lingers = taken.brief, False
            batch = item.batch
            if not (batch.begun or batch.future.running() or batch.future.set_running_or_notify_cancel()):  # withdrawn
                self.queue.ended(task)
                self._drop(batch, CancelledError())
                self.batches.pop(batch.future, None)
                continue
            batch.begun = True
            self.exchange.give(item)

    def _give_processes(self) -> None:
        """Gives those who ask a process of their own, or None: they may have half of the processes, so that splits can
        run.
        """
        for item in list(self._requests):
            batch, process = item.batch, None
            may = self.processes.owned < self.launchers.most // OWN_SHARE
            if may and best_for(item.connector, self.processes.idle) is None:
                continue
            if not batch.future.set_running_or_notify_cancel():  # it was withdrawn
                may = False
            if may:
                resident = self.processes.take(item.connector)
                process = ResidentOwnProcess(
                    resident, self.processes, self._lock, self._where, batch.task, item.connector, self._settings)
            self._requests.remove(item)
            self.batches.pop(batch.future, None)
            complete(batch.future, [process])

    def _choice(self) -> Choice[Resident]:
        processes, since = self.processes, time.monotonic() - KEEP_S
        residents = processes.residents.values()
        soon = any(r.item is not None and not r.bound_at and r.since > since for r in residents)
        kept_back = self._settings.spare if self.launchers.full else 0
        return Choice(processes.idle, len(processes.starting), {r.connector for r in residents if r.bound_at},
                      soon=soon, kept_back=kept_back)

    def _ended(self, resident: Resident, item: Item, outcome: Outcome | Exception) -> Callable[[], None]:
        batch = item.batch
        if isinstance(outcome, Outcome):
            use = Use(outcome.cpu_seconds, outcome.seconds)
        else:
            use = resident.use(time.monotonic())
        self.queue.ended(batch.task, use, lingered=item.lingers)
        batch.left -= 1
        if isinstance(outcome, Outcome):
            batch.outcomes[item.index] = outcome
        else:  # none of its splits may still run when it is retried
            self._drop(batch, outcome)
        if batch.left:
            return lambda: None
        self.batches.pop(batch.future, None)
        return batch.end

    def _returned(self, item: Item) -> None:
        with self._lock:
            self.queue.put_back(item.batch.task, item, lingered=item.lingers)
            if item.batch.lost is not None and self.queue.remove(item.batch.task, item):
                item.batch.left -= 1
            over = not item.batch.left
            waiting = sum(one.batch is item.batch for one in self.queue.waiting(item.batch.task))
            item.batch.begun = waiting < len(item.batch.outcomes)
            if over:
                self.batches.pop(item.batch.future, None)
            self.dispatch()
        if over:
            item.batch.end()

    def close(self, error: Exception, timeout_s: float) -> None:
        """Fails all batches, and ends the processes."""
        self.fail(error)
        self.manager.close(timeout_s)
