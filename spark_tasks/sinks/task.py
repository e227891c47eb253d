"""Runs one sink task: a member of the connector's consumer group, whose batches run in executors.

A batch: the ends of the partitions (from the watcher) -> bounded ranges -> one split each in the executors -> the
writer's commit -> the group's offsets, fenced by its generation. At most one batch is in flight, and
rebalances happen between batches. Offsets are committed after a batch, at most twice a second (less often if the worker
has many tasks), and before a rebalance, so that a revoked partition has its offsets committed. After a crash, records
that were written since the last commit are written again: at least once, unless the writer knows where to resume.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from typing_extensions import override

from spark_tasks.dead_letters.exactly_once.plans import SendPlan
from spark_tasks.dead_letters.queue_topic import QueueTopic
from spark_tasks.dead_letters.replay.task_replays import Replays
from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.end_watchers import EndWatchers
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.kafka.group_io import GroupIo
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.kafka.shared_clusters import settings_key
from spark_tasks.metrics.plugins import work_for
from spark_tasks.metrics.task import Flight
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.plugins.api import SinkConnector
from spark_tasks.sinks.batch_sharing import BatchSharing
from spark_tasks.sinks.offsets import SinkOffsets
from spark_tasks.sinks.replay_commit import commit_replay
from spark_tasks.sinks.replay_split import ReplayResult, ReplaySplit
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.shared_batches import SharedBatches
from spark_tasks.sinks.split import SinkJob, SinkResult, SinkSplit, within_reach
from spark_tasks.sinks.task_writer import TaskWriter
from spark_tasks.sinks.writer_commits import WriterCommits
from spark_tasks.spark.executor import value_of
from spark_tasks.task import DeferredSplit, Progress, TaskContext, TaskRunner
from spark_tasks.tasks.batch_in_flight import MAX_WAIT_S, BatchCancelledError, BatchInFlight
from spark_tasks.tasks.pace import MAX_SPLIT_RECORDS, SplitSize
from spark_tasks.tasks.retries import RetryLimits, RetryState

_logger = logging.getLogger(__name__)

JOIN_WAIT_MS = 500  # how long one run_once waits for the group
JOIN_IDLE_MS = 20
UPKEEP_MS = 5_000  # a task checks its membership this often, unless the coordinator, the watcher or a batch wakes it


class SinkTask(TaskRunner):
    """`pipeline`: a picklable SinkPipeline of the connector. `watchers`, `io`, `shared`: shared by the tasks of the
    worker; without `shared`, all batches are the task's own.
    """

    def __init__(
        self, context: TaskContext, settings: SinkSettings, connector: type[SinkConnector], pipeline: SinkPipeline,
        watchers: EndWatchers, io: GroupIo, shared: SharedBatches | None = None,
    ) -> None:
        self._context = context
        self._shared = shared
        self._connector = connector
        self._pipeline = pipeline
        self._io = io
        self._settings = settings
        self._watchers = watchers
        # max.poll.records, which limits a put in Kafka Connect, limits a split here, but only if it is set.
        self._size = SplitSize.at_most(settings.max_poll_records or MAX_SPLIT_RECORDS)
        self._errors = settings.errors
        self._queue = QueueTopic(settings.errors)
        limits = RetryLimits(self._errors.retry_timeout_ms, self._errors.retry_delay_max_ms)
        self._metrics = context.metrics
        self._metrics.kind = "sink"
        self._retry_state = RetryState(context.id, self._metrics, limits)
        self._paused = False
        self._resting = False  # until the next attempt, as Kafka cannot be reached
        self._batch = BatchInFlight(context)
        self._generation: tuple[int, str] | None = None  # of the group when the batch began
        self._sharing: BatchSharing | None = None
        self._replays = Replays(self._errors, self._metrics)
        self._flight: Flight | None = None
        self._consumer: GroupConsumer | None = None
        self._writer = TaskWriter(context, connector)
        self.plugin_calls = self._writer.calls  # see TaskRunner

    @property
    @override
    def version(self) -> str:
        return self._connector.version

    @property
    def batch(self) -> Future[list[Any]] | None:
        """The batch in flight."""
        sharing = self._sharing
        return sharing.batch if sharing is not None and sharing.active else self._batch.future

    @override
    def start(self) -> None:
        """Creates the writer. The consumer connects in `run_once`, which retries as long as Kafka is unavailable."""
        work_for(self._metrics.plugins)
        self._metrics.running(paused=False)
        with self._metrics.counting_failures("start"):
            self._start()

    def _start(self) -> None:
        _ = self._pipeline.stages  # an invalid converter or transform fails here, not in the first batch
        writer = self._writer.open()
        self._commits = WriterCommits(self._writer, self._metrics)
        settings = self._settings
        job = SinkJob(
            settings.client, settings.isolation, self._connector.accepts, self._pipeline, writer,
            self._context.worker.max_record_bytes, self._errors,
        )
        self._job = pickle.dumps(job)
        self._watcher = self._watchers.of(settings.client)
        self._offsets = SinkOffsets.of(
            self._context, settings, self._watcher, self._writer.resume_from, lambda: self._io.commit_pause_s)
        self._sharing = self._made_sharing()

    def _made_sharing(self) -> BatchSharing | None:
        """None if the task cannot share batches, which end in a thread that must not run a plugin's code."""
        settings = self._settings
        if (
            self._shared is None or type(self._pipeline) is not SinkPipeline or self._offsets.letters.active
            or not self._writer.commits_nothing or settings.isolation != "read_uncommitted"
        ):
            return None
        return BatchSharing(
            self._context, self, self._shared, (settings_key(settings.client), self._pipeline.key), self._watcher,
            self._offsets.positions, lambda: self._member, lambda: self._size.records, self._lent_split,
            self._end_batch, self._commit_due,
        )

    @override
    def run_once(self) -> Progress:
        """Does one step. Waits up to MAX_WAIT_S for a batch in flight; later the end of the batch wakes the task."""
        with self._metrics.counting_failures("task"):
            progress = self._run_once()
            return replace(progress, idle_ms=min(progress.idle_ms, UPKEEP_MS))

    def _run_once(self) -> Progress:
        if self._batch.cancelled:
            raise ConnectError(f"{self._context.id} was cancelled")
        try:
            if (sharing := self._sharing) is not None and sharing.active:
                if not self._replays.running and sharing.goes_on():
                    return Progress(idle_ms=UPKEEP_MS)
                if (progress := self._end_loan(sharing)) is not None:
                    return progress
            if self._batch.future is not None:
                return self._collect()
            pause = self._retry_state.pause()
            if pause is not None and (self._resting or self._retry_state.may_run or self._member.stays()):
                return pause
            self._resting = False
            return self._next_batch(pause)
        except RetriableError as error:
            self._resting = isinstance(error, KafkaUnavailableError)
            return self._retry_state.later(error)

    def _next_batch(self, pause: Progress | None) -> Progress:
        """`pause`: before the next attempt of a batch that failed. The other members of the group must not wait for its
        end, so only the membership is handled.
        """
        self._queue.prepare()
        consumer = self._member
        if not consumer.poll(JOIN_WAIT_MS, self._commit_offsets):
            return Progress(idle_ms=JOIN_IDLE_MS)
        offsets = self._offsets
        if consumer.take_change():
            self._watcher.forget(self)
            offsets.assign(consumer)
        if pause is not None:
            return pause
        if self._paused or not (offsets.positions or self._replays.running):
            offsets.refresh_lags()
            return Progress(idle_ms=offsets.commit_due(consumer))
        if not self._replays.running and self._sharing is not None and self._sharing.begin():
            self._flight = None
            return Progress(idle_ms=UPKEEP_MS)
        begun = time.perf_counter()
        ranges = offsets.ranges(consumer, self._size.records)
        if self._replays.takes_turn(alone=not ranges):
            return self._replay_next(consumer)
        if not ranges:
            armed = self._watcher.arm(self, offsets.positions.at(), self._settings.isolation, self._context.wake)
            due_ms = offsets.commit_due(consumer)
            return Progress(idle_ms=due_ms if armed else 0)
        if not offsets.begin([one[0] for one in ranges]):
            return Progress()
        self._metrics.add_phase("plan", time.perf_counter() - begun)
        splits = [DeferredSplit(partial(self._split, number, tp, start, end, offsets.letters.plan(tp)),
                                self._size.seconds(end - start)) for number, (tp, start, end) in enumerate(ranges)]
        self._flight = Flight(self._begin(splits, consumer))
        self._metrics.submitted(sum(end - start for _, start, end in ranges))
        return self._collect()

    def _end_loan(self, sharing: BatchSharing, *, withdraw: bool = False) -> Progress | None:
        """Takes the task back from SharedBatches. Returns the result of `run_once` if it has to handle the end of a
        shared batch, or to wait for it.
        """
        ended = sharing.end(MAX_WAIT_S, withdraw=withdraw)
        if ended is None:
            return Progress()
        (outcome,) = ended
        if isinstance(outcome, Exception):
            return self._failed(outcome, [])
        return None if outcome is None else self._collect_batch(outcome, sharing.generation)

    def _lent_split(self, tp: TopicPartition, start: int, end: int, held: bytes) -> SinkSplit:
        return SinkSplit(self._job, *tp, start, end, held=held)

    def _commit_due(self) -> bool:
        with suppress(KafkaUnavailableError):
            self._offsets.commit_due(self._member)
        return self._offsets.pending

    def _commit_offsets(self) -> None:
        if self._consumer is not None:
            self._offsets.commit(self._consumer)

    @property
    def _member(self) -> GroupConsumer:
        if self._consumer is None:
            self._consumer = GroupConsumer(self._settings.consumer, self._io, self._context.wake)
        return self._consumer

    def _split(
        self, number: int, tp: TopicPartition, start: int, end: int, letters: SendPlan | None
    ) -> SinkSplit:
        """Creates the split of a planned range, extended by records that have arrived while it waited for a process."""
        positions = self._offsets.positions
        end = positions.end_by_now(tp, start, end, self._size.records)
        return SinkSplit(
            self._job, *tp, start, end, self._size.seconds(end - start), positions.held(tp, start), letters, number)

    def _collect(self, *, again: bool = False) -> Progress:
        """Waits for the batch in flight (see BatchInFlight.wait) and commits it if it has ended."""
        if not self._batch.wait(again=again):
            with suppress(KafkaUnavailableError):  # those of earlier batches, since this one may take hours
                return Progress(idle_ms=self._offsets.commit_due(self._member))
            return self._batch.idle
        try:
            results = self._batch.take()
        except BatchCancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - Spark's errors and the plugin's
            if self._replays.in_flight:
                self._replays.fail(error)
                return Progress()
            return self._failed(error, [])
        generation = self._generation
        if self._replays.in_flight:
            result: ReplayResult = results[0]
            return self._replays.collect(result.counts, result.refused, lambda part: commit_replay(
                part, result, self._writer, self._member, lambda: self._is_current(generation),
                lambda failed: self._commits.abort([failed])))
        return self._collect_batch(results, generation)

    def _collect_batch(self, results: Sequence[SinkResult], generation: tuple[int, str] | None) -> Progress:
        for result in results:
            result.refused.report_to(self._metrics, skipped=self._errors.tolerant)
        if self._flight is not None:
            busy = max((result.seconds for result in results), default=0.0)
            self._metrics.add_phase("wait", self._flight.waited(busy))
        results = within_reach(results, self._offsets.positions.out_of_reach, self._context.id)
        failures = [result.failure for result in results if result.failure is not None]
        if failures:
            try:
                value_of(failures[0])
            except Exception as error:  # noqa: BLE001 - the plugin's
                return self._failed(error, results)
        if self._sharing is not None:
            self._sharing.note(results)
        progress = self._end_batch(results, generation)
        self._commit_due()  # if Kafka cannot be reached, the batch stays committed, and the offsets are committed later
        return progress

    @override
    def replay(self, order: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        return self._replays.order(order, self._writer.resume_from)

    def _replay_next(self, consumer: GroupConsumer) -> Progress:
        part = self._replays.next_range(self._watcher.cluster, consumer.committed_with_metadata)
        self._commit_due()
        if part is None:
            return Progress()
        self._offsets.begin(())
        self._begin([ReplaySplit(self._job, part)], consumer)
        return self._collect()

    def _begin(self, splits: Sequence[Any], consumer: GroupConsumer) -> Future[list[Any]]:
        batch = self._batch.begin(splits)
        self._generation = consumer.generation()
        return batch

    def _is_current(self, generation: tuple[int, str] | None) -> bool:
        """Returns whether this task is still the member that it was at the start of a batch, and may commit it."""
        return not self._batch.cancelled and generation is not None and generation == self._member.generation()

    def _end_batch(self, results: Sequence[SinkResult], generation: tuple[int, str] | None) -> Progress:
        """Commits a batch to the writer. Its offsets are then pending."""
        done = [result for result in results if result.out_of_range is None]
        if not self._is_current(generation):
            # Another member may already write records of these partitions, so this batch must not be committed.
            _logger.warning("The group rebalanced during a batch of %s; the batch is read again", self._context.id)
            self._commits.abort(done)
            self._offsets.not_written()
            return Progress()
        self._metrics.add_splits(result.figures for result in done)
        try:
            self._commits.commit(done)
        except Exception as error:  # noqa: BLE001 - plugin code
            return self._failed(error, [])
        self._retry_state.succeeded()
        for topic in sorted({result.topic for result in done if result.uses_topic}):
            self._context.topic_used(topic)
        for result in done:
            self._size = self._size.after(result.records, result.size, result.seconds)
        self._offsets.written(results)
        return Progress(sum(result.records for result in done), sum(result.size for result in done))

    def _failed(self, error: Exception, results: Sequence[SinkResult]) -> Progress:
        """Aborts the batch. It is repeated from the same positions after a retriable error; others fail the task."""
        self._commits.abort([result for result in results if result.failure is None and result.out_of_range is None])
        if self._batch.cancelled:
            raise error
        with suppress(ConnectError):  # offsets of earlier batches; the batch's own error is the one to report
            self._commit_offsets()
        self._offsets.positions.recheck()
        self._offsets.not_written()
        self._queue.batch_failed(error)
        return self._retry_state.later(error)

    @override
    def pause(self) -> None:
        """Finishes the batch in flight. No other batch starts before `resume`."""
        self._finish()
        with suppress(KafkaUnavailableError):  # the next run_once tries again
            self._commit_offsets()
        self._paused = True
        self._metrics.running(paused=True)
        self._watcher.forget(self)

    @override
    def resume(self) -> None:
        """Ends the pause."""
        self._paused = False
        self._metrics.running(paused=False)

    def _finish(self) -> None:
        """Withdraws the batch in flight if it has not started; otherwise waits for it and commits it."""
        while self._sharing is not None and self._sharing.active:
            self._end_loan(self._sharing, withdraw=True)
        if self._batch.withdraw():
            self._offsets.withdraw()
        while self._batch.future is not None:
            self._collect(again=True)

    @override
    def close(self) -> None:
        """Finishes the batch in flight, commits the offsets, and leaves the group."""
        self._metrics.stopped()
        try:
            self._finish()
            with suppress(KafkaUnavailableError):  # not an error: the records are read again
                self._commit_offsets()
        finally:
            if self._sharing is not None:
                self._sharing.cancel()
            self._batch.abandon()
            self._writer.end()
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                self._watcher.forget(self)
                consumer.close()

    @override
    def stop_starting(self) -> None:
        self._writer.stop_opening()

    @override
    def cancel(self) -> None:
        self._batch.cancel()
        self._writer.kill()
        if self._sharing is not None:
            self._sharing.cancel()
