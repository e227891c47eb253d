"""Source offsets on the worker's offsets topic and, if a connector has one, on its own (KIP-618).

Thread-safe. Methods whose names end in `_soon` return a future; the others block.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import TypeVar

from spark_tasks.errors import ConnectError, RetriableError, StartCancelledError
from spark_tasks.futures import done, error_of, gather, then
from storage.ids import ConnectorName
from storage.log.interface import SuspendedError, TopicLog
from storage.log.record import KeyValue, LogRecord, Position
from storage.offsets.fold import Offset, OffsetState, Partition, fold, merge, records_for
from storage.offsets.own_topic import OwnOffsets

_logger = logging.getLogger(__name__)

T = TypeVar("T")
Offsets = Sequence[tuple[Partition, Offset | None]]
OpenLog = Callable[[OwnOffsets], TopicLog]


class OffsetTopic:
    """One offsets topic: its state, and writes to it."""

    def __init__(self, topic_log: TopicLog) -> None:
        self._log = topic_log
        self._state = OffsetState()

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._log.topic

    @property
    def state(self) -> OffsetState:
        """The state from the records read so far."""
        return self._state

    def start(self) -> Future[None]:
        """Reads from the beginning; the future completes at the topic's current end."""
        return self._log.start(self._read, lambda error: _logger.debug("Topic %s: %s", self.name, error))

    def read_to_end_soon(self) -> Future[None]:
        """Completes once `state` contains everything that is on the topic now, and what was sent before: a source that
        reads its offsets after a write that took too long would continue from older ones.
        """
        return self._log.read_to_end(own=True)

    def send_soon(self, records: Sequence[KeyValue], since: float | None = None) -> Future[list[Position]]:
        """Sends records; completes once all are acknowledged. `since`: see TopicLog."""
        return gather([self._log.send(key, value, since) for key, value in records])

    def stop(self) -> None:
        """Stops reading and frees all resources."""
        self._log.stop()

    def _read(self, records: Sequence[LogRecord]) -> None:
        self._state = fold(self._state, records)  # called by the log's one thread only


class ConnectorOffsetStore:
    """The offsets of one source connector (spark_tasks.task.OffsetStore).

    If the connector has its own topic, reads merge it with the worker's, and it takes precedence. Writes go to the
    connector's topic first and are then copied to the worker's, where failures are only logged. Removals go to the
    worker's topic first, so that no old offset reappears.
    """

    def __init__(
        self, connector: ConnectorName, worker: OffsetTopic, own: OffsetTopic | None = None, *, timeout: float = 30.0
    ) -> None:
        self._connector = connector
        self._worker = worker
        self._own = own
        self._primary = own or worker
        self._timeout = timeout
        self._read_at = time.monotonic()
        self._unwanted = threading.Event()
        self._reading: Future[list[tuple[Partition, Offset]]] | None = None
        # Not awaited here: a former task's transaction may have to be ended before the topic can be read.
        self._ready = done(None) if own is None else own.start()

    @property
    def topic(self) -> str:
        """The topic that `records` belong to."""
        return self._primary.name

    def read(self) -> Sequence[tuple[Partition, Offset]]:
        """All committed offsets, after reading to the end. Raises ConnectError, or RetriableError after a timeout."""
        self._reading = reading = self.read_soon()
        if self._unwanted.is_set():
            reading.cancel()
        return self._wait(reading, "Failed to fetch offsets")

    def stop_reading(self) -> None:
        """Has a `read` that waits for Kafka, now or later, end at once with StartCancelledError. Any thread."""
        self._unwanted.set()
        if (reading := self._reading) is not None:
            reading.cancel()

    def begin_write(self, offsets: Offsets) -> Callable[[], None]:
        """Starts to write offsets; None is a tombstone. The returned function waits until they are acknowledged. Raises
        ConnectError; RetriableError if the process was suspended past its session since the last `read`: another worker
        may have written newer ones.
        """
        written = self.write_soon(offsets)
        return lambda: self._wait(written, "Failed to flush offsets to storage")

    def records(self, offsets: Offsets) -> Sequence[KeyValue]:
        """Key and value bytes of offsets, to be written to `topic` in the caller's transaction.

        `before_commit` and `after_commit` have to be called before and after that transaction is committed.
        """
        return records_for(self._primary.state, self._connector, offsets)

    def before_commit(self, offsets: Offsets) -> None:
        """Like `before_commit_soon`, and waits until it is done. Raises as `begin_write` does."""
        self._wait(self.before_commit_soon(offsets), "Failed to remove offsets from the worker's topic")

    def after_commit(self, offsets: Offsets) -> None:
        """Copies offsets to the worker's topic; does not wait, and a failure is only logged."""
        self._copy(offsets)

    def close(self) -> None:
        """Stops reading the connector's own topic; the worker's is still read."""
        if self._own is not None:
            self._own.stop()

    def close_soon(self) -> None:
        """Starts `close` on its own thread, for callers that must not block: a stopping task, a log's threads."""
        if self._own is not None:
            threading.Thread(target=self._own.stop, name=f"close-{self._own.name}", daemon=True).start()

    def read_soon(self) -> Future[list[tuple[Partition, Offset]]]:
        """Like `read`, without blocking."""
        self._read_at = time.monotonic()
        topics = [self._worker] if self._own is None else [self._worker, self._own]
        read = then(self._ready, lambda _: gather([topic.read_to_end_soon() for topic in topics]))
        return then(read, lambda _: done(merge(self._worker.state, self._own_state(), self._connector)))

    def write_soon(self, offsets: Offsets) -> Future[None]:
        """Like `begin_write`, with a future."""

        def copied(_: object) -> Future[None]:
            self._copy(offsets)
            return done(None)

        def write(_: object) -> Future[list[Position]]:
            return self._primary.send_soon(records_for(self._primary.state, self._connector, offsets), self._read_at)

        return then(then(self.before_commit_soon(offsets), write), copied)

    def partitions_soon(self) -> Future[list[Partition]]:
        """All partitions that have a value in either topic: those that a reset removes."""

        def known(_: object) -> Future[list[Partition]]:
            states = (self._worker.state, self._own_state())
            return done([partition for state in states for partition in state.partitions(self._connector)])

        return then(self.read_soon(), known)

    def _own_state(self) -> OffsetState:
        return self._own.state if self._own is not None else OffsetState()

    def before_commit_soon(self, offsets: Offsets) -> Future[list[Position]]:
        """Removes from the worker's topic the offsets that the transaction removes from the connector's."""
        removed = [(partition, None) for partition, offset in offsets if offset is None]
        if self._own is None or not removed:
            return done([])
        return self._worker.send_soon(records_for(self._worker.state, self._connector, removed), self._read_at)

    def _copy(self, offsets: Offsets) -> None:
        kept = [(partition, offset) for partition, offset in offsets if offset is not None]
        if self._own is None or not kept:
            return

        def written(future: Future[list[Position]]) -> None:
            error = error_of(future)
            if error is not None:
                name = self._worker.name
                _logger.warning("Could not copy offsets of %s to topic %s: %s", self._connector, name, error)

        self._worker.send_soon(records_for(self._worker.state, self._connector, kept)).add_done_callback(written)

    def _wait(self, future: Future[T], message: str) -> T:
        message = f"{message} of connector {self._connector} (topic {self.topic})"
        try:
            return future.result(self._timeout)
        except TimeoutError as error:
            future.cancel()
            raise RetriableError(f"{message}: no answer within {self._timeout:.0f} s") from error
        except (ConnectError, CancelledError) as error:
            if self._unwanted.is_set() and isinstance(error, CancelledError):
                raise StartCancelledError(f"{message}: the task is stopped") from None
            opened = not self._ready.done() or error_of(self._ready) is None  # its own topic is opened only once
            retriable = opened and isinstance(error, (SuspendedError, RetriableError))
            why = str(error) or type(error).__name__
            raise (RetriableError if retriable else ConnectError)(f"{message}: {why}") from error


class OffsetStores:
    """Creates the offset store of each connector; `open_log` opens the log of a connector's own topic."""

    def __init__(self, worker: OffsetTopic, open_log: OpenLog, *, timeout: float = 30.0) -> None:
        self.worker = worker
        self._open_log = open_log
        self._timeout = timeout

    def of(self, connector: ConnectorName, own: OwnOffsets | None = None) -> ConnectorOffsetStore:
        """The store of a connector, which begins to read its own topic, if it has one. The caller has to `close` it."""
        topic = None if own is None else OffsetTopic(self._open_log(own))
        return ConnectorOffsetStore(connector, self.worker, topic, timeout=self._timeout)

    def read(self, connector: ConnectorName, own: OwnOffsets | None) -> Sequence[tuple[Partition, Offset]]:
        """All committed offsets of a connector; blocks. Raises ConnectError."""
        store = self.of(connector, own)
        try:
            return store.read()
        finally:
            store.close()
