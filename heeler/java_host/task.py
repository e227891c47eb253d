"""The common part of the tasks of Java sources and sinks: a session in the host, and retries after pauses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

from typing_extensions import override

from heeler.java_host.session import HeldSession, Session
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.errors import ConnectError
from spark_tasks.host_frames import HostGoneError
from spark_tasks.task import PluginCall, Progress, TaskContext, TaskRunner
from spark_tasks.tasks.retries import RetryLimits, RetryState


class JavaTask(TaskRunner):
    """`named`: the connector's class and version for the host; `errors`: the connector's errors.* settings."""

    def __init__(
        self, context: TaskContext, kind: Literal["source", "sink"], named: Mapping[str, str], errors: ErrorHandling
    ) -> None:
        self._context = context
        self._version = named["version"]
        self._metrics = context.metrics
        self._metrics.kind = kind
        limits = RetryLimits(errors.retry_timeout_ms, errors.retry_delay_max_ms)
        self._retry_state = RetryState(context.id, self._metrics, limits)
        self._held = HeldSession(context.id, self._give_up, self._finish)
        self._paused = False
        self.restarting = False
        """Whether the host has ended and no other one is running yet."""

    @property
    @override
    def version(self) -> str:
        return self._version

    @property
    def events(self) -> object:
        """Changes with each event of the plugin."""
        session = self._held.session
        return None if session is None else (id(session), session.events)

    def plugin_calls(self) -> Sequence[PluginCall] | None:
        """The calls of the plugin that have not returned. None if its host does not say."""
        session = self._held.session
        return () if session is None else session.plugin_calls()

    @override
    def run_once(self) -> Progress:
        with self._metrics.counting_failures("task"):
            if self._held.cancelled:
                raise ConnectError(f"{self._context.id} was cancelled")
            return self._retry_state.pause() or self._attempt()

    @override
    def pause(self) -> None:
        self._paused = True
        self._metrics.running(paused=True)
        self._tell("pause")

    @override
    def resume(self) -> None:
        self._paused = False
        self._metrics.running(paused=False)

    def _tell(self, op: str) -> None:
        if self._held.session is not None:
            with suppress(HostGoneError):  # run_once notices it too
                self._held.session.connection.tell(op)

    @abstractmethod
    def _attempt(self) -> Progress:
        """Runs one step and handles its errors."""

    @abstractmethod
    def _give_up(self) -> None:
        """Cleans up after the task has left its host."""

    @abstractmethod
    def _finish(self, session: Session) -> None:
        """Stops the task in the host cleanly, and commits its work."""
