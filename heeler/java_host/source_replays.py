"""The replays of a Java source's task. An executor reads the letters; another session in the host passes their records
through the connector's transforms and converters; the task's producer appends the results between the task's own
commits. So the plugin's task is not involved.

A range of the queue is appended and committed, with the progress, before the task appends anything else.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

import numpy as np
from typing_extensions import override

from heeler.java_host.connection import Message
from heeler.java_host.frame_writer import FrameWriter
from heeler.java_host.host import JavaHost
from heeler.java_host.session import Session, unexpected
from heeler.java_host.source_splits import SourceSplits
from heeler.java_host.time_budget import TimeBudget
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import Refused
from spark_tasks.dead_letters.replay.letter_range import LetterRange
from spark_tasks.dead_letters.replay.source_progress import progress_in, progress_offset
from spark_tasks.dead_letters.replay.task_replays import Replays
from spark_tasks.errors import ConnectError
from spark_tasks.host_frames import Batch
from spark_tasks.kafka.append import DEFAULT_REQUEST_BYTES
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.plugins.chain_cut import Cut
from spark_tasks.sources.delivery import Delivery
from spark_tasks.sources.java_replay_split import (
    ConvertedRecords,
    HostRecords,
    JavaReplayJob,
    JavaReplayResult,
    JavaSourceReplaySplit,
    NewLetters,
    ReplayedPart,
)
from spark_tasks.sources.java_source_split import java_source_job
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.task import Progress, ResumeFrom, TaskContext

BATCH_BYTES: Final = 8 << 20  # of the letters in a range: their records are in the worker's memory
_STEP_S: Final = 1.0  # as in JavaSourceTask


def letters_order(errors: ErrorHandling) -> Message | None:
    """Returns what the host has to know of the dead letter queue; None without one. See SourceLetters.java."""
    if not errors.queue:
        return None
    limit = int(errors.appender.get("max_request_bytes", DEFAULT_REQUEST_BYTES))
    return {"headers": errors.with_headers, "mostBytes": limit // 2 if errors.replayable else 0}


class JavaSourceReplays(Replays):
    """`order`: starts a session in the host; `cut`: None if heeler has no part of the chain. `writer`: creates the
    writer of a range, whose lane is the task's; so the task must not have one at the same time.
    """

    def __init__(
        self, context: TaskContext, settings: SourceSettings, host: JavaHost, order: Message, cut: Cut | None,
        cluster: KafkaCluster, delivery: Delivery, writer: Callable[[SourceSplits | None], FrameWriter],
    ) -> None:
        if context.offsets is None:
            raise ConnectError(f"source task {context.id} has no offset store")
        super().__init__(settings.errors, context.metrics)
        self._offsets = context.offsets
        self._context, self._host, self._order, self._cut = context, host, order, cut
        self._settings, self._cluster, self._delivery, self._new_writer = settings, cluster, delivery, writer
        self._aborted = False  # records were given up: the delivery has to recover before others are appended
        self._job: bytes | None = None
        self._taking: SourceSplits | None = None
        self._batch: Future[list[Any]] | None = None
        self._session: Session | None = None
        self._writer: FrameWriter | None = None
        self._forget()

    def _forget(self) -> None:
        self._result: JavaReplayResult | None = None
        self._refused = 0  # by Java's part of the chain
        self._lacking_since: float | None = None  # time.monotonic() since when a topic has been awaited
        self._frames: list[Batch | None] = []  # to append; None: the host has to convert it

    @override
    def order(self, body: Mapping[str, Any] | None, resume_from: ResumeFrom | None = None) -> Mapping[str, Any] | None:
        state = super().order(body, resume_from)
        self._context.wake()
        return state

    def step(self, *, free: bool) -> Progress | None:
        """Continues the replay. `free`: nothing of the task itself waits to be committed. Returns None if the task may
        go on itself.
        """
        if not self.running:
            self._close_session()
            return None
        try:
            return self._step(free=free)
        except Exception as error:  # noqa: BLE001 - of the plugin, its host, and Kafka: they end the replay only
            self._fail(error)
            return Progress() if self._aborted else None  # `recover` comes before the task's own records

    def _step(self, *, free: bool) -> Progress | None:
        if not self.in_flight:
            if free and not self._delivery.open:
                self._begin()
            return None
        if self._batch is not None and not self._collect(self._batch):
            return None
        if not self._hear() or (self._writer is None and (self._delivery.open or not free)):
            return None
        if not self._append(TimeBudget(_STEP_S)):
            self._check_topics()
            return Progress()
        self._lacking_since = None
        return self._end()

    def _begin(self) -> None:
        part = self.next_range(self._cluster, lambda place: progress_in(self._offsets.read()).get(place))
        if part is None:  # it has ended
            self._context.wake()
            return
        split = JavaSourceReplaySplit(self._split_job(), replace(part, max_bytes=BATCH_BYTES))
        self._batch = self._context.engine.submit(self._context.id, [split])
        self._batch.add_done_callback(lambda _: self._context.wake())

    def _split_job(self) -> bytes:
        if self._job is None:
            errors = self._settings.errors
            chain = None
            if self._cut is not None:
                chain = java_source_job(self._context, errors, self._cut)
                self._taking = SourceSplits(self._context, errors, self._cut)
            self._job = pickle.dumps(JavaReplayJob(errors, chain))
        return self._job

    def _collect(self, batch: Future[list[Any]]) -> bool:
        """Takes the records of the range; returns False if they are not there yet. Raises the error of the batch."""
        if not batch.done():
            return False
        self._batch = None
        self._result = result = batch.result()[0]
        self._give(result.parts)
        return True

    def _give(self, parts: Sequence[ReplayedPart]) -> None:
        """Gives the host what it has to convert."""
        for number, part in enumerate(parts):
            if not isinstance(part, HostRecords):
                self._frames.append(_frame(part))
                continue
            self._frames.append(None)
            if self._session is None:
                self._session = Session(
                    self._host.connect, "replay", self._order, self._context, measured=PluginMetrics())
            self._session.connection.tell("convert", number=number, records=part.texts)

    def _hear(self) -> bool:
        """Takes what the host has converted. Returns whether that is all. Raises the host's errors."""
        while (session := self._session) is not None and None in self._frames:
            event = session.next(wait=False)
            if isinstance(event, Batch):
                self._frames[event.number] = event
                self._refused += 0 if event.letters is None else len(event.letters)
            elif event is not None:
                raise unexpected(event)
            elif session.retires:
                self.drop()  # the range is read again, for a session in the next host
                self._context.wake()
                return False
            else:
                return False
        return self._result is not None

    def _append(self, budget: TimeBudget) -> bool:
        """Appends the frames. Returns False if Kafka or heeler's part of the chain has not taken all in time."""
        while self._frames and (frame := self._frames[0]) is not None:
            writer = self._writer = self._writer or self._new_writer(self._taking)
            if not writer.write(frame, budget):
                return False
            self._frames.pop(0)
        return self._writer is None or self._writer.flush(budget)

    def _check_topics(self) -> None:
        """Raises ConnectError if a topic has been awaited for longer than a producer awaits its metadata: the task's
        own records wait meanwhile.
        """
        topic = None if self._writer is None else self._writer.lacks
        if topic is None:
            self._lacking_since = None
            return
        now = time.monotonic()
        self._lacking_since = self._lacking_since or now
        limit_ms = self._settings.producer.max_block_ms
        if (now - self._lacking_since) * 1000 >= limit_ms:
            raise ConnectError(
                f"The topic {topic} of replayed records does not exist, or no broker knows its partitions: no answer "
                f"within {limit_ms} ms (max.block.ms)")

    def _end(self) -> Progress:
        result, writer = self._result, self._writer
        if result is None:
            return Progress()
        result.refused.report_to(self._metrics, skipped=True)
        count = result.refused.count
        if writer is not None:
            writer.refused.report_to(self._metrics, skipped=True)
            count += self._refused + writer.bad + writer.refused.count  # the host and the splits have reported theirs
        progress = self.collect(result.counts, Refused(count), lambda part: self._commit(part, result))
        self._forget()
        self._context.wake()
        return progress

    def _commit(self, part: LetterRange, result: JavaReplayResult) -> bool:
        if part.order.dry_run:
            return True
        try:
            if self._writer is not None:
                self._delivery.written([self._writer])
            self._delivery.check()
            begun = time.perf_counter()
            with self._metrics.committing():
                progress = [progress_offset((part.queue, part.partition), result.counts.done)]
                _ = self._delivery.commit(progress) or self._delivery.settle(finish=True)
            self._metrics.committed(time.perf_counter() - begun)
        except Exception:
            self._abort()
            raise
        self._close_writer()
        return True

    def _fail(self, error: Exception) -> None:
        if self._writer is not None:
            self._abort()
        self.fail(self._delivery.failure(error))
        self.drop()

    def _abort(self) -> None:
        """Gives up what was appended and is not committed."""
        self._close_writer()
        self._delivery.abort()
        self._aborted = True

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        if self._taking is not None:
            self._taking.withdraw()

    def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def finish(self, seconds: float) -> None:
        """Before the task stops: commits the range that is being appended, or gives it up if that takes longer."""
        if self._writer is not None:
            try:
                if self._append(TimeBudget(seconds)):
                    self._end()
            except Exception as error:  # noqa: BLE001 - as in `step`
                self._fail(error)
            if self._writer is not None:
                self._abort()
        self.drop()
        self.recover()

    def recover(self) -> None:
        """Called before the task appends anything: aborts what a failed replay has appended. Raises ConnectErrors."""
        if self._aborted:
            self._delivery.recover()
            self._aborted = False

    def drop(self) -> None:
        """Gives up the range in flight; it is read again if the replay goes on. What was appended of it is the
        delivery's to abort.
        """
        self.cancel()
        self._batch = None
        self._close_writer()
        self._close_session()
        self._forget()
        self.withdraw()

    def cancel(self) -> None:
        """Ends what runs elsewhere. Any thread."""
        if (session := self._session) is not None:
            session.close()
        if (batch := self._batch) is not None:
            self._context.engine.cancel(batch)
        if (writer := self._writer) is not None:
            writer.close()


def _frame(part: ConvertedRecords | NewLetters) -> Batch:
    """Returns records or letters that need no conversion as a frame."""
    none = np.array([], np.int32)
    if isinstance(part, NewLetters):
        return Batch(0, (), none, none, part.raw.slice(0, 0), (), False, False, None, letters=part.raw)
    size = len(part.raw)
    partitions = np.full(size, -1, np.int32)
    if part.partitions is not None:
        partitions = part.partitions.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return Batch(0, (part.topic,), np.zeros(size, np.int32), partitions, part.raw, (), False, False, None)
