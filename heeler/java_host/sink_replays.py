"""The replays of a Java sink's task: another instance of the plugin's task, in its own session, puts the records of the
letters.

So the task itself, its partitions and its positions are not concerned. A range of the queue is replayed when the
instance would commit all of its records; what it would commit is never committed.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from typing_extensions import override

from heeler.java_host.connection import Message
from heeler.java_host.host import JavaHost
from heeler.java_host.host_letters import HostLetters
from heeler.java_host.replay_round import ReplayRound, rounds_of
from heeler.java_host.session import Session, unexpected
from spark_tasks.dead_letters.refusals import Refused
from spark_tasks.dead_letters.replay.request import ReplayOrder
from spark_tasks.dead_letters.replay.task_replays import Replays
from spark_tasks.errors import BusyError, ConfigError, ConnectError, counted
from spark_tasks.host_frames import Batch
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.plugins.chain_cut import Cut
from spark_tasks.sinks.java_sink_split import BATCH_BYTES, java_replay_job
from spark_tasks.sinks.replay_commit import commit_replay
from spark_tasks.sinks.replay_split import ReplayResult, ReplaySplit
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.spark.executor import value_of
from spark_tasks.task import ResumeFrom, TaskContext

_logger = logging.getLogger(__name__)
_EVENTS_S: Final = 1.0  # how long one step takes events, which a plugin may cause without an end
_MIN_STORED_S: Final = 30.0


class NotStoredError(ConnectError):
    """The connector has not confirmed in time that it has stored the records of a replay."""


class JavaSinkReplays(Replays):
    """`order`: starts the task in the host; see JavaSinkTask for the others. Never waits: the host's events and the end
    of a batch wake the task.
    """

    def __init__(
        self, context: TaskContext, settings: SinkSettings, host: JavaHost, order: Message, cut: Cut | None
    ) -> None:
        super().__init__(settings.errors, context.metrics)
        self._context, self._settings, self._host, self._cut = context, settings, host, cut
        self._order = {**order, "replay": True}
        self._stored_s = max(_MIN_STORED_S, 2e-3 * context.worker.offset_flush_interval_ms)
        self.keeps_offsets: bool | None = None
        """Whether the plugin's task overrides `open` and `preCommit`; None if that is not known yet."""
        self._letters = HostLetters(settings.errors, context.metrics)
        self._batch: Future[list[Any]] | None = None
        self._forget()

    def _forget(self) -> None:
        self._result: ReplayResult | None = None
        self._refused = 0
        self._rounds: deque[ReplayRound] = deque()
        self._letters.forget()
        self._begin_session(None)

    def _begin_session(self, session: Session | None) -> None:
        self._session = session
        self._awaited = None if session is None else "started"  # the host's next response
        self._opened = False  # the partitions of the first round
        self._asked_at: float | None = None  # when the plugin was told to store everything, or has stored some of it

    @override
    def order(self, body: Mapping[str, Any] | None, resume_from: ResumeFrom | None = None) -> Mapping[str, Any] | None:
        wanted = None if body is None else ReplayOrder.of(body)
        if wanted is not None and not (wanted.dry_run or wanted.keeps_no_offsets):
            if self.keeps_offsets is None:
                raise BusyError("The connector's first task is not running in the Java plugin host yet: try again")
            if self.keeps_offsets:
                raise ConfigError(
                    "the task of this connector overrides open and preCommit, so it may find its position in its "
                    "target. Records of dead letters, whose offsets are behind that, would be ignored or change it. If "
                    "the connector's documentation says that it finds no position there, set keeps_no_offsets")
        return super().order(body, resume_from)

    def step(self, consumer: GroupConsumer, cluster: KafkaCluster) -> None:
        """Continues the replay. Call it only while the task is a member of its group. `cluster`: the task's."""
        if not self.running and self._session is None:
            return
        try:
            self._step(consumer, cluster)
        except Exception as error:  # noqa: BLE001 - of the plugin, its host, and Kafka: they end the replay only
            if self.running:
                self.fail(error)
            else:
                _logger.warning("The task that has replayed dead letters of %s ended with: %s", self._context.id, error)
            self.drop()

    def _step(self, consumer: GroupConsumer, cluster: KafkaCluster) -> None:
        if self._session is not None:
            self._hear(self._session)
        if not self.running:
            self._leave()
        elif not self.in_flight:
            self._begin(consumer, cluster)
        elif self._batch is None or self._collect(self._batch):
            if self._rounds:
                self._advance(self._rounds[0])
            if not self._rounds:
                self._end(consumer)

    def _begin(self, consumer: GroupConsumer, cluster: KafkaCluster) -> None:
        part = self.next_range(cluster, consumer.committed_with_metadata)
        if part is not None:
            job = java_replay_job(self._context, self._settings, self._cut)
            split = ReplaySplit(job, replace(part, max_bytes=BATCH_BYTES))
            self._batch = self._context.engine.submit(self._context.id, [split])
            self._batch.add_done_callback(lambda _: self._context.wake())
        else:
            self._context.wake()  # it has ended

    def _collect(self, batch: Future[list[Any]]) -> bool:
        """Takes the records of the range; returns False if they are not there yet. Raises the error of the batch."""
        if not batch.done():
            return False
        self._batch = None
        self._result = result = batch.result()[0]
        if result.failure is not None:
            value_of(result.failure)
        result.refused.report_to(self._metrics, skipped=True)
        self._refused = result.refused.count
        self._rounds.extend(rounds_of(result.messages))
        return True

    def _advance(self, first: ReplayRound) -> None:
        """Does what can be done now for the first round."""
        if self._session is None:
            self._begin_session(
                Session(self._host.connect, "sink", self._order, self._context, measured=PluginMetrics()))
        if self._session is None or self._awaited is not None:
            return
        connection = self._session.connection
        if not self._opened:
            places = [(*place, offset) for place, offset in first.starts.items()]
            connection.tell("open", places=places, generation=-1, member="")
            self._opened, self._awaited = True, "opened"
            return
        while (frame := first.next()) is not None:
            connection.give(frame)
        if not first.given:
            return
        if not first.missing:
            connection.tell("close", lost=False)
            self._awaited = "closed"
        elif self._asked_at is None:
            connection.tell("commit")
            self._asked_at = time.monotonic()
        elif time.monotonic() - self._asked_at > self._stored_s:
            topic, partition = first.missing[0]
            raise NotStoredError(
                f"the connector has not confirmed within {self._stored_s:.0f} s that it has stored the records of "
                f"{counted(len(first.missing), 'partition')} (such as {topic}-{partition}): its preCommit did not "
                "return their offsets. They were put, but count as not replayed")

    def _end(self, consumer: GroupConsumer) -> None:
        """Ends the range: the plugin has stored all of its records, and the letters of the others are written."""
        result = self._result
        if result is None:
            return
        self.collect(result.counts, Refused(self._refused), lambda part: commit_replay(
            part, result, None, consumer, lambda: consumer.generation() is not None, lambda _: None))
        self._context.wake()

    # ------------------------------------------------------------ events of the host
    def _hear(self, session: Session) -> None:
        until = time.monotonic() + _EVENTS_S
        while not self._letters.full and time.monotonic() < until:
            if (event := session.next(wait=False)) is None:
                break
            if isinstance(event, Batch):
                self._letters.add(event)
            elif isinstance(event, dict) and event["op"] != "failed":
                self._take(event)
            else:
                raise unexpected(event)
        if self._letters:
            self._refused += len(self._letters)
            session.connection.tell("letters", number=self._letters.write())
        if session.stopped:
            session.close()
            self._begin_session(None)
        elif session.retires:
            self.withdraw()  # the range is read again, for a task in the next host
            self.drop()
            self._context.wake()

    def _take(self, event: Message) -> None:
        first = self._rounds[0] if self._rounds else None
        if event["op"] == self._awaited:
            self._awaited = None
            if event["op"] == "closed":
                self._rounds.popleft()
                self._opened, self._asked_at = False, None
        elif first is None:
            return
        elif event["op"] == "done":
            first.done()
        elif event["op"] == "commit":
            for topic, partition, offset, _ in event["offsets"]:
                first.store((topic, partition), offset)
            if self._asked_at is not None:
                self._asked_at = time.monotonic()
        elif event["op"] == "at":
            for topic, partition, offset in event["places"]:
                first.move((topic, partition), offset)
            self._asked_at = None

    # ------------------------------------------------------------ its end
    def _leave(self) -> None:
        """Stops the plugin's task cleanly."""
        if self._session is not None and self._awaited != "stopped":
            self._session.connection.tell("stop")
            self._awaited = "stopped"

    def drop(self) -> None:
        """Gives up the session and the range in flight."""
        self.cancel()
        self._batch = None
        self._forget()

    def cancel(self) -> None:
        """Ends what runs elsewhere. Any thread."""
        if (session := self._session) is not None:
            session.close()
        if (batch := self._batch) is not None:
            self._context.engine.cancel(batch)
