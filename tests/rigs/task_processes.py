"""Readers and writers of tasks in executor processes of their own, whose plugins note which process calls them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.plugins.api import SinkConnector, SourceConnector
from spark_tasks.sinks.task_writer import TaskWriter
from spark_tasks.sources.task_reader import TaskReader
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.task import TaskContext
from tests.rigs.engines import SETTINGS
from tests.rigs.tasks import MemoryOffsets, context_of
from tests.rigs.workers import wait_gone


def note_call(options: Mapping[str, str], what: str) -> None:
    """Called by a plugin: notes what is called, and in which process."""
    with Path(options["folder"], "calls").open("a") as calls:
        calls.write(f"{what} {os.getpid()}\n")


@contextmanager
def engine_without_spark(group: str) -> Iterator[ResidentEngine]:
    """An engine that runs all processes itself."""
    engine = ResidentEngine({"group.id": group}, replace(SETTINGS, spark_delay_s=3600.0))
    engine.start()
    try:
        yield engine
    finally:
        engine.close()


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Exception]]:
    """Calls it in a thread. Returns the thread, and what it has raised when it has ended."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - for the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def wait_ended(*pids: int) -> None:
    """Until these processes have ended."""
    wait_gone([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)])


class TaskProcessRig:
    """Readers and writers of the connector "c". `metrics`: those of the newest one."""

    def __init__(self, engine: ResidentEngine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._readers: list[TaskReader] = []
        self._writers: list[TaskWriter] = []
        self.metrics = TaskMetrics()

    def reader(self, connector: type[SourceConnector], **config: str) -> TaskReader:
        self._readers.append(TaskReader(self._context(config), connector))
        return self._readers[-1]

    def writer(self, connector: type[SinkConnector], **config: str) -> TaskWriter:
        self._writers.append(TaskWriter(self._context(config), connector))
        return self._writers[-1]

    def _context(self, config: Mapping[str, str]) -> TaskContext:
        given = {"name": "c", "folder": str(self._folder), **config}
        context = context_of(self._engine, {}, given, lambda: None, offsets=MemoryOffsets())
        self.metrics = context.metrics
        return context

    def calls(self) -> list[tuple[str, int]]:
        """The calls that were noted, and the process of each."""
        file = self._folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(what, int(pid)) for what, pid in map(str.split, lines)]

    def close(self) -> None:
        for reader in self._readers:
            reader.kill()
            reader.stop()
        for writer in self._writers:
            writer.kill()
            writer.end()
