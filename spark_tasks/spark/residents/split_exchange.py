"""Gives splits to executor processes, and receives their results.

Each process has a thread here that sends it a split and waits for the answer, so that processes do not delay each
other. A small split is sent at once, by the thread that gives it: to wake another thread takes a tenth of a
millisecond if the CPU was idle.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from spark_tasks.errors import plugin_code
from spark_tasks.process.process_state import has_ended
from spark_tasks.process.rate_limited_log import RateLimitedLog
from spark_tasks.spark.context import ExecutorEndedError, SparkLostError
from spark_tasks.spark.executor import Outcome
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.batches import Item, outcome_of
from spark_tasks.spark.residents.exit_description import ENDING_S, describe_end
from spark_tasks.spark.residents.fairness import subject_of
from spark_tasks.spark.residents.launchers import Launchers
from spark_tasks.spark.residents.listener import Line
from spark_tasks.spark.residents.process import Expects, Resident
from spark_tasks.spark.residents.process_table import DEATH_S, ProcessTable

_logger = logging.getLogger(__name__)


class SplitExchange:
    """`ended` is called with a process and its split, which has ended, in the thread of the process and with the lock
    held, and returns a function that is then called without the lock. `returned` is called with a split that was not
    begun, `changed`, with the lock held, when a process has become idle or has ended, and `died` when one has ended
    unexpectedly.
    """

    def __init__(
        self, processes: ProcessTable, launchers: Launchers, listener: Expects, lock: threading.Condition,
        max_answer_bytes: int, *, ended: Callable[[Resident, Item, Outcome | Exception], Callable[[], None]],
        returned: Callable[[Item], None], changed: Callable[[], None], died: Callable[[], None],
    ) -> None:
        self._processes = processes
        self._launchers = launchers
        self._listener = listener
        self._lock = lock
        self._max_answer_bytes = max_answer_bytes
        self._ended = ended
        self._returned = returned
        self._changed = changed
        self._died = died
        self._log = RateLimitedLog()

    def give(self, item: Item) -> None:
        """Gives a split to the idle process that suits it best. The caller holds the lock, and one suits."""
        resident = self._processes.take(item.connector)
        resident.take(item)
        begun = 0
        if resident.line is not None and isinstance(item.split, bytes):
            begun = wire.begin_to_send(resident.line.work, resident.frame_of(item.split, item.connector))
        resident.inbox.put((item, begun))

    def serve(self, resident: Resident, line: Line) -> None:
        """The thread of a process that has joined, until the process has ended."""
        self._rest(resident)
        while (given := resident.inbox.get()) is not None:
            item, begun = given
            if not self._run(resident, line, item, begun):
                break
        line.close_after(DEATH_S)
        self._listener.forget(resident.number)
        with self._lock:
            self._processes.ended(resident)
            self._changed()

    def _run(self, resident: Resident, line: Line, item: Item, begun: int) -> bool:
        """Has the process run a split, of which `begun` bytes have been sent. Returns whether it can get another."""
        try:
            with plugin_code():
                payload = resident.frame_of(item.payload(), item.connector)
        except Exception as error:  # noqa: BLE001 - a plugin's objects may not be picklable
            self._complete(resident, item, error)
            return True
        try:
            wire.send(line.work, payload, begun)
        except OSError:  # it ended while it was idle; a frame that was not sent completely is not run
            if self._remove(resident, None, describe_end(line.pid, 0.0)):
                self._returned(item)
            return False
        try:
            answer = wire.receive(line.work, self._max_answer_bytes)
        except Exception as error:  # noqa: BLE001 - any end of the connection, or an invalid size
            self._lose(resident, line, item, error)
            return False
        return self._accept(resident, item, answer)

    def _accept(self, resident: Resident, item: Item, answer: bytes | bytearray) -> bool:
        """Settles a split with the answer of its process. Returns whether that can get another split."""
        if not answer:
            self._replace(resident, item)
            return False
        changes, result = wire.parted(answer)
        declined = bool(changes) and not result and resident.connector not in {"", item.connector}
        if resident.bind(resident.connector if declined else item.connector, changes):
            self._log.log(_logger, logging.INFO, "An executor process is reserved for connector %s, because its "
                          "plugins have changed this for the whole process: %s", resident.connector, changes,
                          about=resident.connector)
        if declined:
            self._decline(resident, item)
            return True
        try:
            outcome: Outcome | Exception = outcome_of(result, item.batch.task)
        except SparkLostError as error:
            outcome = error
        self._complete(resident, item, outcome)
        return True

    # How a split ends

    def _complete(self, resident: Resident, item: Item, outcome: Outcome | Exception) -> None:
        with self._lock:  # acquired once: with many small splits, all wait for this lock
            pending, resident.item = resident.item is item, None
            afterwards = self._ended(resident, item, outcome) if pending else lambda: None
            self._rest(resident)
        afterwards()

    def _replace(self, resident: Resident, item: Item) -> None:
        """The process has not begun the split, because of what another connector has left there."""
        self._log.log(_logger, logging.WARNING, "Replacing an executor process, because a process, a timer, a busy "
                      "thread or many threads were left behind by connector %s", resident.connector,
                      about=resident.connector)
        with self._lock:
            pending, resident.item = resident.item is item, None
            if not resident.removed:
                self._processes.kill([resident])
        if pending:
            self._returned(item)

    def _decline(self, resident: Resident, item: Item) -> None:
        """The process has not begun the split, because it is bound to another connector."""
        with self._lock:
            pending, resident.item = resident.item is item, None
            self._rest(resident)
        if pending:
            self._returned(item)

    def _lose(self, resident: Resident, line: Line, item: Item, error: Exception) -> None:
        """The process has ended or is unreachable; the split may have done all, some or none of its work."""
        how = resident.killed or describe_end(line.pid, ENDING_S, error)
        pending = self._remove(resident, item.batch.task, how)
        line.kill()  # it runs on if the plugin has only closed the connections
        sure = bool(line.pid) and has_ended(line.pid, ENDING_S)
        lost = (ExecutorEndedError if sure else SparkLostError)(f"the executor process of {item.batch.task} {how}")
        if pending:
            with self._lock:
                afterwards = self._ended(resident, item, lost)
            afterwards()

    def settle_overdue(self) -> None:
        """Stops waiting for killed processes that do not end in time, and for their threads: one that unpickles a
        result runs a plugin's code, which may hang.
        """
        with self._lock:
            afterwards = [self._settle_overdue(resident) for resident in self._processes.take_overdue()]
        for each in afterwards:
            each()

    def _settle_overdue(self, resident: Resident) -> Callable[[], None]:
        if resident.line is not None:
            resident.line.shut_down()
        item, resident.item = resident.item, None
        if item is None:
            return lambda: None
        lost = SparkLostError(f"an executor process of {item.batch.task} did not end in time")
        return self._ended(resident, item, lost)

    # What becomes of the process

    def _rest(self, resident: Resident) -> None:
        """It is idle, or ends if it is not needed any more."""
        with self._lock:
            if resident.removed:
                resident.inbox.put(None)
                return
            self._processes.idle.append(resident)
            resident.since = time.monotonic()
            released = resident.bound_at and resident.connector in resident.released
            if not self._launchers.kept(resident) or (resident.new and self._launchers.crowded) or released:
                self._processes.end_idle(resident)
            resident.new = False
            self._changed()

    def _remove(self, resident: Resident, task: str | None, how: str) -> bool:
        """It has ended or is unreachable, while it ran a split of this task, if any. Returns whether somebody still
        waits for its split.
        """
        with self._lock:
            pending = resident.item is not None
            expected, resident.removed, resident.item = resident.removed, True, None
            self._processes.residents.pop(resident.number, None)
        if not expected:
            _logger.warning("%s %s", "An idle executor process" if task is None else f"The executor process of {task}",
                            how, extra={"heeler_about": None if task is None else subject_of(task)})
            self._died()
        return pending
