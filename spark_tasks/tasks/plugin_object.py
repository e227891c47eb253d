"""A task's object of a plugin that works between batches, a source's reader or a sink's writer: in an executor process
of its own, or on the worker.

Its methods may be any code. On the worker, an endless loop or native code that holds the global interpreter lock would
delay REST, heartbeats and all other tasks, and nothing could end it. In a process of its own, as PySpark's stream
readers have, it costs only its task: when that is stopped, the process is killed (ADR 0058).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession

from spark_tasks.errors import ConnectError, RetriableError, StartCancelledError
from spark_tasks.metrics.plugins import Figures, counting
from spark_tasks.plugins.api import Connector
from spark_tasks.task import OwnProcess, PluginCall, TaskContext

T = TypeVar("T")
_OURS: Final = "spark_tasks.connectors."


class WorkerSparkNeededError(ConnectError):
    """Plugin code in a process of its own has asked PySpark for a session, which only the worker has."""


def needs_own_process(connector: type[Connector]) -> bool:
    """Returns whether the objects of a connector need a process of their own: heeler's do not."""
    return not connector.__module__.startswith(_OURS)


class PluginObject(Generic[T]):
    """`make` creates the object, and can be pickled. `kill`, `stop_opening` and `calls` may be called on any thread,
    the others on one.
    """

    def __init__(self, context: TaskContext, make: Callable[[], T]) -> None:
        self._context = context
        self._make = make
        self._here: T | None = None
        self._process: OwnProcess | None = None
        self._coming: Future[list[Any]] | None = None
        self._in_progress: tuple[str, float] | None = None  # a call in the process
        self._used = False
        self._killed = False

    @property
    def is_here(self) -> bool:
        """Whether it is on the worker."""
        return self._here is not None

    @property
    def exists(self) -> bool:
        """Whether there is one now."""
        return self.is_here or (self._process is not None and not self._process.ended)

    def open_here(self) -> None:
        """Creates it on the worker. Raises what the plugin raises."""
        self.end()
        self._here = self._make()

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the object. The first call creates it, in a process of its own if there may be one more.

        Raises what the plugin raises, and a RetriableError if the process ends: the next call then creates another
        object.
        """
        process = None if self.is_here else self._process or self._new_process()
        if process is None:
            if not self.is_here:
                self.open_here()
            return getattr(self._here, method)(*arguments)
        self._process, self._in_progress = process, (method, time.monotonic())
        try:
            result, figures = process.run(_Call(method, *self._pickled(arguments)))
        except WorkerSparkNeededError as error:
            self.open_here()
            if not self._used:
                return self.call(method, *arguments)
            raise RetriableError(f"{error}; the task continues with a new one there") from error
        finally:
            self._in_progress = None
            if process.ended:
                self._process = None
        self._used = True
        if figures is not None:
            self._context.metrics.plugins.merge(figures)
        return result

    def _pickled(self, arguments: tuple[Any, ...]) -> tuple[bytes, bytes]:
        return cloudpickle.dumps(self._make), cloudpickle.dumps(arguments)

    def end(self) -> None:
        """Gives it up, and ends its process."""
        self._here = None
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def kill(self) -> None:
        """Kills its process: a call in progress raises, and so do later ones."""
        self._killed = True
        self.stop_opening()
        if (process := self._process) is not None:
            process.kill()

    def stop_opening(self) -> None:
        """Ends the wait for a process, with StartCancelledError."""
        if (coming := self._coming) is not None:
            coming.cancel()

    def calls(self) -> list[PluginCall]:
        """The call in progress in its process, if there is one. Takes seconds."""
        call, process = self._in_progress, self._process
        if call is None or process is None:
            return []
        method, since = call
        return [PluginCall(method, time.monotonic() - since, waits=False, stack=process.where())]

    def _new_process(self) -> OwnProcess | None:
        """Returns a new process, or None if there may be no more."""
        coming = self._coming = self._context.engine.own_process(self._context.id)
        if coming is None:
            return None
        if self._killed:
            coming.cancel()
        try:
            (process,) = coming.result()
        except CancelledError as error:
            raise StartCancelledError(f"{self._context.id} was stopped while it waited for a process") from error
        found: OwnProcess = process
        if self._killed:
            found.kill()
        return found


class _Call(NamedTuple):
    """A call of the object of this process, which the first one creates. `make` and `arguments` are pickled."""

    method: str
    make: bytes
    arguments: bytes

    def run(self) -> tuple[Any, Figures | None]:
        """Returns the result, and the metrics that the plugin has recorded meanwhile."""
        with counting() as plugins:
            if not _object:
                _refuse_sessions()
                _object.append(cloudpickle.loads(self.make)())
            return getattr(_object[0], self.method)(*cloudpickle.loads(self.arguments)), plugins.counted()


_object: Final[list[Any]] = []  # of this process, if it belongs to a task


def _refuse_sessions() -> None:
    """Makes PySpark raise WorkerSparkNeededError instead of starting a second Spark in this process."""

    def refuse(*_arguments: object, **_more: object) -> None:
        raise WorkerSparkNeededError("the plugin uses a SparkSession, which it can only have on the worker")

    for owner, name in ((SparkContext, "getOrCreate"), (SparkSession, "getActiveSession")):
        setattr(owner, name, refuse)
