"""The common part of tests and benchmarks of task runners: an engine without Spark, and a loop that acts like a task
actor.
"""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from pyspark import TaskContext as SparkTaskContext

from heeler.worker.config import WorkerConfig
from heeler.worker.part_settings import task_settings
from spark_tasks.plugins import Kind, Plugins
from spark_tasks.plugins.discovery import Found, installed
from spark_tasks.spark.executor import run_split, value_of
from spark_tasks.spark.residents.batches import Waiting, prepared
from spark_tasks.task import Progress, StartGuard, TaskContext, TaskRunner, WorkerSettings
from tests.rigs.support import wait_until
from tests.rigs.waiting_engine import EngineWithoutProcesses


def plugins_with(*connectors: str) -> Plugins:
    """heeler's own plugins and these connectors of tests ("module:Class"), as if a distribution provided them."""
    more = [Found(target.replace(":", "."), Kind.CONNECTOR, target, "classpath") for target in connectors]
    return Plugins(installed=[*installed(), *more])


_splits: list[None] = []  # those that are running
_splits_lock = threading.Lock()


class ThreadEngine(EngineWithoutProcesses):
    """The Engine contract with threads as executors; splits are pickled as for Spark, deferred ones when they begin.

    `free` cleared: jobs wait. `lose`: this many of the next jobs fail as if Spark had lost them; `lose_answers`: this
    many of the next jobs fail after they have done all their work.
    """

    job_per_batch = True

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.lose: list[Exception] = []
        self.lose_answers: list[Exception] = []
        self.jobs = 0
        self.kinds: Counter[str] = Counter()  # of splits, by their classes' names

    def submit(self, task: str, splits: Sequence[Any]) -> Future[list[Any]]:  # noqa: ARG002
        future: Future[list[Any]] = Future()
        threading.Thread(target=self._run, args=(future, prepared(splits)), daemon=True).start()
        self.jobs += 1
        self.kinds.update(type(split).__name__ for split in splits)
        return future

    def _run(self, future: Future[list[Any]], splits: list[Waiting]) -> None:
        self.free.wait(60)
        if not future.set_running_or_notify_cancel():
            return
        with suppress(InvalidStateError), _alone_at_the_end():
            try:
                pickled = [split if isinstance(split, bytes) else pickle.dumps(split) for split in splits]
                answers = [value_of(run_split(split)) for split in pickled if not _lost(self.lose)]
                _lost(self.lose_answers)
                future.set_result(answers)
            except InvalidStateError:
                raise
            except Exception as error:  # noqa: BLE001
                future.set_exception(error)

    def await_spark(self) -> None:
        raise AssertionError("there is no Spark here")

    def close(self) -> None:
        """Nothing to close."""


@contextmanager
def _alone_at_the_end() -> Iterator[None]:
    """Leaves no TaskContext when the last of several splits ends. PySpark has one for a process, in which Spark runs
    one task; splits that end in another order than they began would leave it behind, and no Spark could start here.
    """
    with _splits_lock:
        _splits.append(None)
    try:
        yield
    finally:
        with _splits_lock:
            _splits.pop()
            if not _splits:
                SparkTaskContext._setTaskContext(None)  # noqa: SLF001 - as Spark's worker does


def _lost(errors: list[Exception]) -> bool:
    if errors:
        raise errors.pop(0)
    return False


class MemoryOffsets:
    """An OffsetStore; `written` contains all writes in order."""

    topic = "none"

    def __init__(self) -> None:
        self.offsets: dict[str, Any] = {}
        self.written: list[Any] = []

    def read(self) -> Sequence[Any]:
        return [(json.loads(partition), offset) for partition, offset in self.offsets.items()]

    def begin_write(self, offsets: Sequence[Any]) -> Callable[[], None]:
        self.written += [(dict(partition), dict(offset)) for partition, offset in offsets]
        self.offsets |= {json.dumps(dict(partition), sort_keys=True): dict(offset) for partition, offset in offsets}
        return lambda: None

    def records(self, offsets: Sequence[Any]) -> Sequence[Any]:  # noqa: ARG002
        return []

    def stop_reading(self) -> None:
        pass

    def close_soon(self) -> None:
        pass


class Loop:
    """A thread that acts like a task actor: calls run_once, sleeps, wakes up, and handles stop and pause."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        self._orders: list[Callable[[TaskRunner], None]] = []
        self.records = 0
        self.batches: list[tuple[float, Progress]] = []
        self.error: Exception | None = None
        self.runs = 0
        self.idle_ms = 0  # what the last run_once returned

    def wake(self) -> None:
        self._woken.set()

    def start(self, runner: TaskRunner) -> Loop:
        self.runner = runner
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def order(self, what: Callable[[TaskRunner], None]) -> None:
        self._orders.append(what)
        self.wake()

    def _run(self) -> None:
        try:
            self.runner.start()
            while True:
                while self._orders:
                    self._orders.pop(0)(self.runner)
                self._step(self.runner.run_once())
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001 - for whoever waits
            with suppress(Exception):
                self.runner.close()
            self.error = error  # last: a test that waits for it looks at what the task has left

    def _step(self, progress: Progress) -> None:
        self.runs += 1
        self.idle_ms = progress.idle_ms
        self.records += progress.records
        if progress.records:
            self.batches.append((time.perf_counter(), progress))
        if progress.idle_ms:
            self._woken.wait(progress.idle_ms / 1000)
            self._woken.clear()

    def stop(self) -> None:
        def close(runner: TaskRunner) -> None:
            runner.close()
            raise StopIteration

        if self._thread.is_alive():
            self.order(close)
            self._thread.join(30)
            assert not self._thread.is_alive(), "the task does not stop"

    def await_records(self, count: int, within: float = 20.0) -> None:
        def enough() -> bool:
            if self.error is not None:
                raise self.error
            return self.records >= count

        wait_until(enough, within, f"{count} records")

    def await_error(self, within: float = 20.0) -> Exception:
        return wait_until(lambda: self.error, within, "the task to fail")


_REQUIRED = {
    "bootstrap.servers": "localhost:9", "group.id": "group", "key.converter": "none", "value.converter": "none",
    **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
}


def worker_settings(properties: Mapping[str, str]) -> WorkerSettings:
    """What a worker with these properties gives its tasks."""
    return _settings(tuple(sorted(properties.items())))


@lru_cache(maxsize=16)  # of a worker with a thousand tasks, once
def _settings(properties: tuple[tuple[str, str], ...]) -> WorkerSettings:
    return task_settings(WorkerConfig.of({**_REQUIRED, **dict(properties)}))


def context_with(
    worker: Mapping[str, str] | None = None, guard: StartGuard | None = None, **connector: str
) -> TaskContext:
    """The context of a task that only reads its settings; an underscore in a connector's key is a dot."""
    config = {key.replace("_", "."): value for key, value in connector.items()}
    engine: Any = None
    return TaskContext(
        connector_name="c", task=1, worker=worker_settings(worker or {}), connector=config, config=config,
        engine=engine, offsets=None, wake=lambda: None, topic_used=lambda _topic: None, guard=guard,
    )


def context_of(
    engine: Any, worker: Mapping[str, str], connector: Mapping[str, str], wake: Callable[[], None], task: int = 0,
    offsets: Any = None, topic_used: Callable[[str], None] = lambda _topic: None,
) -> TaskContext:
    """The context of a connector's task whose configuration is the connector's."""
    return TaskContext(
        connector_name=connector["name"], task=task, worker=worker_settings(worker), connector=connector,
        config=connector, engine=engine, offsets=offsets, wake=wake, topic_used=topic_used,
    )
