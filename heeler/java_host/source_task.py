"""Runs one task of a Java source connector: the host polls, transforms and converts; the worker appends and commits.

Received frames are appended under one lane. When all records are acknowledged, the delivery commits them together with
their offsets, and then the plugin is notified. So the guarantees of a delivery are the same as for Python sources.

A step does not wait long for frames, the partitions of topics, heeler's part of the chain, and acknowledgments: a poll
that is not complete or not acknowledged stays open; the next step continues with it. So the task can be paused and
stopped meanwhile; the same goes for topics that it creates. Other requests to Kafka, which write offsets or belong to
a transaction, are waited for within the step until their own timeouts, which are a minute at most by default.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import Any, Final

from typing_extensions import override

from heeler.java_host.acknowledgements import Acknowledgements
from heeler.java_host.arrivals import Arrivals
from heeler.java_host.connection import Event, JavaPluginError
from heeler.java_host.frame_writer import FrameWriter
from heeler.java_host.host import JavaHost
from heeler.java_host.offset_texts import as_texts, from_texts
from heeler.java_host.session import Session, order, unexpected
from heeler.java_host.source_replays import JavaSourceReplays, letters_order
from heeler.java_host.source_splits import SourceSplits
from heeler.java_host.task import JavaTask
from heeler.java_host.time_budget import TimeBudget
from heeler.java_host.topic_requests import TopicRequests
from spark_tasks.dead_letters.queue_topic import QueueTopic
from spark_tasks.dead_letters.replay.source_progress import is_progress
from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.futures import running
from spark_tasks.host_frames import Batch, HostGoneError
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.plugins.chain_cut import Cut
from spark_tasks.sources.boundaries import BoundaryKind
from spark_tasks.sources.delivery import AtLeastOnce, Delivery
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.task import Progress, TaskContext

_logger = logging.getLogger(__name__)

STEP_S: Final = 1.0  # how long frames are collected before a commit, and waits take; messages are handled between steps
STEP_BYTES: Final = 32 << 20  # they are kept until the commit; more if a poll returns more
STOP_SHARE: Final = 0.3  # of the time for a graceful stop, for Kafka; more may pass before it begins and after it
IDLE_MS: Final = 60_000  # the reading thread wakes the task


class JavaSourceTask(JavaTask):
    """`named`: the connector's class and version for the host; `delivery`: None for at least once; `cut`: which part of
    the chain is heeler's.
    """

    def __init__(self, context: TaskContext, settings: SourceSettings, host: JavaHost, named: Mapping[str, str],
                 delivery: Delivery | None = None, cut: Cut | None = None) -> None:
        if context.offsets is None:
            raise ConnectError(f"source task {context.id} has no offset store")
        super().__init__(context, "source", named, settings.errors)
        self._offsets = context.offsets
        self._host = host
        producer = settings.producer
        self._options = producer.appender
        self._cluster = shared_cluster(producer.client)
        self._delivery = delivery or AtLeastOnce(
            self._cluster, context.offsets, context.worker.session_timeout_ms, idempotent=producer.idempotent)
        boundary = self._delivery.boundary
        divided = cut if cut is not None and cut.divides else None
        self._taking = None if divided is None else SourceSplits(context, settings.errors, divided)
        in_host = {**order(context, named, cut), "letters": letters_order(settings.errors),
                   "converted": None if divided is None else sorted(divided.converted)}
        self._order = {**in_host, "boundaries": boundary is not None and boundary.kind is BoundaryKind.CONNECTOR}
        self._queue = QueueTopic(settings.errors)
        self._replays = JavaSourceReplays(
            context, settings, host, in_host, divided, self._cluster, self._delivery, self._new_writer)
        self._creation = None if settings.topics is None else TopicRequests(settings.topics, self._cluster)
        self._errors = settings.errors
        self._flush_ms = max(1, context.worker.offset_flush_interval_ms)
        self._acknowledgements = Acknowledgements(self._flush_ms)
        self._polls = False
        self._stop_s = STOP_SHARE * context.worker.graceful_stop_ms / 1000
        self._arrivals = Arrivals()
        self._writer: FrameWriter | None = None  # what is not committed yet
        self._held_up: Future[list[Any]] | None = None  # while the next frame waits for its topic or for Kafka

    @property
    def batch(self) -> Future[list[Any]] | None:
        """The batch of heeler's part of the chain, or what waits to be appended or acknowledged, or is a part of a poll
        for whose rest the task waits.
        """
        if self._taking is not None and (batch := self._taking.batch) is not None:
            return batch
        writer = self._writer
        return self._held_up if writer is None or writer.number is None else writer.acknowledged

    @override
    def start(self) -> None:
        """Fences predecessors if the delivery does so; creates and starts the task in the host."""
        self._metrics.running(paused=False)
        with self._metrics.counting_failures("start"):
            self._delivery.start()
            with suppress(RetriableError):  # run_once tries again
                self._open()

    def _open(self) -> Session:
        self._delivery.recover()
        self._acknowledgements.begin()
        self._polls = False
        session = self._held.open(
            lambda: Session(self._host.connect, "source", self._order, self._context, self._read_offsets),
            self._await_start)
        self.restarting = False
        return session

    def _await_start(self, session: Session) -> None:
        event = session.next(wait=True)
        if not isinstance(event, Mapping) or event.get("op") != "started":
            self._drop()
            raise unexpected(event)

    def _read_offsets(self) -> list[tuple[str, str]]:
        return as_texts([pair for pair in self._offsets.read() if not is_progress(pair[0])])

    def _new_writer(self, taking: SourceSplits | None) -> FrameWriter:
        return FrameWriter(self._cluster, self._options, lambda: self._delivery.lanes(1)[0], self._context.topic_used,
                           taking, self._errors, creation=self._creation)

    @override
    def _attempt(self) -> Progress:
        """Also runs while the task is paused, because records that were polled before are still written."""
        try:
            if self._held.session is not None:  # a new one begins with the committed offsets
                self._delivery.check()
                self._replays.recover()
            session = self._held.current() or self._open()
            if self._polls is self._paused:
                self._tell("pause" if self._paused else "resume")
                self._polls = not self._paused
            self._queue.prepare()
            if (replayed := self._replays.step(free=self._writer is None and not self._paused)) is not None:
                return replayed
            return self._progress(session, self._step(session, TimeBudget(STEP_S)))
        except HostGoneError as gone:
            return self._failed(self._reason(gone))
        except Exception as error:  # noqa: BLE001 - Kafka's, and the plugin's
            return self._failed(error)

    def _reason(self, gone: HostGoneError) -> ConnectError:
        """The error of the plugin, if it has ended its JVM. Its event may have been received behind frames."""
        if self._held.session is not None:
            self._arrivals.add(self._held.session.rest())
        failure = self._arrivals.failure
        return gone if failure is None else unexpected(failure)

    def _step(self, session: Session, budget: TimeBudget, *, stopping: bool = False) -> FrameWriter | None:
        """Appends received frames, up to one that ends a transaction, and commits them when all are acknowledged. Only
        commits if whole polls are appended already. While `stopping`, waits for frames until the event "drained".
        Returns what is committed now; None if it stays open, for the next step.
        """
        writer = self._writer = self._writer or self._new_writer(self._taking)
        if self._held.cancelled:
            writer.close()
        end = None
        if writer.number is None or writer.in_poll:
            end = self._append(session, writer, budget, stopping=stopping)
        drained = stopping and self._arrivals.drained
        error = None if end is None or drained else unexpected(end)
        if error is not None and (self._held.cancelled or not self._is_whole(writer, error)):
            raise error
        if writer.in_poll and drained:  # the host could not convert the rest before it had to stop
            self._delivery.abort()
            final = False
        elif writer.number is None:
            final = self._settle(finish=False)
        elif (writer.in_poll and error is None) or not self._flush(writer, budget):
            return None
        else:
            final = self._commit(writer)
        self._close_writer()
        if error is not None:
            raise error
        if final:
            self._acknowledgements.send(session)
        return writer

    def _append(self, session: Session, writer: FrameWriter, budget: TimeBudget, *, stopping: bool) -> Event | None:
        """Appends frames. Returns the event after them, if it ends them. A poll of several frames, which may turn out
        to be incomplete, is kept apart from earlier ones.
        """
        until = time.monotonic() + STEP_S
        while stopping or time.monotonic() < until:
            if not writer.in_poll and writer.size + writer.letter_size >= STEP_BYTES:
                break
            try:
                event = self._arrivals.first(session, in_poll=writer.in_poll, wait=stopping)
            except HostGoneError as gone:
                return gone
            if not isinstance(event, Batch):
                return event
            if event.more and not writer.in_poll and writer.number is not None:
                break
            if not writer.write(event, budget):
                self._held_up = self._held_up or running()
                break
            self._held_up = None
            self._arrivals.pop()
            if writer.signal is not None:
                break
        return None

    def _progress(self, session: Session, writer: FrameWriter | None) -> Progress:
        if writer is not None and writer.number is not None:
            return Progress(writer.records, writer.size)
        in_poll = self._writer is not None and self._writer.in_poll
        if self._arrivals.ready(in_poll=in_poll) or (writer is None and not in_poll):
            return Progress()  # the next step waits for Kafka, or for heeler's part of the chain
        self._acknowledgements.send_if_due(session)
        # A transaction is not committed within a poll, however long it has been due.
        due_ms = None if in_poll else self._delivery.due_ms
        return Progress(idle_ms=max(1, int(min(IDLE_MS, self._flush_ms, IDLE_MS if due_ms is None else due_ms))))

    def _is_whole(self, writer: FrameWriter, error: ConnectError) -> bool:
        """Whether what was appended may be committed: what one poll returned is committed as a whole. But with
        at-least-once delivery, the records before the one that fails the task are not repeated, as in Kafka Connect.
        """
        return not writer.in_poll or (self._delivery.boundary is None and isinstance(error, JavaPluginError))

    def _flush(self, writer: FrameWriter, budget: TimeBudget) -> bool:
        """Returns whether all that was appended is acknowledged."""
        if not writer.flushed and writer.flush(budget):
            self._delivery.written([writer])
        return writer.flushed

    def _commit(self, writer: FrameWriter) -> bool:
        """Commits. Returns whether everything that was appended is now committed."""
        self._delivery.check()
        begun = time.perf_counter()
        with self._metrics.committing():
            final = self._delivery.commit(from_texts(writer.offsets.items()), writer.signal or "continue")
        self._metrics.add_splits(writer.figures)
        writer.refused.report_to(self._metrics, skipped=True)
        if writer.number is not None:
            self._acknowledgements.committed(writer.number, writer.positions)
        self._retry_state.succeeded()
        return self._counted(begun, final=final)

    def _settle(self, *, finish: bool) -> bool:
        begun = time.perf_counter()
        with self._metrics.committing():
            final = self._delivery.settle(finish=finish)
        return self._counted(begun, final=final)

    def _counted(self, begun: float, *, final: bool) -> bool:
        if final:
            self._metrics.committed(time.perf_counter() - begun)
            if self._delivery.boundary is not None:
                self._metrics.transaction_ended()
        return final

    def _failed(self, error: Exception) -> Progress:
        """After a retriable error, the next step appends the same frames again, or, if they are appended, commits them.
        In a transaction or without the host, it begins with the committed offsets. Raises other errors, which fail the
        task.
        """
        self._queue.batch_failed(error)
        if self._taking is not None:
            self._taking.forget()
        self._replays.drop()
        self.restarting = self.restarting or isinstance(error, HostGoneError)
        seen = self._delivery.failure(error)
        with ExitStack() as leaving:
            leaving.callback(self._leave)
            if self._held.cancelled or seen is not error:
                raise seen from error
            progress = self._retry_state.later(error)
            if self._held.session is not None and not isinstance(error, HostGoneError) and self._keeps():
                leaving.pop_all()
                self._delivery.abort()
            return progress

    def _keeps(self) -> bool:
        """Keeps what has been received for the next step, if it may. Returns whether there is anything."""
        if self._delivery.boundary is not None or self._delivery.suspended:
            return False
        if self._writer is not None and not self._writer.flushed:
            self._arrivals.put_back(self._writer.frames)
            self._close_writer()
        return self._writer is not None or bool(self._arrivals)

    def _leave(self) -> None:
        """Stops the plugin, and gives up what it sends meanwhile. Until it has stopped, it may hold what its successor
        needs, such as a replication slot.
        """
        session = self._held.session
        with suppress(HostGoneError):
            if session is not None and not session.stopped:
                session.connection.tell("stop")
                session.connection.tell("finish")
            while session is not None and not session.stopped:
                session.next(wait=True)
        self._give_up()

    @override
    def _give_up(self) -> None:
        """Drops the session, and aborts a transaction that the plugin has not ended."""
        self._drop()
        self._delivery.abort()

    def _drop(self) -> None:
        self._replays.drop()
        self._held.close()
        self._acknowledgements.begin()
        self._arrivals.clear()
        self._held_up = None
        self._close_writer()
        if self._taking is not None:
            self._taking.withdraw()

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    @override
    def replay(self, order: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        return self._replays.order(order)

    @override
    def pause(self) -> None:
        """Pauses the task. Records that were polled before are still written."""
        super().pause()
        self._polls = False

    @override
    def close(self) -> None:
        """Waits for the last poll, commits its records if Kafka acknowledges them, stops the task in the host."""
        self._metrics.stopped()
        try:
            if not self._held.finish():
                self._delivery.abort()
        except Exception:
            self._delivery.abort()
            raise
        finally:
            self._drop()
            self._delivery.close()
            self._offsets.close_soon()

    @override
    def _finish(self, session: Session) -> None:
        self._replays.finish(self._stop_s)
        session.connection.tell("stop")
        try:
            self._drain(session)
        except HostGoneError:
            raise
        except RetriableError as error:
            _logger.warning("%s stops before its last records are written; they will be polled again: %s",
                            self._context.id, error)
            self._queue.batch_failed(error)
            self._leave()
            return
        session.connection.tell("finish")
        event = session.next(wait=True)
        if not isinstance(event, Mapping) or event.get("op") != "stopped":
            raise unexpected(event)

    def _drain(self, session: Session) -> None:
        """Commits all that the host still sends. Raises RetriableError if that takes too long."""
        budget = TimeBudget(self._stop_s)
        while True:
            written = self._step(session, budget, stopping=True)
            if self._writer is None and self._arrivals.drained:
                break
            if budget.spent and (written is None or written.number is None):
                raise RetriableError("Kafka or the transforms did not take the remaining records in time")
        if self._settle(finish=True):
            self._acknowledgements.send(session)

    @override
    def stop_starting(self) -> None:
        self._delivery.cancel()
        self._held.stop_starting()

    @override
    def cancel(self) -> None:
        """Cancels the task; the host abandons it, too."""
        self._held.cancel()
        if (writer := self._writer) is not None:
            writer.close()  # it may be waiting for a broker
        if self._taking is not None:
            self._taking.cancel()
        self._replays.cancel()
        self._delivery.cancel()
