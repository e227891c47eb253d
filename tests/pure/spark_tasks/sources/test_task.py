"""A source task without Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import NO_RECORD, Refusals
from spark_tasks.errors import ConnectError, DataError, RetriableError, ToleranceExceededError
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.pipeline.errors.failures import FailedStage, Failure
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.sources.delivery import AtLeastOnce, Delivery, Lane
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.sources.split import SourceResult
from spark_tasks.sources.task import SourceTask
from spark_tasks.spark.context import ExecutorEndedError
from spark_tasks.tasks import retries
from spark_tasks.tasks.pace import IdleTasks
from tests.rigs.support import wait_until
from tests.rigs.task_plugins import NumbersConnector, NumbersReader, SimpleConnector
from tests.rigs.tasks import MemoryOffsets, context_of
from tests.rigs.waiting_engine import WaitingEngine

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


class Away(Idle):
    """A delivery that cannot write offsets, which takes long. `attempts`: how often it has tried."""

    attempts = 0

    @property
    def owes(self) -> bool:  # type: ignore[override]
        return self.attempts > 0

    def written(self, uses: Any) -> None: ...
    def check(self) -> None: ...
    def begin_commit(self, offsets: Any) -> None: ...

    def commit(self, *_: Any) -> bool:
        self.attempts += 1
        raise RetriableError("no answer within 30 s")

    def settle(self, *, finish: bool) -> bool:  # noqa: ARG002
        return self.owes and self.commit()


class Running(WaitingEngine):
    """The batch that was submitted last is running."""

    batch: Future[list[Any]] | None = None

    def submit(self, task: str, splits: Sequence[Any]) -> Future[list[Any]]:
        self.batch = super().submit(task, splits)
        self.batch.set_running_or_notify_cancel()
        return self.batch

    def of(self, task: SourceTask) -> Future[list[Any]]:
        """Runs the task until it has submitted a batch."""
        while self.batch is None:
            task.run_once()
        return self.batch


def task_of(
    folder: Path, engine: WaitingEngine, delivery: Idle, offsets: MemoryOffsets | None = None,
    kind: type[NumbersConnector] = NumbersConnector, idle: IdleTasks | None = None,
) -> SourceTask:
    (folder / "limit").write_text("3")
    worker = {"bootstrap.servers": "127.0.0.1:1", "key.converter": STRING, "value.converter": STRING}
    connector = {"name": "n", "connector.class": "tests.rigs.task_plugins.NumbersConnector", "topic": "t",
                 "folder": str(folder)}
    context = context_of(cast("Any", engine), worker, connector, lambda: None, offsets=offsets or MemoryOffsets())
    pipeline = SourcePipeline(context.worker.converters, context.connector)
    return SourceTask(context, SourceSettings.of(context), kind, pipeline, cast("Delivery", delivery), idle)


@pytest.mark.parametrize("how", [SourceTask.pause, SourceTask.close])
def test_a_task_that_pauses_or_stops_while_it_looks_for_records_is_no_idle_task(
    tmp_path: Path, how: Callable[[SourceTask], None]
) -> None:
    """The look that is in flight finds nothing. The pauses of the worker's other tasks grow with each idle one."""
    class Quiet(Idle):
        due_ms = None

        def written(self, uses: Any) -> None: ...
        def settle(self, *, finish: bool) -> bool:  # noqa: ARG002
            return False

    engine, idle = Running(), IdleTasks()
    task = task_of(tmp_path, engine, Quiet(), kind=SimpleConnector, idle=idle)
    task.start()
    engine.of(task).set_result([SourceResult({}, 0, 0, 0.0, (), None)])
    how(task)
    assert idle.shared_pause_ms == 0
    task.close()


def test_a_batch_that_is_submitted_after_its_task_was_abandoned_is_cancelled(tmp_path: Path) -> None:
    """The plan may have taken longer than the task had to stop; what the batch writes would be duplicates."""
    engine = WaitingEngine()
    task = task_of(tmp_path, engine, Idle())
    task.start()
    engine.meanwhile = task.cancel
    with pytest.raises(ConnectError, match="the batch of n-0 was cancelled"):
        task.run_once()
    task.close()


def test_the_bad_record_that_fails_a_task_is_logged_by_the_worker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The executor process logged it, where the line was no part of the connector's log."""
    engine, refusals = Running(), Refusals(ErrorHandling("n", 0, log=True))
    task = task_of(tmp_path, engine, Idle())
    task.start()
    failure = Failure(FailedStage.VALUE_CONVERTER, "a.B", DataError("wrong"), "a record: wrong", 0)
    with pytest.raises(ToleranceExceededError) as caught:
        refusals.add(failure, NO_RECORD)
    refusals.end_source(caught.value)
    assert "Error encountered" not in caplog.text
    engine.of(task).set_exception(caught.value)
    with pytest.raises(ToleranceExceededError):
        task.run_once()
    assert "Error encountered in task n-0. Executing stage 'VALUE_CONVERTER' with class 'a.B'" in caplog.text
    task.cancel()
    task.close()


def test_a_batch_that_fails_while_offsets_are_owed_does_not_hold_up_a_pause(tmp_path: Path) -> None:
    engine = Running()
    task = task_of(tmp_path, engine, Owing())
    task.start()
    engine.of(task).set_exception(RetriableError("Kafka is away"))
    task.pause()
    task.close()


def test_a_task_that_stops_while_kafka_is_away_tries_once_to_write_its_offsets(tmp_path: Path) -> None:
    """It tried twice, with the same result: each attempt takes 30 s."""
    engine, delivery = Running(), Away()
    task = task_of(tmp_path, engine, delivery)
    task.start()
    engine.of(task).set_result([SourceResult({}, 1, 1, 0.0, ())])
    task.close()
    assert delivery.attempts == 1


def test_a_task_that_stops_tries_to_write_the_offsets_of_earlier_batches(tmp_path: Path) -> None:
    delivery = Away()
    delivery.attempts = 1
    task = task_of(tmp_path, WaitingEngine(), delivery)
    task.start()
    task.run_once()
    assert delivery.attempts == 2
    task.close()
    assert delivery.attempts == 3


def test_a_task_that_was_suspended_while_it_was_paused_reads_its_offsets_again(tmp_path: Path) -> None:
    """It went on where it had paused, although another worker had been running it, and wrote records again."""
    class Read(MemoryOffsets):
        reads = 0

        def read(self) -> Sequence[Any]:
            self.reads += 1
            return super().read()

    class Suspended(Idle):
        suspended = False

        def recover(self) -> None:  # type: ignore[override]
            self.suspended = False

        def settle(self, *, finish: bool) -> bool:  # noqa: ARG002
            return False

    engine, delivery, offsets = Running(), Suspended(), Read()
    task = task_of(tmp_path, engine, delivery, offsets)
    task.start()
    assert offsets.reads == 1
    task.pause()
    delivery.suspended = True
    task.run_once()
    task.resume()
    engine.of(task).set_exception(RetriableError("the end of the test"))
    assert offsets.reads == 2
    task.close()


def test_offsets_are_on_their_way_before_the_next_batch_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which may take hours, as it runs the plugin's code."""
    latest, offsets, seen = NumbersReader.latestOffset, MemoryOffsets(), []

    def observed(reader: NumbersReader, *arguments: Any) -> Any:
        seen.append(list(offsets.written))
        return latest(reader, *arguments)

    monkeypatch.setattr(NumbersReader, "latestOffset", observed)
    engine, delivery = Running(), AtLeastOnce(cast("KafkaCluster", None), offsets, 60_000, idempotent=False)
    task = task_of(tmp_path, engine, delivery, offsets)
    task.start()
    engine.of(task).set_result([SourceResult({}, 3, 3, 0.0, ())])
    task.run_once()
    assert seen == [[], [({"stream": "0"}, {"at": 3})]]
    task.close()


def test_a_task_that_was_given_up_writes_no_offsets(tmp_path: Path) -> None:
    """Another task may have written newer ones."""
    class Slow(AtLeastOnce):
        def written(self, uses: Any) -> None:
            super().written(uses)
            task.cancel()  # while the plugin's code runs

    engine, offsets = Running(), MemoryOffsets()
    delivery = Slow(cast("KafkaCluster", None), offsets, 60_000, idempotent=False)
    task = task_of(tmp_path, engine, delivery, offsets)
    task.start()
    engine.of(task).set_result([SourceResult({}, 3, 3, 0.0, ())])
    with pytest.raises(ConnectError, match="n-0 was cancelled"):
        task.run_once()
    assert offsets.written == []
    task.close()


def test_a_transaction_that_was_given_up_is_aborted_before_the_next_attempt(tmp_path: Path) -> None:
    """Until then, readers of committed records wait for it."""
    class Counting(Idle):
        recovered = 0

        def recover(self) -> None:  # type: ignore[override]
            self.recovered += 1

        def settle(self, *, finish: bool) -> bool:  # noqa: ARG002
            return False

    engine, delivery = Running(), Counting()
    task = task_of(tmp_path, engine, delivery)
    task.start()
    engine.of(task).set_exception(RetriableError("the source is away"))
    assert task.run_once().idle_ms
    before = delivery.recovered
    assert task.run_once().idle_ms, "the pause"
    assert delivery.recovered == before + 1
    task.close()


def test_a_reader_that_has_nothing_new_at_times_does_not_hide_that_its_batch_ends_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a batch is repeated a few times only."""
    latest, asked = NumbersReader.latestOffset, [0]

    def throttled(reader: NumbersReader, start: dict[str, Any], limit: Any) -> Any:
        asked[0] += 1
        return start if asked[0] % 2 else latest(reader, start, limit)

    class Quiet(Idle):
        due_ms = None

        def settle(self, *, finish: bool) -> bool:  # noqa: ARG002
            return False

    class Ending(WaitingEngine):
        def submit(self, _task: str, _splits: Sequence[Any]) -> Future[list[Any]]:
            future: Future[list[Any]] = Future()
            future.set_exception(ExecutorEndedError("the process ended"))
            return future

    monkeypatch.setattr(NumbersReader, "latestOffset", throttled)
    monkeypatch.setattr(retries, "FIRST_WAIT_MS", 1)
    task = task_of(tmp_path, Ending(), Quiet())
    task.start()
    with pytest.raises(ExecutorEndedError):
        wait_until(lambda: task.run_once() and asked[0] > 40)
    task.close()
