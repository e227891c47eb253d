"""Runs one source task: a PySpark stream reader, whose batches run in executors.

The steps of a batch: the reader plans it from the end of the last one -> one split per lane -> executors read, convert
and append -> all records are acknowledged -> the delivery commits the offsets -> the reader's `commit`. The next batch
runs while offsets are written. If that fails, only the offsets are written again; after any other failure the task
continues from the last committed offsets, with new lanes.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from typing_extensions import override

from spark_tasks.dead_letters.queue_topic import QueueTopic
from spark_tasks.dead_letters.refusals import reported
from spark_tasks.dead_letters.replay.source_progress import is_progress
from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.metrics.phases import phase
from spark_tasks.metrics.plugins import work_for
from spark_tasks.metrics.task import Flight
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.plugins.api import SourceConnector
from spark_tasks.sources.delivery import AtLeastOnce, Delivery
from spark_tasks.sources.readers import BatchPlan, splits_of
from spark_tasks.sources.replay_split import SourceReplaySplit
from spark_tasks.sources.replays import SourceReplays
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.sources.split import SourceJob, SourceResult, SourceSplit
from spark_tasks.sources.stream_offsets import StreamOffset
from spark_tasks.sources.task_reader import TaskReader
from spark_tasks.task import Progress, TaskContext, TaskRunner
from spark_tasks.tasks.batch_in_flight import BatchCancelledError, BatchInFlight
from spark_tasks.tasks.pace import IdleTasks, Idling, SplitSize
from spark_tasks.tasks.retries import RetryLimits, RetryState

PAUSED_MS = 60_000
LEFTOVER_S = 5.0
SIMPLE_IDLE_MS = 100  # a simple reader may query a remote system


class SourceTask(TaskRunner):
    """The runner of a source task. `delivery`: None means at-least-once. `idle`: the worker's idle source tasks."""

    def __init__(
        self, context: TaskContext, settings: SourceSettings, connector: type[SourceConnector],
        pipeline: SourcePipeline, delivery: Delivery | None = None, idle: IdleTasks | None = None,
    ) -> None:
        if context.offsets is None:
            raise ConnectError(f"source task {context.id} has no offset store")
        self._context = context
        self._connector = connector
        self._pipeline = pipeline
        self._offsets = context.offsets
        self._settings, self._errors = settings, settings.errors
        cluster = shared_cluster(settings.producer.client)
        self._delivery = delivery or AtLeastOnce(
            cluster, context.offsets, context.worker.session_timeout_ms, idempotent=settings.producer.idempotent)
        self._size = SplitSize()
        limits = RetryLimits(self._errors.retry_timeout_ms, self._errors.retry_delay_max_ms)
        self._metrics = context.metrics
        self._metrics.kind = "source"
        self._replays = SourceReplays(self._errors, self._metrics, cluster, context.offsets, self._delivery)
        self._retry_state = RetryState(context.id, self._metrics, limits)
        self._queue = QueueTopic(settings.errors)
        self._idling = Idling()
        self._idle_tasks = idle or IdleTasks()
        self._paused = False
        self._batch = BatchInFlight(context)
        self._plan: BatchPlan | None = None  # of that batch; None: it is a range of a replay
        self._flight: Flight | None = None
        self._reader = TaskReader(context, connector)
        self.plugin_calls = self._reader.calls  # see TaskRunner
        self._position: StreamOffset | None = None  # the start of the next batch; None: the committed offsets

    @property
    @override
    def version(self) -> str:
        return self._connector.version

    @property
    def batch(self) -> Future[list[Any]] | None:
        """The batch in flight."""
        return self._batch.future

    @override
    def start(self) -> None:
        """Creates the reader, fences earlier producers if the delivery does so, and loads the offsets."""
        work_for(self._metrics.plugins)
        self._metrics.running(paused=False)
        with self._metrics.counting_failures("start"):
            self._start()

    def _start(self) -> None:
        _ = self._pipeline.stages  # so that an invalid converter or transform fails now and not in the first batch
        reader = self._reader
        reader.open()
        producer = self._settings.producer
        job = SourceJob(
            producer.client, producer.appender, self._pipeline, reader.facts.pickled, reader.facts.schema,
            self._settings.topics, self._errors,
        )
        self._job = pickle.dumps(job)
        self._delivery.start()
        with suppress(RetriableError):  # run_once retries
            self._load_offsets()

    def _load_offsets(self) -> StreamOffset:
        self._delivery.recover()
        committed = [pair for pair in self._offsets.read() if not is_progress(pair[0])]
        self._position = self._reader.position(committed)
        return self._position

    @override
    def run_once(self) -> Progress:
        """Runs a batch. If the batch takes longer than MAX_WAIT_S, returns, and the end of the batch wakes the task."""
        with self._metrics.counting_failures("task"):
            return self._run_once()

    def _run_once(self) -> Progress:
        if self._batch.cancelled:
            raise ConnectError(f"{self._context.id} was cancelled")
        if self._delivery.owes:
            return self._retry_state.pause() or self._write_pending()
        if self._batch.future is not None:
            return self._collect()
        if self._delivery.suspended:
            self._position = None  # also while paused: the delivery's `recover` ends the suspension
        pause = None if self._paused else self._retry_state.pause()
        if self._paused or pause is not None:
            return self._while_waiting(pause)
        try:
            submitted = self._submit_replay(alone=False) or self._submit() or self._submit_replay(alone=True)
        except Exception as error:  # noqa: BLE001 - plugin code
            return self._failed(error)
        return self._collect() if submitted else self._idle()

    def _while_waiting(self, pause: Progress | None) -> Progress:
        """Aborts a transaction that was given up, that readers wait for. `pause`: before the next attempt, if any."""
        try:
            self._delivery.recover()
        except Exception as error:  # noqa: BLE001 - `_failed` retries retriable errors
            return pause if pause is not None and isinstance(error, RetriableError) else self._failed(error)
        return pause or Progress(idle_ms=PAUSED_MS)

    def _submit(self) -> bool:
        """Plans and submits the next batch. Returns False if there are no new records."""
        self._queue.prepare()
        start = self._position if self._position is not None else self._load_offsets()
        begun = time.perf_counter()
        with phase("plan"):
            try_here = self._context.engine.job_per_batch and self._idling != Idling()
            plan = self._reader.plan(start, self._size, try_here=try_here)
        if plan is None:
            return False
        splits = splits_of(plan, self._current_job(), self._delivery, self._size.seconds(self._size.records))
        self._metrics.add_phase("plan", time.perf_counter() - begun)
        self._begin(plan, splits)
        return True

    def _submit_replay(self, *, alone: bool) -> bool:
        """Submits the next range of a replay if it is its turn. `alone`: the reader has no new records."""
        if not self._replays.takes_turn(alone=alone):
            return False
        if self._position is None:
            self._load_offsets()
        split = self._replays.next_split(self._current_job)
        if split is not None:
            self._begin(None, [split])
        return split is not None

    def _begin(self, plan: BatchPlan | None, splits: Sequence[SourceSplit | SourceReplaySplit]) -> None:
        self._flight = Flight(self._batch.begin(splits))
        self._plan = plan

    def _current_job(self) -> bytes:
        return self._job

    def _idle(self) -> Progress:
        try:
            self._settle(finish=False)
        except Exception as error:  # noqa: BLE001 - plugin code
            return self._failed(error)
        simple = self._reader.facts.simple
        in_split = simple and not self._context.engine.job_per_batch
        least = self._idle_tasks.add(self._context.id, in_split=in_split)
        pause = max(self._idling.idle_ms, least, SIMPLE_IDLE_MS if simple else 0)
        self._idling = self._idling.next(self._idle_tasks.shared_pause_ms)
        due_ms = self._delivery.due_ms
        return Progress(idle_ms=pause if due_ms is None else max(1, min(pause, int(due_ms))))

    def _write_pending(self) -> Progress:
        try:
            self._settle(finish=False)
        except Exception as error:  # noqa: BLE001 - plugin code
            return self._failed(error)
        self._retry_state.succeeded()
        return Progress()

    def _settle(self, *, finish: bool) -> bool:
        begun = time.perf_counter()
        with phase("commit"), self._metrics.committing():
            final = self._delivery.settle(finish=finish)
        if final:
            self._committed(begun)
            self._reader.commit(self._position or {})
        return final

    def _committed(self, begun: float) -> None:
        self._metrics.committed(time.perf_counter() - begun)
        if self._delivery.boundary is not None:
            self._metrics.transaction_ended()

    def _collect(self, *, again: bool = False, more: bool = True) -> Progress:
        """Waits for the batch in flight (see BatchInFlight.wait). If it has ended, commits it and, with `more`, submits
        the next one.
        """
        if not self._batch.wait(again=again):
            return self._batch.idle
        try:
            results = self._batch.take()
        except BatchCancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - errors of Spark and of plugins
            return self._failed(reported(error, self._metrics), of_batch=True)
        if self._plan is None:
            self._used(results[0].topics)
            return self._replays.end(results[0], self._start_over)
        return self._collect_batch(results, self._plan, more=more)

    def _collect_batch(self, results: Sequence[SourceResult], plan: BatchPlan, *, more: bool) -> Progress:
        for result in results:
            result.refused.report_to(self._metrics, skipped=self._errors.tolerant)
        if self._flight is not None:
            busy = max((result.seconds for result in results), default=0.0)
            self._metrics.add_phase("wait", self._flight.waited(busy))
        self._metrics.add_splits(result.figures for result in results)
        end = plan.end if plan.end is not None else results[0].end
        if end is None or (plan.start is not None and end == self._position):
            self._delivery.written(results)
            return self._idle()
        try:
            return self._finish_batch(results, end, more=more)
        except Exception as error:  # noqa: BLE001 - plugin code
            return self._failed(error)

    def _finish_batch(self, results: Sequence[SourceResult], end: StreamOffset, *, more: bool) -> Progress:
        self._delivery.written(results)
        start, self._position, self._idling = self._position, end, Idling()
        self._idle_tasks.discard(self._context.id)
        for result in results:
            self._size = self._size.after(result.records, result.size, result.seconds)
        self._used({topic for result in results for topic in result.topics})
        boundary = self._delivery.boundary
        offsets = self._reader.offsets(end)
        signal = self._reader.signal(boundary.kind, start or {}, end) if boundary is not None else "commit"
        self._delivery.check()
        if self._batch.cancelled:  # the plugin's code has taken long; another task may have written newer offsets
            raise ConnectError(f"{self._context.id} was cancelled")
        with self._metrics.committing():
            self._delivery.begin_commit(offsets)  # before the plugin plans the next batch, which may take long
        error: Exception | None = None
        if more and self._delivery.overlaps and not (self._paused or self._replays.running):
            try:
                self._submit()
            except Exception as problem:  # noqa: BLE001 - plugin code; raised after the commit of this batch
                error = problem
        begun = time.perf_counter()
        with phase("commit"), self._metrics.committing():
            final = self._delivery.commit(offsets, signal)
        self._retry_state.succeeded()
        if final:
            self._committed(begun)
            self._reader.commit(end)
        if error is not None:
            raise error
        return Progress(sum(r.records for r in results), sum(r.size for r in results))

    def _used(self, topics: Iterable[str]) -> None:
        for topic in sorted(topics):
            self._context.topic_used(topic)

    def _failed(self, error: Exception, *, of_batch: bool = False) -> Progress:
        """Prepares the repetition of all records since the committed offsets after a retriable error; only of owed
        offsets if just these failed, not a batch (`of_batch`: its lanes are spent). Raises errors that fail the task.
        """
        if self._delivery.owes and not of_batch and isinstance(error, RetriableError) and not self._batch.cancelled:
            return self._retry_state.later(error)
        self._queue.batch_failed(error)
        self._batch.abandon(LEFTOVER_S)  # it must not append while it is repeated
        self._start_over()
        shown = self._delivery.failure(error)
        if self._replays.in_flight and not self._batch.cancelled:
            self._replays.fail(shown)
            return Progress()
        if self._batch.cancelled or shown is not error:
            raise shown from error
        return self._retry_state.later(error)

    def _start_over(self) -> None:
        """Continues with the committed offsets, and new lanes."""
        self._position = None
        self._delivery.abort()

    @override
    def replay(self, order: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        return self._replays.order(order)

    @override
    def pause(self) -> None:
        """Finishes the batch in flight, and starts no other until `resume`."""
        self._paused = True
        self._finish()
        self._idle_tasks.discard(self._context.id)  # now, as a batch in flight may have found nothing
        self._metrics.running(paused=True)

    @override
    def resume(self) -> None:
        """Starts batches again."""
        self._paused = False
        self._metrics.running(paused=False)

    def _finish(self) -> None:
        """Waits for a running batch and commits it, and commits an open transaction. Cancels a batch that is queued."""
        if self._batch.withdraw():
            self._replays.withdraw()
        failures = self._retry_state.failures
        while self._batch.future is not None:
            self._collect(again=True, more=False)
        if self._delivery.owes and self._retry_state.failures > failures:
            return  # its offsets could not be written: Kafka is away, and another attempt would take as long
        try:
            if not self._settle(finish=True) and self._delivery.open:
                # The reader has not ended this transaction: its records are read again.
                self._start_over()
        except Exception as error:  # noqa: BLE001 - plugin code
            self._failed(error)

    @override
    def close(self) -> None:
        """Finishes the batch in flight, stops the reader and releases all resources."""
        self._metrics.stopped()
        try:
            if not self._batch.cancelled:
                self._finish()
        finally:
            self._idle_tasks.discard(self._context.id)
            self._batch.abandon()
            try:
                self._delivery.close()
                self._offsets.close_soon()
            finally:
                self._reader.stop()

    @override
    def stop_starting(self) -> None:
        self._reader.stop_opening()
        self._delivery.cancel()
        self._offsets.stop_reading()

    @override
    def cancel(self) -> None:
        self._batch.cancel()
        self._reader.kill()
        self.stop_starting()
