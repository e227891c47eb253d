"""Runs one sink task: a member of the connector's consumer group, whose batches run in executors.

A batch: the ends of the partitions (from the watcher) -> bounded ranges -> one split each in the executors -> the
writer's commit on the worker -> the group's offsets, fenced by its generation. At most one batch is in flight, and
rebalances happen between batches. Offsets are committed after a batch, at most twice a second (less often if the worker
has many tasks), and before a rebalance, so that a revoked partition has its offsets committed. After a crash, records
that were written since the last commit are written again: at least once, unless the writer knows where to resume.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql.datasource import DataSourceWriter
from typing_extensions import override

from spark_tasks.dead_letters.letters_in_group import LettersInGroup
from spark_tasks.dead_letters.letters_once import LettersOnce, warn_of_repeats
from spark_tasks.dead_letters.queue_topic import QueueTopic
from spark_tasks.dead_letters.replays import Replays
from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.futures import ended
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.end_watchers import EndWatchers
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.kafka.group_io import GroupIo
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.kafka.shared_clusters import settings_key
from spark_tasks.metrics.phases import phase
from spark_tasks.metrics.plugins import work_for
from spark_tasks.metrics.task import Flight
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.plugins.api import SinkConnector
from spark_tasks.sinks.commits import COMMIT_TIMEOUT_MS, PendingOffsets
from spark_tasks.sinks.letter_marks import LetterMarks
from spark_tasks.sinks.letters_kept import LettersKept
from spark_tasks.sinks.loans import Loans
from spark_tasks.sinks.marks import Marks
from spark_tasks.sinks.positions import Positions
from spark_tasks.sinks.replay_commit import commit_replay
from spark_tasks.sinks.replay_split import ReplayResult, ReplaySplit, messages_of
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.shared_batches import SharedBatches
from spark_tasks.sinks.split import SinkJob, SinkResult, SinkSplit, within_reach
from spark_tasks.spark.executor import value_of
from spark_tasks.task import DeferredSplit, Progress, TaskContext, TaskRunner
from spark_tasks.tasks.batch_wait import MAX_WAIT_S, BatchWait
from spark_tasks.tasks.data_sources import data_source_of, pickled, writer_of
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
        self._cancelled = False
        self._resting = False  # until the next attempt, as Kafka cannot be reached
        self._batch: tuple[Future[list[Any]], tuple[int, str] | None] | None = None
        self._replaced: dict[TopicPartition, int] = {}  # pending offsets of earlier batches that the batch replaces
        self._loans: Loans | None = None
        self._replays = Replays(self._errors, self._metrics)
        self._flight: Flight | None = None
        self._waiting = BatchWait(context.wake)
        group = settings.consumer.group_id
        self._marks: Marks = LetterMarks(self._errors, group) if self._errors.with_headers else LettersKept(group)
        self._pending = PendingOffsets(self._metrics, lambda: io.commit_pause_s, self._go_back, self._marks.metadata)
        self._consumer: GroupConsumer | None = None
        self._writer: DataSourceWriter | None = None

    @property
    @override
    def version(self) -> str:
        return self._connector.version

    @property
    def batch(self) -> Future[list[Any]] | None:
        """The batch in flight."""
        batch, loans = self._batch, self._loans
        if loans is not None and loans.active:
            return loans.batch
        return None if batch is None else batch[0]

    @override
    def start(self) -> None:
        """Creates the writer. The consumer connects in `run_once`, which retries as long as Kafka is unavailable."""
        work_for(self._metrics.plugins)
        self._metrics.running(paused=False)
        with self._metrics.counting_failures("start"):
            self._start()

    def _start(self) -> None:
        _ = self._pipeline.stages  # an invalid converter or transform fails here, not in the first batch
        self._writer = writer_of(data_source_of(self._connector, self._context.config))
        settings = self._settings
        job = SinkJob(
            settings.client, settings.isolation, self._connector.accepts, self._pipeline, pickled(self._writer),
            self._context.worker.max_record_bytes, self._errors,
        )
        self._job = pickle.dumps(job)
        self._watcher = self._watchers.of(settings.client)
        self._positions = Positions(self._watcher, settings.isolation, settings.reset, self._writer)
        self._marks.active = self._positions.resumable and bool(self._errors.queue) and self._notes_letters()
        self._loans = self._made_loans()

    def _notes_letters(self) -> bool:
        """Returns whether a repeated batch can know its letters. In another cluster, the group is not this one."""
        servers = "bootstrap_servers"
        if self._errors.with_headers or self._errors.client.get(servers) == self._settings.client.get(servers):
            return True
        warn_of_repeats("has other bootstrap.servers than the consumer of %s, and its letters no context headers",
                        self._context.id)
        return False

    def _made_loans(self) -> Loans | None:
        """None if the task cannot share batches, which end in a thread that must not run a plugin's code."""
        writer: Any = type(self._writer)
        settings, plain = self._settings, (DataSourceWriter.commit, DataSourceWriter.abort)
        if (
            self._shared is None or type(self._pipeline) is not SinkPipeline or self._marks.active
            or (writer.commit, writer.abort) != plain or settings.isolation != "read_uncommitted"
        ):
            return None
        return Loans(
            self._context, self, self._shared, (settings_key(settings.client), self._pipeline.key), self._watcher,
            self._positions, lambda: self._member, lambda: self._size.records, self._lent_split, self._end_batch,
            self._commit_due,
        )

    @override
    def run_once(self) -> Progress:
        """Does one step. Waits up to MAX_WAIT_S for a batch in flight; later the end of the batch wakes the task."""
        with self._metrics.counting_failures("task"):
            progress = self._run_once()
            return replace(progress, idle_ms=min(progress.idle_ms, UPKEEP_MS))

    def _run_once(self) -> Progress:
        if self._cancelled:
            raise ConnectError(f"{self._context.id} was cancelled")
        try:
            if (loans := self._loans) is not None and loans.active:
                if not self._replays.running and loans.goes_on():
                    return Progress(idle_ms=UPKEEP_MS)
                if (progress := self._end_loan(loans)) is not None:
                    return progress
            if self._batch is not None:
                return self._collect(self._waiting.max_wait_s(self._batch[0]))
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
        if consumer.take_change():
            self._watcher.forget(self)
            self._positions.assign(consumer.assignment(), consumer.committed)
            self._marks.forget()
        if pause is not None:
            return pause
        if self._paused or not (self._positions or self._replays.running):
            self._positions.look()
            self._metrics.lags = self._positions.lags()
            return Progress(idle_ms=self._pending.commit_due(consumer))
        if not self._replays.running and self._loans is not None and self._loans.begin():
            self._flight = None
            return Progress(idle_ms=UPKEEP_MS)
        begun = time.perf_counter()
        self._marks.complete(self._positions.known, consumer, self._commit_offsets, COMMIT_TIMEOUT_MS)
        with phase("plan"):
            found = self._positions.ranges(self._size.records) if self._positions else []
            ranges = [one for one in found if self._marks.knows(one[0])]  # others have just got a leader
        self._metrics.lags = self._positions.lags()
        if self._replays.takes_turn(alone=not ranges):
            return self._replay_next(consumer)
        if not ranges:
            armed = self._watcher.arm(self, self._positions.at(), self._settings.isolation, self._context.wake)
            due_ms = self._pending.commit_due(consumer)
            return Progress(idle_ms=due_ms if armed else 0)
        replaced = self._pending.take([one[0] for one in ranges]) if self._marks.in_group else {}
        if not all(self._marks.knows(one[0]) for one in ranges):
            return Progress()  # the group refused a commit, so positions are read again
        self._metrics.add_phase("plan", time.perf_counter() - begun)
        splits = [DeferredSplit(partial(self._split, number, tp, start, end, self._marks.of(tp)),
                                self._size.seconds(end - start)) for number, (tp, start, end) in enumerate(ranges)]
        self._flight = Flight(self._begin(splits, consumer, replaced))
        self._metrics.submitted(sum(end - start for _, start, end in ranges))
        return self._collect(MAX_WAIT_S)

    def _end_loan(self, loans: Loans, *, withdraw: bool = False) -> Progress | None:
        """Takes the task back from SharedBatches. Returns the result of `run_once` if it has to handle the end of a
        shared batch, or to wait for it.
        """
        ended = loans.end(MAX_WAIT_S, withdraw=withdraw)
        if ended is None:
            return Progress()
        (outcome,) = ended
        if isinstance(outcome, Exception):
            return self._failed(outcome, [])
        return None if outcome is None else self._collect_batch(outcome, loans.generation)

    def _lent_split(self, tp: TopicPartition, start: int, end: int, held: bytes) -> SinkSplit:
        return SinkSplit(self._job, *tp, start, end, held=held)

    def _commit_due(self) -> bool:
        with suppress(KafkaUnavailableError):
            self._pending.commit_due(self._member)
        return bool(self._pending)

    @property
    def _member(self) -> GroupConsumer:
        if self._consumer is None:
            self._consumer = GroupConsumer(self._settings.consumer, self._io, self._context.wake)
        return self._consumer

    def _split(
        self, number: int, tp: TopicPartition, start: int, end: int, letters: LettersOnce | LettersInGroup | None
    ) -> SinkSplit:
        """Creates the split of a planned range, extended by records that have arrived while it waited for a process."""
        end = self._positions.end_by_now(tp, start, end, self._size.records)
        return SinkSplit(
            self._job, *tp, start, end, self._size.seconds(end - start), self._positions.held(tp, start), letters,
            number,
        )

    def _collect(self, max_wait_s: float) -> Progress:
        """Waits for the batch in flight and commits it if it is done."""
        if self._batch is None:
            return Progress()
        future, generation = self._batch
        if not ended(future, max_wait_s):
            return self._wait_longer(future)
        try:
            results: list[Any] = future.result()
        except CancelledError:
            self._batch = None
            raise ConnectError(f"the batch of {self._context.id} was cancelled") from None
        except Exception as error:  # noqa: BLE001 - Spark's errors and the plugin's
            self._batch = None
            if self._replays.in_flight:
                self._replays.fail(error)
                return Progress()
            return self._failed(error, [])
        self._batch = None
        if self._replays.in_flight:
            result: ReplayResult = results[0]
            return self._replays.collect(result.counts, result.refused, lambda part: commit_replay(
                part, result, self._writer, self._member, lambda: self._is_current(generation),
                lambda failed: self._abort([failed])))
        return self._collect_batch(results, generation)

    def _wait_longer(self, batch: Future[list[Any]]) -> Progress:
        """Commits the offsets of earlier batches, since this one may take hours."""
        progress = self._waiting.timed_out(batch)
        with suppress(KafkaUnavailableError):
            return Progress(idle_ms=self._pending.commit_due(self._member))
        return progress

    def _collect_batch(self, results: Sequence[SinkResult], generation: tuple[int, str] | None) -> Progress:
        for result in results:
            result.refused.report_to(self._metrics, skipped=self._errors.tolerant)
        if self._flight is not None:
            busy = max((result.seconds for result in results), default=0.0)
            self._metrics.add_phase("wait", self._flight.waited(busy))
        results = within_reach(results, self._positions.out_of_reach, self._context.id)
        failures = [result.failure for result in results if result.failure is not None]
        if failures:
            try:
                value_of(failures[0])
            except Exception as error:  # noqa: BLE001 - the plugin's
                return self._failed(error, results)
        if self._loans is not None:
            self._loans.note(results)
        progress = self._end_batch(results, generation)
        self._commit_due()  # if Kafka cannot be reached, the batch stays committed, and the offsets are committed later
        return progress

    def replay(self, order: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Starts a replay of the dead letter queue and returns its state. `order`: see ReplayOrder; with None, returns
        the state of the last replay, or None if there was none. Raises ConfigError and BusyError.
        """
        return self._replays.order(order, getattr(self._writer, "resume_from", None))

    def _replay_next(self, consumer: GroupConsumer) -> Progress:
        part = self._replays.next_range(self._watcher.cluster, consumer.committed_with_metadata)
        self._commit_due()
        if part is None:
            return Progress()
        self._begin([ReplaySplit(self._job, part)], consumer, {})
        return self._collect(MAX_WAIT_S)

    def _begin(
        self, splits: Sequence[Any], consumer: GroupConsumer, replaced: dict[TopicPartition, int]
    ) -> Future[list[Any]]:
        self._replaced = replaced
        batch = self._context.engine.submit(self._context.id, splits)
        self._batch = (batch, consumer.generation())
        if self._cancelled:  # meanwhile: `cancel` has not seen the batch
            self._cancel_batch()
        return batch

    def _is_current(self, generation: tuple[int, str] | None) -> bool:
        """Returns whether this task is still the member that it was at the start of a batch, and may commit it."""
        return not self._cancelled and generation is not None and generation == self._member.generation()

    def _end_batch(self, results: Sequence[SinkResult], generation: tuple[int, str] | None) -> Progress:
        """Commits a batch to the writer. Its offsets are then pending."""
        done = [result for result in results if result.out_of_range is None]
        if not self._is_current(generation):
            # Another member may already write records of these partitions, so this batch must not be committed.
            _logger.warning("The group rebalanced during a batch of %s; the batch is read again", self._context.id)
            self._abort(done)
            self._forget_letters()
            return Progress()
        self._metrics.add_splits(result.figures for result in done)
        try:
            if any(result.records for result in done) and self._writer is not None:
                begun = time.perf_counter()
                with phase("commit"):
                    self._writer.commit(messages_of(done))
                self._metrics.add_phase("commit", time.perf_counter() - begun)
        except Exception as error:  # noqa: BLE001 - plugin code
            return self._failed(error, [])
        self._retry_state.succeeded()
        progress = self._advance(done)
        offsets = {(r.topic, r.partition): r.next_offset for r in done}
        self._pending.add({tp: offset for tp, offset in offsets.items() if self._marks.knows(tp)})
        for result in results:  # after what was written, as it may fail
            if result.out_of_range is not None:
                self._positions.out_of_range(result.topic, result.partition, *result.out_of_range)
        starts, read = self._positions.take_starts(), {(result.topic, result.partition) for result in done}
        self._pending.add({tp: offset for tp, offset in starts.items() if tp not in read})
        return progress

    def _commit_offsets(self) -> None:
        if self._pending:
            self._pending.commit(self._member)

    def _go_back(self) -> None:
        """Goes back to the committed offsets: another member may have written the later records meanwhile."""
        self._pending.forget()
        self._positions.forget()
        self._marks.forget()

    def _advance(self, done: Sequence[SinkResult]) -> Progress:
        records = size = 0
        for result in done:
            self._positions.advance((result.topic, result.partition), result.next_offset)
            self._marks.advance((result.topic, result.partition), result.next_offset, result.written_to, result.search)
            self._size = self._size.after(result.records, result.size, result.seconds)
            records += result.records
            size += result.size
        self._metrics.lags = self._positions.lags()
        for topic in sorted({result.topic for result in done if result.uses_topic}):
            self._context.topic_used(topic)
        return Progress(records, size)

    def _failed(self, error: Exception, results: Sequence[SinkResult]) -> Progress:
        """Aborts the batch. It is repeated from the same positions after a retriable error; others fail the task."""
        self._abort([result for result in results if result.failure is None and result.out_of_range is None])
        if self._cancelled:
            raise error
        with suppress(ConnectError):  # offsets of earlier batches; the batch's own error is the one to report
            self._commit_offsets()
        self._positions.doubt()
        self._forget_letters()
        self._queue.doubt(error)
        return self._retry_state.later(error)

    def _forget_letters(self) -> None:
        self._marks.failed()
        if self._marks.in_group:
            self._pending.forget()

    def _abort(self, done: Sequence[SinkResult | ReplayResult]) -> None:
        if self._writer is None:
            return
        try:
            self._writer.abort(messages_of(done))
        except Exception:  # plugin code; the batch is not committed, even if abort() fails
            _logger.exception("The writer's abort() failed")

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
        while self._loans is not None and self._loans.active:
            self._end_loan(self._loans, withdraw=True)
        if self._batch is None:
            return
        if self._batch[0].cancel():
            self._batch = None
            self._pending.add(self._replaced)
            return
        while self._batch is not None:
            self._collect(MAX_WAIT_S)

    @override
    def close(self) -> None:
        """Finishes the batch in flight, commits the offsets, and leaves the group."""
        self._metrics.stopped()
        try:
            self._finish()
            with suppress(KafkaUnavailableError):  # not an error: the records are read again
                self._commit_offsets()
        finally:
            self._cancel_batch()
            self._batch = None
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                self._watcher.forget(self)
                consumer.close()

    @override
    def stop_starting(self) -> None:
        """Does nothing: a sink's start is short."""

    @override
    def cancel(self) -> None:
        self._cancelled = True
        self._cancel_batch()

    def _cancel_batch(self) -> None:
        if self._loans is not None:
            self._loans.cancel()
        if (batch := self._batch) is not None:
            self._context.engine.cancel(batch[0])
