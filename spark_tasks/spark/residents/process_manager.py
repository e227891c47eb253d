"""A worker's executor processes: starts them on demand, gives them splits one at a time, and ends or kills them.

Each process has a thread here that sends it a split and waits for the answer, so that processes do not delay each
other. A small split is sent at once, by the thread that gives it: to wake another thread takes a tenth of a
millisecond if the CPU was idle.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable

from spark_tasks.backoff import doubled
from spark_tasks.errors import plugin_code
from spark_tasks.process.process_state import has_ended
from spark_tasks.process.rate_limited_log import RateLimitedLog
from spark_tasks.spark.context import ExecutorEndedError, SparkLostError
from spark_tasks.spark.executor import Outcome
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.batches import Item, outcome_of
from spark_tasks.spark.residents.binding import Choice, best_for
from spark_tasks.spark.residents.exit_description import describe_end
from spark_tasks.spark.residents.fairness import Demand, subject_of
from spark_tasks.spark.residents.launch_queue import LaunchQueue
from spark_tasks.spark.residents.launchers import Launchers
from spark_tasks.spark.residents.listener import Line
from spark_tasks.spark.residents.process import Expects, Launcher, Resident

_logger = logging.getLogger(__name__)

DEATH_S = 5.0  # how long it may take until the end of a killed process is noticed
ENDING_S = 0.2  # how long a process may take to end after its connections have
BACKOFF_S = 0.2  # doubled with each successive process that did not join
MAX_BACKOFF_S = 5.0
LATE_S = 1.0  # Spark's daemon forks a process within a tenth of this
GIVE_UP = 4  # after this many successive failures, waiting splits fail; their tasks repeat the batch and log the reason


class ProcessManager:
    """The processes of a worker, which it reports to its owner.

    `ended` is called with a process and its split, which has ended, in the thread of the process and with the lock
    held, and returns a function that is then called without the lock. `returned` is called with a split that was not
    begun, `changed` when a process has become idle or has ended, `given_up` if no process can be started, and `died`
    when a process has ended unexpectedly.

    Some methods require that the caller holds `lock`, as their docstrings say.
    """

    def __init__(
        self, listener: Expects, lock: threading.Condition, *, max_processes: int, max_result_bytes: int,
        ended: Callable[[Resident, Item, Outcome | Exception], Callable[[], None]], returned: Callable[[Item], None],
        changed: Callable[[], None], given_up: Callable[[Exception], None],
        died: Callable[[], None],
    ) -> None:
        self.residents: dict[int, Resident] = {}
        self.idle: list[Resident] = []  # the one used last is the last one
        self.most_busy = 0  # how many were in use at a time; its reader resets it
        self._listener = listener
        self._lock = lock
        self.launchers = Launchers(self.residents, max_processes)
        self._max_answer_bytes = max_result_bytes + (4 << 20)  # executors report larger results as errors
        self._ended = ended
        self._returned = returned
        self._changed = changed
        self._given_up = given_up
        self._died = died
        self._dying: dict[Resident, float] = {}
        self._log = RateLimitedLog()
        self._launches = LaunchQueue(listener, lock, self.never_joined)
        self._stand_in_launches = LaunchQueue(listener, lock, self.never_joined)
        self._numbers = itertools.count(1)
        self._failures = 0
        self._launch_after = 0.0

    # Starting processes

    def use(self, launcher: Launcher | None, stand_in: Launcher | None = None) -> None:
        """Starts further processes with this launcher; with None, starts none. The processes of the previous launcher
        end when the first new one has joined, or when their split has ended; until then, they are replaced if they end.
        `stand_in` also starts processes later, whenever one of the launcher takes longer than LATE_S to join, and until
        one has. The caller holds the lock.
        """
        self.launchers.use(launcher, stand_in)
        self._failures, self._launch_after = 0, 0.0
        if launcher is None:
            self._retire()

    def _retire(self) -> None:
        former = self.launchers.hand_over()
        for resident in [r for r in self.idle if not self.launchers.kept(r)]:
            self.end_idle(resident)
        for resident in [r for r in self.starting if not self.launchers.kept(r)]:
            self._forget(resident)
        for launcher in former:
            launcher.close()

    @property
    def starting(self) -> list[Resident]:
        """The processes that have not joined yet. The caller holds the lock."""
        return [r for r in self.residents.values() if r.line is None]

    @property
    def running(self) -> list[Item]:
        """The splits that are running and count. The caller holds the lock."""
        return [r.item for r in self.residents.values() if r.item is not None and not r.exempt]

    def has_spare(self, count: int) -> bool:
        """Whether so many are idle, for any connector, and no others have to be started. The caller holds the lock."""
        launchers = self.launchers
        return not launchers.former and sum(
            r.launcher is launchers.current and not r.bound_at for r in self.idle) >= count

    def grow(self, wanted: int) -> None:
        """Starts processes until `wanted` are idle, for any connector, or will be. The caller holds the lock."""
        launchers = self.launchers
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

    def make_room(self, choice: Choice[Resident], waiting: Iterable[Demand]) -> None:
        """Ends idle processes that are bound to a connector if others wait, no more may be started, and those that have
        ended can be replaced. The caller holds the lock.
        """
        current = self.launchers.current
        if current is None or self._pauses or not self.launchers.full or current.max_processes <= 0:
            return
        for resident in choice.to_evict(waiting, time.monotonic()):
            self._log.log(_logger, logging.WARNING, "Ending an executor process reserved for connector %s, because "
                          "others wait and there may be no more. If this happens often, increase heeler.executors.max "
                          "or Spark's slots", resident.connector, about=resident.connector)
            self.end_idle(resident)

    def release(self, connector: str) -> None:
        """Ends the processes that are bound to a connector, when their split has ended. The caller holds the lock."""
        for resident in [r for r in self.idle if r.bound_at and r.connector == connector]:
            self.end_idle(resident)
        for resident in self.residents.values():  # a split may still be declined, so that it stays with the one before
            if resident.item is not None and connector in {resident.connector, resident.item.connector}:
                resident.released |= {connector}

    @property
    def _pauses(self) -> bool:
        return time.monotonic() < self._launch_after

    def _grow(self, launcher: Launcher, wanted: int) -> None:
        available = sum(1 for r in (*self.idle, *self.starting) if r.launcher is launcher and not r.bound_at)
        for _ in range(min(wanted - available, self.launchers.room(launcher))):
            resident = Resident(self.next_number(), launcher)
            self.residents[resident.number] = resident
            (self._stand_in_launches if launcher is self.launchers.stand_in else self._launches).put(resident)

    def next_number(self) -> int:
        """A number that no other process has."""
        return next(self._numbers)

    def never_joined(self, resident: Resident, why: str) -> None:
        """A process could not be started; after a pause, another one is."""
        with self._lock:
            if resident.number not in self.residents or resident.line is not None:
                return
            self._forget(resident)
            if resident.launcher is self.launchers.stand_in or self._pauses:  # others have failed, before the pause
                _logger.debug("An executor process did not start: %s", why)
                return
            self._failures += 1
            alone = not any(r.line is not None for r in self.residents.values())
            given_up = alone and self._failures >= GIVE_UP
            pause = doubled(BACKOFF_S, self._failures, MAX_BACKOFF_S)
            self._launch_after = time.monotonic() + pause
        _logger.warning("An executor process did not start (next attempt in %.1f s): %s", pause, why)
        self._died()
        if given_up:
            self._given_up(SparkLostError(f"no executor process could be started: {why}"))

    def _forget(self, resident: Resident) -> None:
        resident.removed = True
        self.residents.pop(resident.number, None)
        self._listener.forget(resident.number)

    def joined(self, number: int, line: Line) -> None:
        """Called by the listener: the process with this number has joined."""
        with self._lock:
            resident = self.residents.get(number)
            if resident is None or resident.line is not None:
                line.close()
                return
            thread = threading.Thread(
                target=self._drive, args=(resident, line), name=f"executor-{number}", daemon=True)
            try:
                thread.start()  # with the lock held: `close` may join it at once
            except RuntimeError as error:  # too many threads
                _logger.warning("An executor process cannot be used: %s", error)
                self._forget(resident)
                line.close()
                return
            resident.line, resident.thread = line, thread
            self._failures = 0
            if resident.launcher is self.launchers.current:
                self._retire()

    # Running splits

    def give(self, item: Item) -> None:
        """Gives a split to the idle process that suits it best. The caller holds the lock, and one suits."""
        resident = best_for(item.connector, self.idle)
        assert resident is not None  # noqa: S101 - the pool has taken the split for one of them
        self.idle.remove(resident)
        self.most_busy = max(self.most_busy, len(self.residents) - len(self.idle))
        resident.take(item)
        begun = 0
        if resident.line is not None and isinstance(item.split, bytes):
            begun = wire.begin_to_send(resident.line.work, resident.frame_of(item.split, item.connector))
        resident.inbox.put((item, begun))

    def _drive(self, resident: Resident, line: Line) -> None:
        self._rest(resident)
        while (given := resident.inbox.get()) is not None:
            item, begun = given
            try:
                with plugin_code():
                    payload = resident.frame_of(item.payload(), item.connector)
            except Exception as error:  # noqa: BLE001 - a plugin's objects may not be picklable
                self._over(resident, item, error)
                continue
            try:
                wire.send(line.work, payload, begun)
            except OSError:  # it ended while it was idle; a frame that was not sent completely is not run
                if self._gone(resident, None, describe_end(line.pid, 0.0)):
                    self._returned(item)
                break
            try:
                answer = wire.receive(line.work, self._max_answer_bytes)
            except Exception as error:  # noqa: BLE001 - any end of the connection, or an invalid size
                how = resident.killed or describe_end(line.pid, ENDING_S, error)
                pending = self._gone(resident, item.batch.task, how)
                line.kill()  # it runs on if the plugin has only closed the connections
                sure = bool(line.pid) and has_ended(line.pid, ENDING_S)
                lost = (ExecutorEndedError if sure else SparkLostError)(
                    f"the executor process of {item.batch.task} {how}")
                if pending:
                    with self._lock:
                        afterwards = self._ended(resident, item, lost)
                    afterwards()
                break
            if not answer:
                self._replace(resident, item)
                break
            changes, result = wire.parted(answer)
            declined = bool(changes) and not result and resident.connector not in {"", item.connector}
            if resident.bind(resident.connector if declined else item.connector, changes):
                self._log.log(_logger, logging.INFO, "An executor process is reserved for connector %s, because its "
                              "plugins have changed this for the whole process: %s", resident.connector, changes,
                              about=resident.connector)
            if declined:
                self._decline(resident, item)
                continue
            try:
                outcome: Outcome | Exception = outcome_of(result, item.batch.task)
            except SparkLostError as error:
                outcome = error
            self._over(resident, item, outcome)
        line.close_after(DEATH_S)
        self._listener.forget(resident.number)
        with self._lock:
            self._dying.pop(resident, None)
            self._changed()

    def _replace(self, resident: Resident, item: Item) -> None:
        """The process has not begun the split, because of what another connector has left there."""
        self._log.log(_logger, logging.WARNING, "Replacing an executor process: a process, a timer, a busy thread or "
                      "many threads left behind by connector %s remain", resident.connector, about=resident.connector)
        with self._lock:
            pending, resident.item = resident.item is item, None
            if not resident.removed:
                self.kill([resident])
        if pending:
            self._returned(item)

    def _decline(self, resident: Resident, item: Item) -> None:
        """The process has not begun the split, because it is bound to another connector."""
        with self._lock:
            pending, resident.item = resident.item is item, None
            self._rest(resident)
        if pending:
            self._returned(item)

    def _over(self, resident: Resident, item: Item, outcome: Outcome | Exception) -> None:
        with self._lock:  # acquired once: with many small splits, all wait for this lock
            pending, resident.item = resident.item is item, None
            afterwards = self._ended(resident, item, outcome) if pending else lambda: None
            self._rest(resident)
        afterwards()

    def _rest(self, resident: Resident) -> None:
        with self._lock:
            if resident.removed:
                resident.inbox.put(None)
                return
            self.idle.append(resident)
            resident.since = time.monotonic()
            released = resident.bound_at and resident.connector in resident.released
            if not self.launchers.kept(resident) or (resident.new and self.launchers.crowded) or released:
                self.end_idle(resident)
            resident.new = False
            self._changed()

    def _gone(self, resident: Resident, task: str | None, how: str) -> bool:
        """The process has ended or is unreachable; its split may have done all, some or none of its work. Returns
        whether its owner still waits for that.
        """
        with self._lock:
            pending = resident.item is not None
            expected, resident.removed, resident.item = resident.removed, True, None
            self.residents.pop(resident.number, None)
        if not expected:
            _logger.warning("%s %s", "An idle executor process" if task is None else f"The executor process of {task}",
                            how, extra={"heeler_about": None if task is None else subject_of(task)})
            self._died()
        return pending

    def kill(self, residents: Iterable[Resident], why: str = "was killed by the worker") -> None:
        """Kills processes and the splits that they run. The caller holds the lock."""
        for resident in residents:
            resident.removed, resident.killed = True, resident.killed or why
            self.residents.pop(resident.number, None)
            if resident in self.idle:
                self.idle.remove(resident)
                resident.inbox.put(None)
            if resident.line is not None:
                resident.line.kill()
                self._dying[resident] = time.monotonic() + DEATH_S

    def end_idle(self, resident: Resident) -> None:
        """Ends an idle process. The caller holds the lock."""
        self.idle.remove(resident)
        resident.removed = True
        del self.residents[resident.number]
        if resident.line is not None:
            resident.line.go()
        resident.inbox.put(None)

    def find_dead(self) -> None:
        """Finds idle processes that have ended. The caller holds the lock."""
        dead = [(r, r.line) for r in self.idle if r.line is not None and r.line.ended]
        for _, line in dead:
            _logger.warning("An idle executor process %s", describe_end(line.pid, 0.0))
        if dead:
            self.kill([resident for resident, _ in dead])
            self._died()

    def cut_off(self) -> None:
        """Stops waiting for killed processes that do not end in time, as their host may be unreachable, and for their
        threads: one that unpickles a result runs a plugin's code, which may hang.
        """
        with self._lock:
            late = [r for r, deadline in self._dying.items() if time.monotonic() > deadline]
            afterwards = [self._cut_off(resident) for resident in late]
        for each in afterwards:
            each()

    def _cut_off(self, resident: Resident) -> Callable[[], None]:
        del self._dying[resident]
        if resident.line is not None:
            resident.line.cut()
        item, resident.item = resident.item, None
        if item is None:
            return lambda: None
        lost = SparkLostError(f"an executor process of {item.batch.task} did not end in time")
        return self._ended(resident, item, lost)

    def close(self, timeout_s: float) -> None:
        """Ends idle processes and waits for that; kills the others. No more are started."""
        with self._lock:
            launchers = self.launchers.close()
            joined = [r for r in self.residents.values() if r.thread is not None]
            for resident in list(self.idle):
                self.end_idle(resident)
            for resident in self.starting:
                self._forget(resident)
            self.kill(list(self.residents.values()))
        for launches in (self._launches, self._stand_in_launches):
            launches.close()
        for launcher in launchers:
            launcher.close()
        deadline = time.monotonic() + timeout_s
        for resident in joined:
            if resident.thread is not None:
                resident.thread.join(max(0.0, deadline - time.monotonic()))
