"""The config store: writes to the config topic for the herder, and reports new records to it.

It never blocks: the log's threads send it what they have read and the outcomes of writes, and the ticker notifies it
when a write has taken too long. A write is answered once it has been read back.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from actors.messages.commands import ClaimWritePrivileges, Decided, PutLoggerLevel, ReadConfigToEnd, WriteConfig
from actors.messages.correlation_ids import OpId
from actors.messages.events import ConfigChanged, ConfigOpDone
from actors.messages.replies import answer
from actors.messages.requests import Ask, SetClusterLoggerLevel
from actors.stores.config_writes import WritePlan, plan
from actors.stores.log_actor import LogActor
from actors.stores.log_events import CaughtUp, RecordsRead
from actors.ticker import Ticker
from spark_tasks.errors import ConnectError
from spark_tasks.futures import complete, error_of, fail, gather
from spark_tasks.process.suspension import process_pulse
from storage.config.fold import Deferred, fold
from storage.config.state import ClusterConfigState
from storage.config.view import ConfigView
from storage.errors import PrivilegedWriteError
from storage.ids import ConnectorName
from storage.log.interface import PrivilegedWriter, TopicLog
from storage.log.record import LogRecord, Position

WRITE_TIMEOUT_MS = 30_000  # for all of a write, as in Kafka Connect


@dataclass(frozen=True, slots=True)
class _Sent:
    number: int
    positions: Sequence[Position]
    error: Exception | None


@dataclass(frozen=True, slots=True)
class _Ended:
    """A claim, a read to the end, or the reading back of a write has ended."""

    number: int
    error: Exception | None


@dataclass(slots=True)
class _Work:
    """An operation in progress. `plan` is None for reads and claims."""

    answer: Callable[[Exception | None], None]
    plan: WritePlan | None = None
    error: Callable[[Exception], Exception] = lambda error: error
    since: float | None = None  # time.monotonic when a write was decided on


class ConfigStoreActor(LogActor):
    """Answers Decided(WriteConfig), ReadConfigToEnd and ClaimWritePrivileges with ConfigOpDone; sends ConfigChanged.

    `writer` is None if exactly-once source support is disabled: then nothing has to be claimed. Writes that concern one
    connector are done one after the other.
    """

    def __init__(
        self,
        topic_log: TopicLog,
        tell: Callable[[Any], None],
        view: ConfigView,
        ticker: Ticker,
        writer: PrivilegedWriter | None = None,
    ) -> None:
        super().__init__(topic_log, "Config topic")
        self._tell = tell
        self._view = view
        self._ticker = ticker
        self._writer = writer
        self._state = ClusterConfigState()
        self._deferred: Deferred = {}
        self._started = False
        self._numbers = itertools.count()
        self._works: dict[int, _Work] = {}
        self._busy: dict[ConnectorName, deque[int]] = {}  # the first of each queue is in progress

    @override
    def on_stop(self) -> None:
        """Fails all operations that have not been answered yet."""
        self._log.stop()
        if self._writer is not None:
            self._writer.close()
        for number in list(self._works):
            self._finish(number, ConnectError("The config store is shutting down"))

    @override
    def on_receive(self, message: Any) -> None:
        match message:
            case RecordsRead(records):
                self._fold(records)
            case CaughtUp(error):
                self._caught_up(error)
            case _Sent(number, positions, error):
                self._sent(number, positions, error)
            case _Ended(number, error):
                self._finish(number, error)
            case Decided(WriteConfig(op, write), at):
                self._begin(_Work(self._answer_to(op), plan(write), since=at))
            case Ask(SetClusterLoggerLevel(namespace, level), reply):
                write = PutLoggerLevel(namespace, level)
                self._begin(_Work(_reply_to(reply), plan(write), since=process_pulse().beat()))
            case ReadConfigToEnd(op, timeout_ms):
                self._read_to_end(op, timeout_ms)
            case ClaimWritePrivileges(op):
                self._claim(op)
            case _:
                raise TypeError(f"the config store cannot handle {message!r}")

    # ------------------------------------------------------------ reading
    def _fold(self, records: Sequence[LogRecord]) -> None:
        self._state, self._deferred, changes = fold(self._state, self._deferred, records, started=self._started)
        if self._started:
            self._view.config = self._state
            self._tell(ConfigChanged(self._state, changes))

    def _caught_up(self, error: Exception | None) -> None:
        if error is not None:
            fail(self._view.ready, error)
            return
        self._started = True
        self._view.config = self._state
        self._tell(ConfigChanged(self._state, ()))
        complete(self._view.ready, None)

    def _read_to_end(self, op: OpId, timeout_ms: int) -> None:
        def error(cause: Exception) -> Exception:
            return cause if isinstance(cause, TimeoutError) else ConnectError(
                f"Error trying to read to end of config log: {cause}"
            )

        number = self._add(_Work(self._answer_to(op), error=error), timeout_ms)
        self._log.read_to_end(timeout_ms / 1000).add_done_callback(self._ended(number))

    # ------------------------------------------------------------ writing
    def _claim(self, op: OpId) -> None:
        if self._writer is None:
            self._tell(ConfigOpDone(op))
            return
        number = self._add(_Work(self._answer_to(op)), 2 * WRITE_TIMEOUT_MS)
        self._writer.release()  # the herder holds no claim: another leader may have fenced what is left of the last one
        self._writer.claim().add_done_callback(self._ended(number))

    def _begin(self, work: _Work) -> None:
        number = self._add(work, WRITE_TIMEOUT_MS)
        connector = work.plan.connector if work.plan is not None else None
        if connector is None:
            self._send(number)
            return
        queue = self._busy.setdefault(connector, deque())
        queue.append(number)
        if len(queue) == 1:
            self._send(number)

    def _send(self, number: int) -> None:
        work = self._works[number]
        if work.plan is None:
            return
        if work.plan.privileged and self._writer is not None:
            # In one transaction, so that task configs and their commit record become visible together.
            records = [record for stage in work.plan.stages for record in stage]
            work.plan = work.plan.without_stages()
            future = self._writer.write(records)
        else:
            stage, work.plan = work.plan.next_stage()
            future = gather([self._log.send(key, value, work.since) for key, value in stage])
        future.add_done_callback(
            lambda f: self._tell_self(_Sent(number, () if (error := error_of(f)) else f.result(), error))
        )

    def _sent(self, number: int, positions: Sequence[Position], error: Exception | None) -> None:
        work = self._works.get(number)
        if work is None or work.plan is None:
            return  # abandoned meanwhile
        if error is not None:
            self._finish(number, error)
        elif work.plan.stages:
            self._send(number)
        else:
            self._log.read_past(positions).add_done_callback(self._ended(number))

    # ------------------------------------------------------------ waiting and answering
    def _add(self, work: _Work, timeout_ms: int) -> int:
        number = next(self._numbers)
        self._works[number] = work
        late = TimeoutError(f"no answer within {timeout_ms} ms")
        at_ms = self._ticker.now_ms() + timeout_ms
        self._ticker.set((self.actor_urn, number), at_ms, lambda: self._tell_self(_Ended(number, late)))
        return number

    def _ended(self, number: int) -> Callable[[Future[Any]], None]:
        return lambda future: self._tell_self(_Ended(number, error_of(future)))

    def _finish(self, number: int, error: Exception | None) -> None:
        work = self._works.pop(number, None)
        if work is None:
            return
        self._ticker.cancel((self.actor_urn, number))
        if isinstance(error, TimeoutError) and work.plan is not None and work.plan.privileged and self._writer:
            # The write may still reach the topic, after what the leader reads from now on and bases decisions on. So
            # the privilege is released: the next claim fences this write.
            self._writer.release()
            error = PrivilegedWriteError(f"{work.plan.failure}: {error}")
        if error is not None and work.plan is not None and not isinstance(error, PrivilegedWriteError):
            error = _caused(ConnectError(f"{work.plan.failure}: {str(error) or type(error).__name__}"), error)
        elif error is not None:
            error = work.error(error)
        work.answer(error)
        self._next(number, work)

    def _next(self, number: int, work: _Work) -> None:
        connector = work.plan.connector if work.plan is not None else None
        queue = self._busy.get(connector) if connector is not None else None
        if queue is None or connector is None:
            return
        was_first = queue[0] == number
        queue.remove(number)
        if not queue:
            del self._busy[connector]
        elif was_first:
            self._send(queue[0])

    def _answer_to(self, op: OpId) -> Callable[[Exception | None], None]:
        return lambda error: self._tell(ConfigOpDone(op, error))


def _reply_to(reply: Any) -> Callable[[Exception | None], None]:
    return lambda error: answer(reply, None, error)


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error
