"""A source task without Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, cast

import pytest

from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.sources.delivery import Delivery, Lane
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.sources.task import SourceTask
from tests.rigs.task_plugins import NumbersConnector
from tests.rigs.tasks import MemoryOffsets, context_of

STRING = "org.apache.kafka.connect.storage.StringConverter"


class Idle:
    """A delivery whose batches never end."""

    max_lanes, overlaps, suspended, open, owes, boundary = 1, True, False, False, False, None

    def lanes(self, count: int) -> Sequence[Lane]:
        return [Lane(None)] * count

    def failure(self, error: Exception) -> Exception:
        return error

    def start(self) -> None: ...

    recover = abort = cancel = close = start


class Engine:
    """`meanwhile` is called while a batch is submitted."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None

    def submit(self, _task: str, _splits: Sequence[Any]) -> Future[list[Any]]:
        self.meanwhile()
        return Future()

    def cancel(self, batch: Future[list[Any]]) -> None:
        if not batch.done():
            batch.set_exception(CancelledError())


class Owing(Idle):
    """A delivery that could not write the offsets of an earlier batch. A task that asks for them forever fails."""

    asked = 0

    @property
    def owes(self) -> bool:  # type: ignore[override]
        self.asked += 1
        assert self.asked < 100, "the task does not get on"
        return self.asked > 1

    def settle(self, *, finish: bool) -> bool:
        return not finish

    def check(self) -> None: ...


def task_of(folder: Path, engine: Engine, delivery: Idle) -> SourceTask:
    (folder / "limit").write_text("3")
    worker = {"bootstrap.servers": "127.0.0.1:1", "key.converter": STRING, "value.converter": STRING}
    connector = {"name": "n", "connector.class": "tests.rigs.task_plugins.NumbersConnector", "topic": "t",
                 "folder": str(folder)}
    context = context_of(cast("Any", engine), worker, connector, lambda: None, offsets=MemoryOffsets())
    pipeline = SourcePipeline(context.worker.converters, context.connector)
    return SourceTask(context, SourceSettings.of(context), NumbersConnector, pipeline, cast("Delivery", delivery))


def test_a_batch_that_is_submitted_after_its_task_was_abandoned_is_cancelled(tmp_path: Path) -> None:
    """The plan may have taken longer than the task had to stop; what the batch writes would be duplicates."""
    engine = Engine()
    task = task_of(tmp_path, engine, Idle())
    task.start()
    engine.meanwhile = task.cancel
    with pytest.raises(ConnectError, match="the batch of n-0 was cancelled"):
        task.run_once()
    task.close()


def test_a_batch_that_fails_while_offsets_are_owed_does_not_hold_up_a_pause(tmp_path: Path) -> None:
    class Failing(Engine):
        def submit(self, task: str, splits: Sequence[Any]) -> Future[list[Any]]:
            batch = super().submit(task, splits)
            batch.set_running_or_notify_cancel()
            self.running = batch
            return batch

    engine = Failing()
    task = task_of(tmp_path, engine, Owing())
    task.start()
    while not hasattr(engine, "running"):
        task.run_once()
    engine.running.set_exception(RetriableError("Kafka is away"))
    task.pause()
    task.close()
