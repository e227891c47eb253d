"""A task's object of a plugin that works between batches, a source's reader or a sink's writer: in an executor process
of its own, or on the worker.

Its methods may be any code. On the worker, an endless loop or native code that holds the global interpreter lock would
delay REST, heartbeats and all other tasks, and nothing could end it. In a process of its own, as PySpark's stream
readers have, it costs only its task: when that is stopped, the process is killed (ADR 0058).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession

from spark_tasks.errors import ConnectError, RetriableError, StartCancelledError
from spark_tasks.metrics.plugins import Figures, PluginMetrics, work_for
from spark_tasks.plugins.api import Connector
from spark_tasks.spark.executor import dedicate
from spark_tasks.task import OwnProcess, PluginCall, TaskContext

_logger = logging.getLogger(__name__)

T = TypeVar("T")
_OURS: Final = "spark_tasks.connectors."
_ATTEMPTS: Final = 3  # to create an object whose process ends, because of what another connector has left there


class WorkerSparkNeededError(ConnectError):
    """Plugin code in a process of its own has asked PySpark for a session, which only the worker has."""


def needs_own_process(connector: type[Connector]) -> bool:
    """Returns whether the objects of a connector need a process of their own: those of heeler's own connectors do not.
    (Those for any data source of PySpark find it by its name, which only the worker's plugins have.)
    """
    return not connector.__module__.startswith(_OURS)


class PluginObject(Generic[T]):
    """`make` creates the object, and can be pickled. `needs_start`: methods that another object can only be asked after
    the task has started over. `kill`, `stop_opening` and `calls` may be called on any thread, the others on one.
    """

    def __init__(self, context: TaskContext, make: Callable[[], T], needs_start: Collection[str] = ()) -> None:
        self._context = context
        self._make = make
        self._needs_start = needs_start
        self._token = uuid.uuid4().hex
        self._here: T | None = None
        self._process: OwnProcess | None = None
        self._made = False  # it exists in the process
        self._lost = False  # its process has ended before
        self._coming: Future[list[Any]] | None = None
        self._in_progress: tuple[str, float] | None = None  # a call in the process
        self._stopping = False
        self._killed = False

    @property
    def is_here(self) -> bool:
        """Whether it is on the worker."""
        return self._here is not None

    @property
    def exists(self) -> bool:
        """Whether there is one now."""
        return self.is_here or (self._made and self._process is not None and not self._process.ended)

    def open_here(self) -> None:
        """Creates it on the worker. Raises what the plugin raises."""
        self.end()
        self._here = self._make()

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the object. The first call creates it, in a process of its own if there may be one more.

        Raises what the plugin raises, and a RetriableError if the process ends: the next call then creates another
        object.
        """
        for left in reversed(range(_ATTEMPTS)):
            process = self._process_for_call(method)
            if process is None:
                return getattr(self._here, method)(*arguments)
            made = self._made
            try:
                return self._call_there(process, method, arguments)
            except WorkerSparkNeededError as error:
                self.open_here()
                if made and method in self._needs_start:
                    raise RetriableError(f"{error}; the task continues with a new one there") from error
                return getattr(self._here, method)(*arguments)
            except RetriableError:
                if made or not left or not process.ended or self._stopping or self._killed:
                    raise
        raise AssertionError  # the last attempt returns or raises

    def _process_for_call(self, method: str) -> OwnProcess | None:
        """Returns the process of the object, or None if it is on the worker. Raises RetriableError if the process has
        ended since the last call, and the method cannot be asked of another object.
        """
        if self.is_here:
            return None
        if self._process is not None and self._process.ended:
            self._drop_process()
        if self._lost and not self._made and method in self._needs_start:
            raise RetriableError(f"the process of {self._context.id} has ended")
        if self._process is None:
            self._process = self._new_process()
        if self._process is None:
            self.open_here()
        elif self._killed:
            self._process.kill()
        return self._process

    def _call_there(self, process: OwnProcess, method: str, arguments: tuple[Any, ...]) -> Any:
        make = b"" if self._made else cloudpickle.dumps(self._make)
        call = _Call(self._token, method, make, cloudpickle.dumps(arguments))
        self._in_progress = method, time.monotonic()
        try:
            result, figures = process.run(call)
        finally:
            self._in_progress = None
            if process.ended:
                self._drop_process()
        self._made = True
        if figures is not None:
            self._context.metrics.plugins.merge(figures)
        return result

    def _drop_process(self) -> None:
        self._lost, self._made, self._process = self._lost or self._made, False, None

    def end(self) -> None:
        """Gives it up, and ends its process."""
        self._here, self._made = None, False
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
        """Ends the wait for a process, with StartCancelledError; the task is being stopped."""
        self._stopping = True
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
        """Returns a new process, or None if there may be no more. Raises StartCancelledError if the task is stopped
        meanwhile, and RetriableError if there may be no more and a process has ended: the worker must not end, too.
        """
        coming = self._coming = self._context.engine.own_process(self._context.id)
        if coming is None:
            return None
        if self._stopping:
            coming.cancel()
        try:
            process: OwnProcess | None = coming.result()[0]
        except CancelledError as error:
            raise StartCancelledError(f"{self._context.id} was stopped while it waited for a process") from error
        if process is not None:
            return process
        about = {"heeler_about": (self._context.connector_name, self._context.task)}
        if self._lost:
            raise RetriableError(f"there is no process for {self._context.id}: half of the executor processes "
                                 "(heeler.executors.max) belong to other tasks")
        _logger.info("What the plugin does between batches runs on the worker, because half of the executor processes "
                     "(heeler.executors.max) already belong to other tasks", extra=about)
        return None


class _Call(NamedTuple):
    """A call of the object of this process, which the first one creates with `make`. That and `arguments` are pickled;
    `make` is empty if the object exists.
    """

    token: str
    method: str
    make: bytes
    arguments: bytes

    def run(self) -> tuple[Any, Figures | None]:
        """Returns the result, and the metrics that the plugin has recorded since the last result."""
        if _objects.keys() - {self.token}:
            raise ConnectError("this process belongs to another task")
        work_for(_metrics)
        try:
            if not _objects:
                dedicate()
                _refuse_sessions()
                _objects[self.token] = cloudpickle.loads(self.make)()
            result = getattr(_objects[self.token], self.method)(*cloudpickle.loads(self.arguments))
        except Exception as error:
            for cause in _causes(error):
                if isinstance(cause, WorkerSparkNeededError):
                    raise cause from None
            raise
        figures = _metrics.counted()
        if figures is not None:
            _metrics.replace(Figures())
        return result, figures


_objects: Final[dict[str, Any]] = {}  # of this process, if it belongs to a task: one, by its token
_metrics: Final = PluginMetrics()


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(100):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _refuse_sessions() -> None:
    """Makes PySpark raise WorkerSparkNeededError instead of starting a second Spark in this process."""

    def refuse(*_arguments: object, **_more: object) -> None:
        raise WorkerSparkNeededError("the plugin uses a SparkSession, which it can only have on the worker")

    for owner, name in ((SparkContext, "getOrCreate"), (SparkSession, "getActiveSession")):
        setattr(owner, name, refuse)
