"""The status store: writes the statuses of this worker's connectors, tasks and topics, and reads those of all workers.

It never blocks. A written status is visible only after it has been read back; a write that fails temporarily is
repeated unless a newer status supersedes it (storage/status/fold.py has the rules).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from actors.messages.commands import (
    Decided,
    DeleteTopicStatuses,
    FlushStatuses,
    PutStatus,
    PutTopicStatus,
    ReadStatuses,
)
from actors.messages.correlation_ids import OpId
from actors.messages.events import StatusesFlushed, StatusesRead
from actors.messages.requests import Ask, ResetTopics
from actors.stores.log_actor import LogActor
from actors.stores.log_events import CaughtUp, RecordsRead
from actors.ticker import Ticker
from spark_tasks.errors import RetriableError
from spark_tasks.futures import complete, error_of, fail
from spark_tasks.process.rate_limited_log import RateLimitedLog
from storage.ids import ConnectorName
from storage.log.interface import SuspendedError, TopicLog
from storage.log.record import KeyValue, LogRecord
from storage.status.fold import WriteBook, WriteTicket, admit, fold, forget, may_repeat
from storage.status.records import status_key, status_record, topic_key, topic_record
from storage.status.state import Status, StatusState, TopicStatus
from storage.status.view import StatusView

_logger = logging.getLogger(__name__)

REPEAT_MS = 100


@dataclass(frozen=True, slots=True)
class _Write:
    """A record that is being written. Topic statuses have no ticket: they are repeated until they are written, unless
    the process was suspended while they were sent.

    `since`: when it was decided on (time.monotonic), if not when it is sent.
    """

    record: KeyValue
    ticket: WriteTicket | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class _Sent:
    number: int
    write: _Write
    error: Exception | None


@dataclass(frozen=True, slots=True)
class _Again:
    write: _Write


class StatusStoreActor(LogActor):
    """Takes Decided(PutStatus), FlushStatuses, ReadStatuses, PutTopicStatus, DeleteTopicStatuses and
    Ask(ResetTopics).
    """

    def __init__(self, topic_log: TopicLog, tell: Callable[[Any], None], view: StatusView, ticker: Ticker) -> None:
        super().__init__(topic_log, "Status topic")
        self._tell = tell
        self._view = view
        self._ticker = ticker
        self._state = StatusState()
        self._book = WriteBook()
        self._numbers = itertools.count()
        self._limited_log = RateLimitedLog(max_lines=1)
        self._open: set[int] = set()  # numbers of sends without an outcome yet
        self._flushes: list[tuple[int, Callable[[], None]]] = []  # called when no number below is open
        self._topics_sent: set[bytes] = set()  # keys of topic statuses that were sent but not read back yet
        # By key: writes that replace any status, and those after them, until they have been read back.
        self._unread: dict[bytes, list[_Write]] = {}

    @override
    def on_stop(self) -> None:
        """Answers all flushes that are still waiting."""
        self._log.stop()
        for _, answer in self._flushes:
            answer()

    @override
    def on_receive(self, message: Any) -> None:
        match message:
            case RecordsRead() | CaughtUp() | _Sent() | _Again() | StatusesRead():
                self._progress(message)
            case Decided(PutStatus(status, safe), at):
                self._put(status, at, safe=safe)
            case PutTopicStatus(status):
                self._put_topic(status)
            case DeleteTopicStatuses(connector):
                self._delete_topics(connector)
            case Ask(ResetTopics(connector), reply):
                self._delete_topics(connector)
                self._when_flushed(lambda: reply.set(None))
            case FlushStatuses(op):
                self._when_flushed(self._flushed(op))
            case ReadStatuses(op, timeout_ms):
                self._read_to_end(op, timeout_ms)
            case _:
                raise TypeError(f"the status store cannot handle {message!r}")

    def _progress(self, message: RecordsRead | CaughtUp | _Sent | _Again | StatusesRead) -> None:
        match message:
            case RecordsRead(records):
                self._fold(records)
            case CaughtUp(error):
                self._caught_up(error)
            case _Sent(number, write, error):
                self._sent(number, write, error)
            case _Again(write):
                if self._may_repeat(write):
                    self._send(write)
                else:
                    self._give_up(write)
            case StatusesRead():
                self._tell(message)

    # ------------------------------------------------------------ reading
    def _fold(self, records: Sequence[LogRecord]) -> None:
        self._state, removed = fold(self._state, records)
        self._book = forget(self._book, removed)
        if self._unread:
            for record in records:
                self._settle(record)
            for item in removed:
                self._unread.pop(status_key(item), None)
        if self._topics_sent:
            self._topics_sent.difference_update(record.key for record in records if record.key is not None)
        if self._view.ready.done():
            self._view.statuses = self._state

    def _caught_up(self, error: Exception | None) -> None:
        if error is None:
            self._view.statuses = self._state
            complete(self._view.ready, None)
        else:
            fail(self._view.ready, error)

    def _read_to_end(self, op: OpId, timeout_ms: int) -> None:
        alarm = (self.actor_urn, "read", op)
        read = self._log.read_to_end(timeout_ms / 1000)

        def done(_: Future[None]) -> None:
            self._ticker.cancel(alarm)
            self._tell_self(StatusesRead(op, error_of(read)))  # in the inbox, behind the records that were read

        # If the topic is truncated meanwhile, the end that was found may not be reached for a long time.
        late = TimeoutError(f"no answer within {timeout_ms} ms")
        self._ticker.set(alarm, self._ticker.now_ms() + timeout_ms, lambda: fail(read, late))
        read.add_done_callback(done)

    # ------------------------------------------------------------ writing
    def _put(self, status: Status, at: float, *, safe: bool) -> None:
        """A safe write that follows one which replaces any status may replace the same one until that is read back.
        Otherwise a task that fails soon after its start would stay RUNNING if another worker's status has a later
        generation.
        """
        record = status_record(status)
        unread = self._unread.get(record[0], [])
        self._book, ticket = admit(self._book, self._state, status, safe=safe,
                                   after=unread[-1].ticket if unread else None)
        if ticket is not None:
            write = _Write(record, ticket, at)
            if unread or not safe:
                self._unread[record[0]] = [*unread, write]
            self._send(write)

    def _settle(self, record: LogRecord) -> None:
        """A record has been read. If it is one of this worker's writes, those before it are not repeated."""
        unread = self._unread.get(record.key or b"", [])
        for number, write in enumerate(unread):
            if write.record[1] == record.value:
                self._keep_unread(write.record[0], unread[number + 1:])
                return

    def _keep_unread(self, key: bytes, writes: list[_Write]) -> None:
        if writes:
            self._unread[key] = writes
        else:
            self._unread.pop(key, None)

    def _put_topic(self, status: TopicStatus) -> None:
        record = topic_record(status)
        known = self._state.topics.get(status.connector, {})
        if status.topic not in known and record[0] not in self._topics_sent:
            self._topics_sent.add(record[0])
            self._send(_Write(record))

    def _delete_topics(self, connector: ConnectorName) -> None:
        for topic in self._state.topics.get(connector, {}):
            self._send(_Write((topic_key(topic, connector), None)))

    def _send(self, write: _Write) -> None:
        number = next(self._numbers)
        self._open.add(number)

        def sent(future: Future[Any]) -> None:
            self._tell_self(_Sent(number, write, error_of(future)))

        self._log.send(*write.record, write.since).add_done_callback(sent)

    def _sent(self, number: int, write: _Write, error: Exception | None) -> None:
        self._open.discard(number)
        if error is not None:
            self._failed(number, write, error)
        self._answer_flushes()

    def _failed(self, number: int, write: _Write, error: Exception) -> None:
        if isinstance(error, SuspendedError):
            _logger.info("Did not write %s to the status topic: %s", write.record[0].decode(errors="replace"), error)
            self._give_up(write)
            return
        if not isinstance(error, RetriableError):
            _logger.error("Failed to write %s to the status topic: %s", write.record[0].decode(errors="replace"), error)
            self._give_up(write)
            return
        if self._may_repeat(write):
            self._limited_log.log(_logger, logging.WARNING, "Could not write statuses; retrying: %s", error)
            _logger.debug("Failed to write status %r; retrying: %s", write.record[0], error)
            at_ms = self._ticker.now_ms() + REPEAT_MS
            self._ticker.set((self.actor_urn, number), at_ms, lambda: self._tell_self(_Again(write)))
        else:
            self._give_up(write)

    def _may_repeat(self, write: _Write) -> bool:
        return write.ticket is None or may_repeat(self._book, self._state, write.ticket)

    def _give_up(self, write: _Write) -> None:
        key = write.record[0]
        self._topics_sent.discard(key)
        self._keep_unread(key, [other for other in self._unread.get(key, []) if other is not write])

    # ------------------------------------------------------------ flushing
    def _when_flushed(self, answer: Callable[[], None]) -> None:
        self._flushes.append((next(self._numbers), answer))
        self._answer_flushes()

    def _answer_flushes(self) -> None:
        # As in KafkaProducer.flush, a failed send counts as complete, whether it will be repeated or not.
        while self._flushes and all(number > self._flushes[0][0] for number in self._open):
            self._flushes.pop(0)[1]()

    def _flushed(self, op: OpId) -> Callable[[], None]:
        return lambda: self._tell(StatusesFlushed(op))
