"""An object of a plugin that does not work on batches (a connector, or the reader or writer of one of its tasks): in an
executor process of its own, or on the worker.

Its methods may be any code. On the worker, an endless loop or native code that holds the global interpreter lock would
delay REST, heartbeats and all other tasks, and nothing could end it. In a process of its own, as PySpark's stream
readers have, it costs only its owner: when that is stopped, the process is killed (ADRs 0058 and 0059).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession

from spark_tasks.errors import ConnectError, RetriableError, StartCancelledError
from spark_tasks.metrics.plugins import Figures, PluginMetrics, work_for
from spark_tasks.plugin_processes.channel import Address, Answer, Channel, ChannelToWorker, unknown_message
from spark_tasks.plugin_processes.relayed_log import Levels, RelayHandler, current_levels, set_levels
from spark_tasks.spark.context import ExecutorEndedError
from spark_tasks.spark.executor import dedicate
from spark_tasks.task import Engine, OwnProcess, PluginCall, TaskContext

_logger = logging.getLogger(__name__)

T = TypeVar("T")
_LEVELS_S: Final = 1.0  # how often the levels of loggers are compared
_ATTEMPTS: Final = 3  # to create an object whose process ends, because of what another connector has left there


class WorkerSparkNeededError(ConnectError):
    """Plugin code in a process of its own has asked PySpark for a session, which only the worker has."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose object it is. `id`: the label of its process (see Engine.own_process); `about`: of its log lines."""

    engine: Engine
    id: str
    about: str | tuple[str, int]
    metrics: PluginMetrics

    @classmethod
    def of(cls, task: TaskContext) -> Self:
        """A task as the owner."""
        return cls(task.engine, task.id, (task.connector_name, task.task), task.metrics.plugins)


@dataclass(frozen=True, slots=True)
class Maker(Generic[T]):
    """Creates an object: `here` on the worker, `there` in a process with its channel and metrics; it can be pickled.
    `answer` and `ended`: see Channel.
    """

    here: Callable[[], T]
    there: Callable[[ChannelToWorker, PluginMetrics], T]
    answer: Answer = unknown_message
    ended: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, make: Callable[[], T]) -> Self:
        """`make` creates it anywhere, and can be pickled."""
        return cls(make, partial(_made_by, make))


def _made_by(make: Callable[[], T], _channel: ChannelToWorker, _metrics: PluginMetrics) -> T:
    return make()


class PluginObject(Generic[T]):
    """`needs_start`: methods that another object can only be asked after its owner has started over. `kill`,
    `stop_opening` and `calls` may be called on any thread, the others on one.
    """

    def __init__(self, owner: Owner, maker: Maker[T], needs_start: Collection[str] = ()) -> None:
        self._owner = owner
        self._maker = maker
        self._needs_start = needs_start
        self.generation = 0  # the number of objects that there have been
        self._token = uuid.uuid4().hex
        self._here: T | None = None
        self._process: OwnProcess | None = None
        self._made = False  # it exists in the process
        self._lost = False  # its process has ended before
        self._coming: Future[list[Any]] | None = None
        self._in_progress: tuple[str, float] | None = None  # a call in the process
        self._stopping = False
        self._killed = False
        self._channel: Channel | None = None
        self._levels: Levels = {}  # of the process
        self._levels_at = 0.0

    @property
    def is_here(self) -> bool:
        """Whether it is on the worker."""
        return self._here is not None

    @property
    def exists(self) -> bool:
        """Whether there is one now."""
        return self.is_here or (self._made and self._process is not None and not self._process.ended)

    @property
    def is_there(self) -> bool:
        """Whether it has a process. Any thread."""
        process = self._process
        return process is not None and not process.ended

    def open_here(self) -> None:
        """Creates it on the worker. Raises what the plugin raises, and StartCancelledError after `kill`."""
        self.end()
        if self._killed:
            raise StartCancelledError(f"{self._owner.id} was stopped before it had a process")
        self._here = self._maker.here()
        self.generation += 1

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
                    raise RetriableError(f"{error}; continues with a new one there") from error
                return getattr(self._here, method)(*arguments)
            except RetriableError:
                if made or not left or not process.ended or self._stopping or self._killed:
                    raise
        raise AssertionError  # the last attempt returns or raises

    def call_last(self, method: str) -> None:
        """Calls a method unless its process has ended, or ends meanwhile. Raises what the plugin raises."""
        if self.exists:
            with suppress(ExecutorEndedError):
                self.call(method)

    def _process_for_call(self, method: str) -> OwnProcess | None:
        """Returns the process of the object, or None if it is on the worker. Raises RetriableError if the process has
        ended since the last call, and the method cannot be asked of another object.
        """
        if self.is_here:
            return None
        if self._process is not None and self._process.ended:
            self._drop_process()
        if self._lost and not self._made and method in self._needs_start:
            raise RetriableError(f"the process of {self._owner.id} has ended")
        if self._process is None:
            self._process = self._new_process()
        if self._process is None:
            self.open_here()
        elif self._killed:
            self._process.kill()
        return self._process

    def _call_there(self, process: OwnProcess, method: str, arguments: tuple[Any, ...]) -> Any:
        make, address = b"", None
        if not self._made:
            make, address = cloudpickle.dumps(self._maker.there), self._open_channel(process)
        call = _Call(self._token, method, make, address, self._changed_levels(), cloudpickle.dumps(arguments))
        self._in_progress = method, time.monotonic()
        try:
            result, figures = process.run(call)
        finally:
            self._in_progress = None
            if process.ended:
                self._drop_process()
        if not self._made:
            self._made = True
            self.generation += 1
        if figures is not None:
            self._owner.metrics.merge(figures)
        return result

    def _open_channel(self, process: OwnProcess) -> Address:
        def ended() -> None:
            process.has_left()
            self._maker.ended()

        self._close_channel()
        channel = self._channel = Channel(self._owner.about, self._owner.metrics, self._maker.answer, ended)
        return channel.address

    def _close_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _changed_levels(self) -> Levels | None:
        """The worker's levels for loggers, if the process has others; for at most a second it may have."""
        now = time.monotonic()
        if self._made and now - self._levels_at < _LEVELS_S:
            return None
        former, self._levels, self._levels_at = self._levels if self._made else None, current_levels(), now
        return self._levels if self._levels != former else None

    def _drop_process(self) -> None:
        self._lost, self._made, self._process = self._lost or self._made, False, None

    def end(self) -> None:
        """Gives it up, and ends its process."""
        self._here, self._made = None, False
        self._close_channel()
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
        """Returns a new process, or None if there may be no more. Raises StartCancelledError if its owner is
        stopped meanwhile, and RetriableError if there may be no more and a process has ended: the worker must not end,
        too.
        """
        coming = self._coming = self._owner.engine.own_process(self._owner.id)
        if coming is None:
            return None
        if self._stopping:
            coming.cancel()
        try:
            process: OwnProcess | None = coming.result()[0]
        except CancelledError as error:
            raise StartCancelledError(f"{self._owner.id} was stopped while it waited for a process") from error
        if process is not None:
            return process
        if self._lost:
            raise RetriableError(f"there is no process for {self._owner.id}: half of the executor processes "
                                 "(heeler.executors.max) belong to others")
        _logger.info("This plugin's code runs on the worker, because half of the executor processes "
                     "(heeler.executors.max) already belong to others", extra={"heeler_about": self._owner.about})
        return None


class _Call(NamedTuple):
    """A call of the object of this process, which the first one creates with `make`, with a channel to `address`.
    `make` and `arguments` are pickled; `make` is empty if the object exists. `levels`: the worker's levels of loggers,
    None if the process has them.
    """

    token: str
    method: str
    make: bytes
    address: Address | None
    levels: Levels | None
    arguments: bytes

    def run(self) -> tuple[Any, Figures | None]:
        """Returns the result, and the metrics that the plugin has recorded since the last result."""
        if _objects.keys() - {self.token}:
            raise ConnectError("this process belongs to another task")
        work_for(_metrics)
        if self.levels is not None:
            set_levels(self.levels)
        try:
            if not _objects and self.address is not None:
                dedicate()
                _refuse_sessions()
                channel = ChannelToWorker(self.address)
                logging.getLogger().addHandler(RelayHandler(channel.send))
                _objects[self.token] = cloudpickle.loads(self.make)(channel, _metrics)
            result = getattr(_objects[self.token], self.method)(*cloudpickle.loads(self.arguments))
        except Exception as error:
            for cause in _causes(error):
                if isinstance(cause, WorkerSparkNeededError):
                    raise cause from None
            raise
        return result, _metrics.take()


_objects: Final[dict[str, Any]] = {}  # of this process, if it belongs to a task: one, by its token
_metrics: Final = PluginMetrics()  # of the object of this process, since they were last sent to the worker


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
