"""Runs one task of a Java sink connector: the worker is the member of the consumer group, fetches and commits; the
host converts, transforms and puts.

Frames of records are sent to the host ahead of time. The host reports each finished frame, and the offsets that the
task wants to commit: exactly these are committed, by this member in this generation. Before the member rejoins, the
task closes its partitions; the new ones are opened at the committed offsets.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from typing_extensions import override

from heeler.java_host.connection import Event
from heeler.java_host.cut_feed import CutFeed
from heeler.java_host.feed import Feed
from heeler.java_host.host import JavaHost
from heeler.java_host.host_letters import HostLetters
from heeler.java_host.session import Session, order, unexpected
from heeler.java_host.sink_replays import JavaSinkReplays
from heeler.java_host.task import JavaTask
from spark_tasks.dead_letters.queue_topic import QueueTopic
from spark_tasks.errors import RetriableError
from spark_tasks.host_frames import Batch, HostGoneError
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.end_watchers import EndWatchers
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.kafka.group_io import GroupIo
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.plugins.chain_cut import Cut
from spark_tasks.sinks.java_sink_split import java_sink_job
from spark_tasks.sinks.pending_offsets import PendingOffsets
from spark_tasks.sinks.positions import Positions
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.task import JOIN_IDLE_MS, JOIN_WAIT_MS, UPKEEP_MS
from spark_tasks.task import Progress, TaskContext

MAX_POLL_RECORDS: Final = 500  # as in a Java consumer
EVENTS_S: Final = 1.0  # how long one step takes events of the host, which a plugin may cause without an end


class JavaSinkTask(JavaTask):
    """`named`: the connector's class and version for the host; `watchers` and `io`: the worker's. `cut`: which part of
    the chain is heeler's.
    """

    def __init__(self, context: TaskContext, settings: SinkSettings, host: JavaHost, named: Mapping[str, str],
                 watchers: EndWatchers, io: GroupIo, cut: Cut | None = None) -> None:
        super().__init__(context, "sink", named, settings.errors)
        self._host = host
        self._settings = settings
        self._io = io
        self._watcher = watchers.of(settings.client)
        self._positions = Positions(self._watcher, settings.isolation, settings.reset, None)
        self._order = {
            **order(context, named, cut), "group": settings.consumer.group_id,
            "maxPollRecords": settings.max_poll_records or MAX_POLL_RECORDS,
            "flush": max(1, context.worker.offset_flush_interval_ms),
        }
        if cut is not None and cut.divides:
            self._feed: Feed = CutFeed(self._positions, context, java_sink_job(context, settings, cut),
                                       tolerant=settings.errors.tolerant)
        else:
            self._feed = Feed(self._positions, settings.client, settings.isolation, context.worker.max_record_bytes,
                              context.topic_used)
        self._queue = QueueTopic(settings.errors)
        self._consumer: GroupConsumer | None = None
        self._open: frozenset[TopicPartition] | None = None  # the plugin's partitions; None before the first `open`
        self._has_host_event = True  # an event of the host since the group was last polled
        self._texts: dict[TopicPartition, str] = {}  # the plugin's metadata of its offsets
        self._pending = PendingOffsets(self._metrics, metadata=lambda partitions: {
            place: self._texts[place] for place in partitions if place in self._texts})
        self._letters = HostLetters(settings.errors, self._metrics)
        self._replays = JavaSinkReplays(context, settings, host, self._order, cut)

    @property
    def batch(self) -> Future[list[Any]] | None:
        """The batch of heeler's part of the chain."""
        return self._feed.batch if isinstance(self._feed, CutFeed) else None

    @override
    def start(self) -> None:
        """Creates and starts the task in the host. It joins the group in run_once."""
        self._metrics.running(paused=False)
        with suppress(RetriableError):  # run_once tries again
            self._begin()

    def _begin(self) -> Session:
        session = self._held.open(lambda: Session(self._host.connect, "sink", self._order, self._context),
                                  lambda made: self._await(made, "started"))
        self.restarting = False
        if self._paused:
            session.connection.tell("pause")
        return session

    @override
    def _attempt(self) -> Progress:
        try:
            self._queue.prepare()
            return self._step(self._held.current() or self._begin())
        except HostGoneError as error:
            if (session := self._held.session) is not None:
                for event in session.rest():
                    self._hear(event)  # if the plugin has ended its JVM, raises this error
            self._give_up()
            if self._held.cancelled:
                raise
            self.restarting = True
            return self._retry_state.later(error)
        except RetriableError as error:  # for example, Kafka cannot be reached
            self._positions.recheck()
            self._queue.batch_failed(error)
            return self._retry_state.later(error)

    def _step(self, session: Session) -> Progress:
        until = time.monotonic() + EVENTS_S
        while not self._letters.full and time.monotonic() < until:
            if (event := session.next(wait=False)) is None:
                break
            self._hear(event)
        self._settle(session)
        if self._feed.given and not self._has_host_event:
            return Progress(idle_ms=UPKEEP_MS)  # a put takes long: do not poll, so that the group notices a hang
        self._has_host_event = False
        if not self._member.poll(JOIN_WAIT_MS, lambda: self._close_partitions(session)):
            return Progress(idle_ms=JOIN_IDLE_MS)
        if self._member.take_change():
            self._close_partitions(session)
        if self._open is None:
            self._open_partitions(session)
        if not self._paused:
            self._replays.step(self._member, self._watcher.cluster)
        if self._paused or not self._positions:
            self._retry_state.succeeded()
            self._positions.refresh_ends()
            self._metrics.lags = self._positions.lags()
            return Progress(idle_ms=UPKEEP_MS)
        return self._give(session)

    @property
    def _member(self) -> GroupConsumer:
        if self._consumer is None:
            self._consumer = GroupConsumer(self._settings.consumer, self._io, self._context.wake)
        return self._consumer

    # ------------------------------------------------------------ events of the host
    def _hear(self, event: Event) -> str:
        """Handles an event and returns its name. Raises the plugin's exception."""
        self._has_host_event = True
        if isinstance(event, Batch):
            self._letters.add(event)
            return "letter"
        if not isinstance(event, dict) or event.get("op") == "failed":
            with suppress(KafkaUnavailableError):  # no need to report it: the records are read again
                self._letters.write()  # including that of the record that has failed the task
                self._commit_offsets()
            self._give_up()
            raise unexpected(event)
        match event["op"]:
            case "started":
                self._replays.keeps_offsets = bool(event.get("keeps"))
            case "commit":
                offsets = {}
                for topic, partition, offset, text in event["offsets"]:
                    offsets[topic, partition] = offset
                    self._texts[topic, partition] = text
                self._pending.add(self._positions.take_starts() | offsets)
            case "at":
                self._feed.move([((topic, partition), offset) for topic, partition, offset in event["places"]])
            case "done" if self._feed.given:
                count, size = self._feed.given.popleft()
                self._metrics.add_splits([SplitFigures(count, size, event["written"])])
        return str(event["op"])

    def _await(self, session: Session, op: str) -> None:
        """Handles events until this one has arrived. If the host hangs, `cancel` ends the wait."""
        while True:
            event = session.next(wait=False) if not self._letters.full else None
            if event is None:
                self._send_letters(session)
                event = session.next(wait=True)
            if event is not None and self._hear(event) == op:
                return

    def _settle(self, session: Session) -> None:
        """Writes dead letters, then commits: a letter's record may be behind the committed offset."""
        self._send_letters(session)
        self._commit_offsets()

    def _send_letters(self, session: Session) -> None:
        """Sends all dead letters received so far, before their records are committed."""
        if self._letters:
            session.connection.tell("letters", number=self._letters.write())

    def _commit_offsets(self) -> None:
        """Commits pending offsets. Refused ones stay pending: the task rejoins, and tries again when it closes its
        partitions.
        """
        if self._pending:
            self._pending.commit(self._member)

    # ------------------------------------------------------------ partitions
    def _close_partitions(self, session: Session) -> None:
        """Called before rejoining: the task commits its offsets, unless the membership is lost already."""
        if self._open:
            lost = self._member.generation() is None
            session.connection.tell("close", lost=lost)
            self._await(session, "closed")
            if not lost:
                self._settle(session)
        self._forget_partitions()

    def _forget_partitions(self) -> None:
        self._open = None
        self._pending.forget()
        self._texts.clear()
        self._feed.open({})

    def _open_partitions(self, session: Session) -> None:
        assigned_partitions = self._member.assignment()
        self._positions.assign(assigned_partitions, self._member.committed)
        if missing := self._positions.missing:  # the plugin must not get records of partitions that it has not opened
            topic, partition = missing[0]
            raise KafkaUnavailableError(f"the start of {topic}-{partition} is not known: it has no leader at present")
        places = self._positions.at()
        self._feed.open(places)
        generation, member = self._member.generation() or (-1, "")
        session.connection.tell("open", places=[(*place, offset) for place, offset in places.items()],
                                generation=generation, member=member)
        self._open = assigned_partitions  # also if it is interrupted, because they must then be closed
        self._await(session, "opened")

    # ------------------------------------------------------------ records
    def _give(self, session: Session) -> Progress:
        """Sends frames as long as there are any and the host keeps up."""
        count = 0
        while not (busy := self._feed.busy):
            frame = self._feed.next()
            if frame is None:
                break
            session.connection.give(frame)
            count += self._feed.given[-1][0]
        self._metrics.lags = self._positions.lags()
        if not self._feed.pending:
            self._retry_state.succeeded()
        if busy:
            return Progress(count, idle_ms=UPKEEP_MS)  # the host wakes the task
        armed = self._watcher.arm(self, self._feed.at(), self._settings.isolation, self._context.wake)
        return Progress(count, idle_ms=UPKEEP_MS if armed else 0)

    @override
    def replay(self, order: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        return self._replays.order(order)

    # ------------------------------------------------------------ its life
    @override
    def pause(self) -> None:
        """Pauses the task. The host keeps its records, and the task commits."""
        super().pause()
        self._watcher.forget(self)

    @override
    def resume(self) -> None:
        """Undoes `pause`."""
        super().resume()
        self._tell("resume")

    @override
    def _give_up(self) -> None:
        """Drops the session; the next one reads uncommitted records again."""
        self._held.close()
        self._letters.forget()
        self._forget_partitions()

    @override
    def close(self) -> None:
        """Stops the task cleanly, commits its offsets, leaves the group."""
        self._metrics.stopped()
        try:
            self._replays.drop()
            self._held.finish()
        finally:
            self._give_up()
            consumer, self._consumer = self._consumer, None
            self._watcher.forget(self)
            if consumer is not None:
                consumer.close()

    @override
    def _finish(self, session: Session) -> None:
        """Stops the task in its host, without leaving the group."""
        session.connection.tell("stop")
        self._await(session, "stopped")
        with suppress(KafkaUnavailableError):  # no need to report it: the records are read again
            self._settle(session)

    @override
    def stop_starting(self) -> None:
        self._held.stop_starting()

    @override
    def cancel(self) -> None:
        """Cancels the task; the host abandons it, too."""
        self._held.cancel()
        self._replays.cancel()
        if (batch := self.batch) is not None:
            self._context.engine.cancel(batch)
