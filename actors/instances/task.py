"""The actor of one task instance: it handles messages of the herder, calls run_once in between, and reports to the
herder.

For each call of run_once the actor sends itself a message, so that commands are served between two batches. A runner
with nothing to do returns how long it may sleep; `wake` (any thread) ends the sleep early.
"""

from __future__ import annotations

import logging
import threading
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import pykka
from typing_extensions import override

from actors.errors import BadRequestError, ConflictError, NotFoundError
from actors.instances.abandonment import Abandonment
from actors.instances.task_state import TaskAction, TaskEvent, TaskPhase, advance, reported, steps
from actors.instances.watchdog import Pace, Stack, Watchdog
from actors.messages.commands import ChangeTargetState, ReplayLetters, StartTask, Stop
from actors.messages.correlation_ids import Epoch
from actors.messages.events import TaskStateReported
from spark_tasks import spaces
from spark_tasks.config.masking import process_secrets
from spark_tasks.errors import BusyError, ConfigError, StartCancelledError, is_permanent, plugin_code
from spark_tasks.task import TaskRunner
from storage.ids import Config, ConnectorName, ConnectorTaskId, State, TargetState

_logger = logging.getLogger(__name__)
_ABANDONED: Final = "What the abandoned task was doing has ended: %s"

RunnerFactory = Callable[[StartTask, Callable[[], None]], TaskRunner]
"""Creates the runner of a task, without starting it; the second argument wakes the task. Resolves config providers."""

LogContext = Callable[[ConnectorTaskId], AbstractContextManager[Any]]


class Alarms(Protocol):
    """The part of the ticker that a task needs."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""

    def set(self, key: Hashable, at_ms: int, alarm: Callable[[], None]) -> None:
        """Calls `alarm` at that time; replaces an earlier alarm with the same key."""

    def cancel(self, key: Hashable) -> None:
        """Cancels the alarm with this key."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Time to call run_once."""


@dataclass(frozen=True, slots=True)
class _Wake:
    """There may be work."""


class TaskActor(pykka.ThreadingActor):
    """One instance of a task; takes StartTask, ChangeTargetState and Stop. Only its thread uses the runner."""

    use_daemon_thread = True

    def __init__(
        self, epoch: Epoch, tell: Callable[[TaskStateReported], None], make_runner: RunnerFactory, alarms: Alarms,
        log_context: LogContext | None = None, *, abandonment: Abandonment | None = None, pace: Pace | None = None,
    ) -> None:
        super().__init__()
        self._epoch = epoch
        self._tell = tell
        self._make_runner = make_runner
        self._alarms = alarms
        self._log_context = log_context or (lambda _task: nullcontext())
        self._phase = TaskPhase.NEW
        self._start: StartTask | None = None
        self._runner: TaskRunner | None = None
        self._error: BaseException | None = None
        self._created = False
        self._version: str | None = None
        self._restarting = False
        self._step_queued = False
        self._wake_queued = threading.Event()
        self._abandonment = abandonment or Abandonment()
        self._pace = pace

    @override
    def on_receive(self, message: StartTask | ChangeTargetState | ReplayLetters | Stop | _Step | _Wake) -> None:
        """Never raises: what the runner raises makes the task FAILED."""
        if isinstance(message, StartTask):
            self._start = message
        with self._log_context(self._start.task) if self._start else nullcontext():
            self._receive(message)

    def _receive(self, message: StartTask | ChangeTargetState | ReplayLetters | Stop | _Step | _Wake) -> None:
        match message:
            case StartTask():
                running = message.target_state is TargetState.STARTED
                self._handle(TaskEvent.START if running else TaskEvent.START_PAUSED)
            case ChangeTargetState(state):
                self._handle(TaskEvent.RESUME if state is TargetState.STARTED else TaskEvent.PAUSE)
            case ReplayLetters():
                self._replay(message)
            case Stop():
                self._handle(TaskEvent.STOP)
            case _Step():
                self._step_queued = False
                self._run_once()
            case _Wake():
                self._wake_queued.clear()
                if not self._step_queued:
                    self._run_once()

    def _handle(self, event: TaskEvent) -> None:
        step = advance(self._phase, event)
        self._phase = step.phase
        for action in step.actions:
            try:
                with plugin_code():
                    self._act(action)
            except Exception as error:  # noqa: BLE001 - plugin code: whatever it raises fails the task
                self._fail(error)
                return

    def _act(self, action: TaskAction) -> None:
        match action:
            case TaskAction.OPEN:
                with self._paced():
                    self._open()
            case TaskAction.PAUSE:
                if self._runner is not None:
                    with self._paced():
                        self._runner.pause()
            case TaskAction.RESUME:
                if self._runner is not None:
                    with self._paced():
                        self._runner.resume()
            case TaskAction.CLOSE:
                self._close()
            case TaskAction.REPORT:
                self._report()
            case TaskAction.STEP:
                self._queue_step()
            case TaskAction.END:
                self.stop()

    def _open(self) -> None:
        if self._start is None:
            return
        self._runner = self._make_runner(self._start, self.wake)
        self._created = True
        self._version = self._runner.version
        if self._pace is not None:
            self._pace.runner = self._runner
        if self._abandonment.watch(self._runner):
            self._runner.start()

    def _paced(self) -> AbstractContextManager[None]:
        """A call of the runner that the watchdog monitors."""
        return self._pace.call() if self._pace is not None else nullcontext()

    def _close(self) -> None:
        """Closes the runner. Its errors do not keep the task from ending."""
        self._alarms.cancel(self._alarm_key)
        with self._paced():  # a task that has failed is not reported as FAILED before this returns
            self._close_runner()
        if self._pace is not None:
            self._pace.ended = True

    def _close_runner(self) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        try:
            with plugin_code():
                runner.close()
        except Exception as error:  # plugin code; the next instance repeats what this one could not commit
            if self._abandonment.given_up:
                _logger.info(_ABANDONED, error)
            else:
                _logger.exception("Could not close the task cleanly")
        self._abandonment.release()

    def _fail(self, error: Exception) -> None:
        if self._abandonment.given_up or isinstance(error, StartCancelledError):
            _logger.info(_ABANDONED, error)
        else:
            _logger.error("The task has failed", exc_info=error)
        self._error = error
        self._handle(TaskEvent.FAILURE)

    def _report(self) -> None:
        if self._start is None:
            return
        failed = self._phase is TaskPhase.FAILED
        if failed and isinstance(self._error, StartCancelledError):
            return  # the task is being stopped, and will report that
        state = State.RESTARTING if self._restarting and self._phase is TaskPhase.RUNNING else reported(self._phase)
        self._tell(TaskStateReported(
            self._start.task, self._epoch, state,
            trace=trace_of(self._error) if failed and self._error is not None else None,
            version=self._version, stopped_for_good=self._phase is TaskPhase.ENDED,
            permanent=failed and self._error is not None and is_permanent(self._error), created=self._created,
        ))

    def _run_once(self) -> None:
        if self._runner is None or not steps(self._phase):
            return
        try:
            with self._paced(), plugin_code():
                idle_ms = self._runner.run_once().idle_ms
        except Exception as error:  # noqa: BLE001 - plugin code: whatever it raises fails the task
            self._fail(error)
            return
        self._notice_restart()
        if idle_ms > 0:
            self._alarms.set(self._alarm_key, self._alarms.now_ms() + idle_ms, self.wake)
        else:
            self._queue_step()

    def _notice_restart(self) -> None:
        restarting = getattr(self._runner, "restarting", False)
        if restarting is not self._restarting:
            self._restarting = restarting
            if self._phase is TaskPhase.RUNNING:
                self._report()

    def _replay(self, message: ReplayLetters) -> None:
        try:
            message.answer(self._replayed(message.order), None)
        except Exception as error:  # noqa: BLE001 - any error is the answer
            message.answer(None, error)

    def _replayed(self, order: Mapping[str, Any] | None) -> Any:
        if self._phase is TaskPhase.PAUSED:
            raise BadRequestError("The connector is paused: its first task replays dead letters, so resume it first")
        if self._phase is TaskPhase.FAILED:
            raise BadRequestError("The connector's first task, which replays dead letters, is FAILED: restart it first")
        if self._runner is None or self._phase is not TaskPhase.RUNNING:
            raise ConflictError("The connector's first task, which replays dead letters, is not running: try again")
        try:
            progress = self._runner.replay(order)
        except ConfigError as error:
            raise BadRequestError(str(error)) from error
        except BusyError as error:
            raise ConflictError(str(error)) from error
        if progress is None:
            raise NotFoundError("No replay has been requested since the task was started")
        self.wake()
        return progress

    @property
    def _alarm_key(self) -> Hashable:
        return ("task", self.actor_urn)

    def _queue_step(self) -> None:
        if not self._step_queued:
            self._step_queued = True
            self.actor_ref.tell(_Step())

    def wake(self) -> None:
        """Schedules a call of run_once. Any thread, at any time."""
        if not self._wake_queued.is_set():
            self._wake_queued.set()
            try:
                self.actor_ref.tell(_Wake())
            except pykka.ActorDeadError:
                _logger.debug("Wake was called after the end of the task")

    @override
    def on_stop(self) -> None:
        """Frees the runner's resources, also if the actor is stopped from outside, as when the worker stops."""
        self._close()
        self._abandonment.release()


class TaskActors:
    """Creates task actors for the herder and abandons them; `tell` sends a message to the herder."""

    def __init__(
        self, tell: Callable[[TaskStateReported], None], make_runner: RunnerFactory, alarms: Alarms,
        log_context: LogContext | None = None, watchdog: Watchdog | None = None,
        limit_s: Callable[[Config], float] = lambda _: 0.0,
        released: Callable[[ConnectorName], None] = lambda _: None,
    ) -> None:
        """`limit_s`: how long a batch of a connector with this configuration may take before the watchdog reports.
        `released` is called, in any thread, when the last task of a connector has ended or was given up; it must not
        block.
        """
        self._arguments = (tell, make_runner, alarms, log_context)
        self._living: weakref.WeakValueDictionary[str, Abandonment] = weakref.WeakValueDictionary()
        self._watchdog = watchdog
        self._limit_s = limit_s
        self._released = released
        self._lock = threading.Lock()
        self._counts: Counter[ConnectorName] = Counter()  # of living tasks

    def start(self, epoch: Epoch, command: StartTask) -> pykka.ActorRef[TaskActor]:
        """A new actor, which then has to be sent the StartTask."""
        connector = command.task.connector
        with self._lock:
            self._counts[connector] += 1
        abandonment = Abandonment(partial(self._ended, connector))
        pace = None
        try:
            if self._watchdog is not None:
                pace = abandonment.pace = self._watchdog.watch(
                    command.task, epoch, self._limit_s(command.connector_config))
            ref = TaskActor.start(epoch, *self._arguments, abandonment=abandonment, pace=pace)
        except BaseException:  # the system may have no thread left
            abandonment.cancel()
            raise
        self._living[ref.actor_urn] = abandonment
        return ref

    def _ended(self, connector: ConnectorName) -> None:
        """A task has ended. The executor processes of a connector serve all of its tasks."""
        with self._lock:
            self._counts[connector] -= 1
            last = not self._counts[connector]
            if last:
                del self._counts[connector]
        if last:
            self._released(connector)

    def stopping(self, ref: pykka.ActorRef[Any]) -> None:
        """A Stop is in the inbox of this task: a start that waits for other tasks may end. Never blocks."""
        abandonment = self._living.get(ref.actor_urn)
        if abandonment is not None:
            abandonment.stop_starting()

    def where(self, ref: pykka.ActorRef[Any]) -> Stack | None:
        """The stack of the call that a task is in; None if there is none. Any thread."""
        abandonment = self._living.get(ref.actor_urn)
        return abandonment.where() if abandonment is not None else None

    def cancel(self, ref: pykka.ActorRef[Any]) -> None:
        """Gives up the batch in flight of a task that does not stop in time. Never blocks; any thread."""
        abandonment = self._living.get(ref.actor_urn)
        if abandonment is not None:
            abandonment.cancel()


def trace_of(error: BaseException) -> str:
    """The text for a FAILED status: type and message first, as in Java's traces, then the Python traceback; secrets are
    masked.
    """
    head = "".join(traceback.format_exception_only(error)).rstrip()
    text = spaces.with_plain_names(f"{head}\n{''.join(traceback.format_exception(error)).rstrip()}")
    return process_secrets().mask(text)
