"""A source task without Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, cast

import pytest

from spark_tasks.errors import ConnectError
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
        batch.set_exception(CancelledError())


def test_a_batch_that_is_submitted_after_its_task_was_abandoned_is_cancelled(tmp_path: Path) -> None:
    """The plan may have taken longer than the task had to stop; what the batch writes would be duplicates."""
    (tmp_path / "limit").write_text("3")
    engine = Engine()
    worker = {"bootstrap.servers": "127.0.0.1:1", "key.converter": STRING, "value.converter": STRING}
    connector = {"name": "n", "connector.class": "tests.rigs.task_plugins.NumbersConnector", "topic": "t",
                 "folder": str(tmp_path)}
    context = context_of(cast("Any", engine), worker, connector, lambda: None, offsets=MemoryOffsets())
    pipeline = SourcePipeline(context.worker.converters, context.connector)
    task = SourceTask(context, SourceSettings.of(context), NumbersConnector, pipeline, cast("Delivery", Idle()))
    task.start()
    engine.meanwhile = task.cancel
    with pytest.raises(ConnectError, match="the batch of n-0 was cancelled"):
        task.run_once()
    task.close()
