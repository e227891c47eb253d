"""The actors of connectors and tasks on this worker: one actor for each instance, never reused."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pykka

from actors.errors import ConflictError
from actors.herder.effects import AbandonInstance, AskTaskConfigs, ChangeInstance, StartInstance, StopInstance
from actors.instances.task import trace_of
from actors.instances.watchdog import Stack, presentable
from actors.messages.commands import (
    ChangeTargetState,
    GenerateTaskConfigs,
    ReplayLetters,
    StartConnector,
    StartTask,
    Stop,
)
from actors.messages.correlation_ids import Epoch
from actors.messages.events import ConnectorStateReported, Remark, TaskConfigsGenerated, TaskStateReported
from spark_tasks.errors import ConnectError, is_permanent
from storage.ids import ConnectorTaskId, ItemId, State

_logger = logging.getLogger(__name__)
Tell = Callable[[Any], None]


class ActorInstances:
    """Starts and watches actors, and sends them messages. Used only by the herder's thread, except for `watch`."""

    def __init__(self, tell: Tell, connector: Callable[[Epoch, StartConnector], pykka.ActorRef[Any]],
                 task: Callable[[Epoch, StartTask], pykka.ActorRef[Any]],
                 cancel: Callable[[pykka.ActorRef[Any]], None],
                 stopping: Callable[[pykka.ActorRef[Any]], None] = lambda _: None,
                 where: Callable[[pykka.ActorRef[Any]], Stack | None] = lambda _: None) -> None:
        """`where`: the stack of the call that an actor is in; None if there is none."""
        self._tell = tell
        self._connector = connector
        self._task = task
        self._cancel = cancel
        self._stopping = stopping
        self._where = where
        self._actors: dict[Epoch, tuple[ItemId, pykka.ActorRef[Any]]] = {}
        self._dead: set[Epoch] = set()

    def start(self, effect: StartInstance) -> None:
        """Starts an actor. If that raises, the instance is reported as FAILED."""
        command = effect.command
        make: Any = self._task if isinstance(command, StartTask) else self._connector
        try:
            ref = make(effect.epoch, command)
        except Exception as error:
            # Plugin code may run in a constructor: whatever it raises fails the instance, not the herder.
            _logger.exception("Could not start", extra={"heeler_about": effect.item})
            self._tell(report(effect.item, effect.epoch, State.FAILED, trace=trace_of(error),
                              permanent=is_permanent(error)))
            return
        self._actors[effect.epoch] = (effect.item, ref)
        self._send(effect.item, effect.epoch, command)

    def stop(self, effect: StopInstance) -> None:
        """Has an actor stop and report `stopped_for_good`; if it is dead, reports on its behalf."""
        if not self._send(effect.item, effect.epoch, Stop()):
            self._forget(effect.epoch)
            self._tell(report(effect.item, effect.epoch, State.UNASSIGNED, gone=True))
        elif isinstance(effect.item, ConnectorTaskId):
            self._stopping(self._actors[effect.epoch][1])

    def abandon(self, effect: AbandonInstance) -> None:
        """Cancels what an actor does, and reports where it hangs; its thread ends once the plugin returns."""
        entry = self._forget(effect.epoch)
        stack = self._where(entry[1]) if entry is not None else None
        cancel = partial(self._cancel, entry[1]) if entry is not None else _nothing
        if stack is None or not stack.asks:
            cancel()
            cancel = _nothing
        line = f"Did not stop within {effect.after_ms} ms (task.shutdown.graceful.timeout.ms) and was abandoned"
        try:  # the folder of the source lines may not answer, perhaps for the same reason as the plugin
            threading.Thread(target=self._report_abandoned, args=(effect.item, line, stack, cancel), daemon=True,
                             name=f"abandoned-{effect.item}").start()
        except RuntimeError:  # the system has no thread left
            self._report_abandoned(effect.item, line, None, cancel)

    def _report_abandoned(self, item: ItemId, line: str, stack: Stack | None, cancel: Callable[[], None]) -> None:
        try:
            text = presentable(f"{line}; its call is here:\n{stack}" if stack else line)
        finally:
            cancel()
        line, _, below = text.partition("\n")
        _logger.error("%s", line, extra={"heeler_about": item, "below": below})
        self._tell(Remark(item, text, "worker"))

    def change(self, effect: ChangeInstance) -> None:
        """Sends an actor its new target state."""
        self._send(effect.item, effect.epoch, ChangeTargetState(effect.state))

    def ask_task_configs(self, effect: AskTaskConfigs) -> None:
        """Has a connector's actor answer TaskConfigsGenerated; if it is dead, answers with an error."""
        if not self._send(effect.connector, effect.epoch, GenerateTaskConfigs(effect.op)):
            error = ConnectError(f"{effect.connector}: the connector is not running")
            self._tell(TaskConfigsGenerated(effect.connector, effect.epoch, effect.op, error=error))

    def replay(self, task: ConnectorTaskId, message: ReplayLetters) -> None:
        """Passes a replay request to the newest instance of the task. Answers ConflictError if there is none."""
        epochs = [epoch for epoch, (item, _) in self._actors.items() if item == task]
        if not epochs or not self._send(task, max(epochs), message):
            error = ConflictError(f"The task {task}, which replays dead letters, is not running: try again")
            message.answer(None, error)

    def living(self) -> list[tuple[ItemId, pykka.ActorRef[Any]]]:
        """All instances that have not been forgotten, the newest of each item last. Any thread."""
        return list(self._actors.copy().values())

    def watch(self) -> None:
        """Reports instances whose actor died without a report, which is a defect: errors of plugins are caught."""
        for epoch, (item, ref) in list(self._actors.items()):
            if epoch not in self._dead and not ref.is_alive():
                self._dead.add(epoch)
                self._tell(report(item, epoch, State.FAILED, trace=f"The actor of {item} died; see the worker's log"))

    def _send(self, item: ItemId, epoch: Epoch, message: Any) -> bool:
        entry = self._actors.get(epoch)
        if entry is None:
            return False
        try:
            entry[1].tell(message)
        except pykka.ActorDeadError:
            _logger.debug("The actor is dead", extra={"heeler_about": item})
            return False
        return True

    def _forget(self, epoch: Epoch) -> tuple[ItemId, pykka.ActorRef[Any]] | None:
        self._dead.discard(epoch)
        return self._actors.pop(epoch, None)

    def ended(self, epoch: Epoch) -> None:
        """Forgets an instance after its last report."""
        self._forget(epoch)


def _nothing() -> None:
    """It has been cancelled already."""


def report(item: ItemId, epoch: Epoch, state: State, *, trace: str | None = None,
           gone: bool = False, permanent: bool = False) -> ConnectorStateReported | TaskStateReported:
    """A report on behalf of an instance whose actor is dead."""
    if isinstance(item, ConnectorTaskId):
        return TaskStateReported(item, epoch, state, trace, stopped_for_good=gone, permanent=permanent)
    return ConnectorStateReported(item, epoch, state, trace, stopped_for_good=gone, permanent=permanent)
