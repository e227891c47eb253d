"""A compacted topic on Kafka, the counterpart of Kafka Connect's KafkaBasedLog: one thread reads it; sending
and looking up ends are asynchronous.

Long polls return with the first record, so an idle log costs next to nothing, and a record is read back as soon as it
is committed.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

from typing_extensions import override

from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.futures import complete, error_of, fail
from spark_tasks.kafka.admin import KafkaAdmin
from spark_tasks.kafka.client_config import DEFAULTS
from spark_tasks.kafka.consumer_records import EndMark
from spark_tasks.kafka.errors import KafkaTimedOutError
from spark_tasks.kafka.topic_producer import Appended, TopicProducer
from spark_tasks.kafka.topic_reader import TopicReader
from spark_tasks.process.rate_limited_log import RateLimitedLog
from storage.daemon_pool import DaemonPool
from storage.log.freshness import Freshness
from storage.log.interface import OnError, OnRecords, SuspendedError, TopicLog, UnsentError
from storage.log.read_progress import ReadProgress, ends_of
from storage.log.record import LogRecord, Position

_logger = logging.getLogger(__name__)

TOPIC_WAIT_S = 30.0  # for a topic that was just created to be known to all brokers
_FOREVER_MS = 2**31 - 1
_KNOWN = (ConnectError, RuntimeError)  # RuntimeError: a network loop has ended; any other is a defect


class KafkaTopicLog(TopicLog):
    """One topic of one worker: a TopicLog.

    `clients`: kafka-python settings for consumer and producer (servers, security); `admin`: a context that the reader's
    thread enters before it reads the topic (which it may create), and exits when the log is stopped; `producer`:
    additional settings of the producer; `session_s`: see Freshness.
    """

    def __init__(
        self,
        topic: str,
        clients: Mapping[str, Any],
        admin: AbstractContextManager[KafkaAdmin],
        *,
        client_id: str,
        read_committed: bool = False,
        writable: bool = True,
        producer: Mapping[str, Any] | None = None,
        session_s: float = math.inf,
    ) -> None:
        self._topic = topic
        self._open_admin = admin
        self._admin: KafkaAdmin | None = None
        self._shared = {**DEFAULTS, **clients, "client_id": client_id}
        self._freshness = Freshness(session_s)
        self._committed = read_committed
        self._producer_settings = {
            "acks": "all",
            "enable_idempotence": False,  # as in Kafka Connect: duplicates do not matter in a compacted topic
            "max_in_flight_requests_per_connection": 1,  # but the order does
            "delivery_timeout_ms": _FOREVER_MS,
            "retry_backoff_ms": 20,
            **(producer or {}),
        }
        self._writable = writable
        self._producer: TopicProducer | None = None
        self._reader: TopicReader | None = None
        self._creating = threading.Lock()  # guards the creation of the producer, which may wait for Kafka
        self._lock = threading.Lock()  # guards its end
        self._progress = ReadProgress()
        self._limited_log = RateLimitedLog(max_lines=1)
        self._stopping = threading.Event()
        self._pool = DaemonPool(1, f"log-ends-{topic}")
        self._thread: threading.Thread | None = None

    @property
    @override
    def topic(self) -> str:
        """The topic's name."""
        return self._topic

    @override
    def start(self, on_records: OnRecords, on_error: OnError) -> Future[None]:
        started: Future[None] = Future()
        thread = threading.Thread(
            target=self._run, args=(started, on_records, on_error), name=f"log-{self._topic}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            fail(started, error)
            return started
        self._thread = thread
        if self._writable:
            self._pool.try_submit(self._prepare_to_send)
        return started

    @override
    def send(self, key: bytes, value: bytes | None, since: float | None = None) -> Future[Position]:
        """Blocks if the producer has not connected yet, soon after `start`."""
        sent: Future[Position] = Future()
        number = self._freshness.hold(since)

        def appended(at: Appended) -> None:
            self._freshness.release(number)
            complete(sent, Position(*at))

        def failed(error: Exception) -> None:
            decided = self._freshness.release(number)
            if isinstance(error, SuspendedError) and self._freshness.error_since(decided) is None:
                error = UnsentError(str(error))
            fail(sent, error)

        try:
            self._make_producer().send(key, value, appended, failed)
        # Too large, not authorized, no metadata in time; RuntimeError: the library's network loop has ended.
        except _KNOWN as error:
            self._freshness.release(number)
            fail(sent, error)
        return sent

    @override
    def read_past(self, positions: Iterable[Position]) -> Future[None]:
        return self._progress.wait(ends_of(positions), Future())

    @override
    def read_to_end(self, timeout: float = 30.0, *, own: bool = False) -> Future[None]:
        done: Future[None] = Future()
        deadline = time.monotonic() + timeout
        search = self._pool.try_submit(self._find_end, done, deadline, own)
        # The future has to complete even after a defect, or if the log was stopped before the lookup began.
        search.add_done_callback(lambda _: fail(done, error) if (error := error_of(search)) is not None else None)
        return done

    @override
    def stop(self) -> None:
        self._stopping.set()
        self._pool.close()
        if self._reader is not None:
            self._reader.close()  # ends its poll
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2)  # it may be waiting for Kafka much longer
        self._close_producer()
        self._progress.close()

    # ------------------------------------------------------------ the reader's thread
    def _run(self, started: Future[None], on_records: OnRecords, on_error: OnError) -> None:
        try:
            with self._open_admin as self._admin:
                partitions = self._open()
                ends = self._known(lambda admin: admin.ends(self._topic, partitions, committed=self._committed))
                self._progress.wait(ends, started)
                self._read(on_records, on_error)
        except Exception as error:
            if started.done():
                raise
            fail(started, error)  # any error is the future's

    def _read(self, on_records: OnRecords, on_error: OnError) -> None:
        while not self._stopping.is_set():
            try:
                fetched = self._poll()
            except Exception as error:  # if the reader ended, the worker would not notice
                if not self._stopping.is_set():
                    if isinstance(error, _KNOWN):
                        self._limited_log.log(
                            _logger, logging.WARNING, "Could not read topic %s; retrying: %s", self._topic, error)
                    else:
                        _logger.warning("Could not read topic %s; retrying", self._topic, exc_info=error)
                    on_error(error)
                    self._recover(error)
                continue
            self._deliver(fetched, on_records, on_error)

    def _recover(self, error: Exception) -> None:
        """Pauses before the next poll, which opens a new reader if this one has a defect or its network loop ended."""
        if not isinstance(error, ConnectError):
            self._discard_reader()
        self._stopping.wait(0.5)

    def _discard_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            with contextlib.suppress(Exception):  # it is broken already
                reader.close()

    def _open(self) -> list[int]:
        self._reader = reader = TopicReader(self._topic, self._shared, committed=self._committed)
        if self._stopping.is_set():  # stop() ran before there was a reader
            reader.close()
        try:
            return self._begin(reader)
        except BaseException:
            self._discard_reader()  # polling a reader without partitions would block without an error
            raise

    def _begin(self, reader: TopicReader) -> list[int]:
        deadline = time.monotonic() + TOPIC_WAIT_S
        while not (partitions := reader.partitions()):
            if time.monotonic() > deadline or self._stopping.wait(0.05):
                raise ConnectError(
                    f"Could not look up partition metadata for topic '{self._topic}' in {TOPIC_WAIT_S:.0f} s. There "
                    "may be a connectivity issue, or the topic does not exist (the worker creates it if its principal "
                    "has CREATE permission), or the principal lacks DESCRIBE permission on it, or it has just been "
                    "created and needs more time"
                )
        begins = self._known(lambda admin: admin.starts(self._topic, partitions))
        reached = self._progress.reached()
        reached |= {partition: max(begins[partition], reached.get(partition, 0)) for partition in partitions}
        reader.start({partition: reached[partition] for partition in partitions})
        self._progress.advance(reached)
        return partitions

    def _poll(self) -> Mapping[int, Sequence[Any]]:
        if self._reader is None:
            self._open()
            return {}
        return self._reader.poll()

    def _deliver(self, fetched: Mapping[int, Sequence[Any]], on_records: OnRecords, on_error: OnError) -> None:
        ends = {partition: records[-1].offset + 1 for partition, records in fetched.items() if records}
        batch = [LogRecord(record.partition, record.offset, record.timestamp, record.key, record.value)
                 for records in fetched.values() for record in records if not isinstance(record, EndMark)]
        if batch:
            try:
                on_records(batch)
            except Exception as error:
                # A defect in a store must not stop the reader, or futures would never complete.
                _logger.exception("Internal error while handling records of topic %s", self._topic)
                on_error(error)
        self._progress.advance(ends)

    # ------------------------------------------------------------ ends
    def _find_end(self, done: Future[None], deadline: float, own: bool) -> None:
        partitions = list(self._progress.reached())
        while not done.done() and not self._stopping.is_set():
            try:
                if own:
                    self._await_sent(deadline)
                # Not through the reader, whose connection may be waiting for the broker. Except for the start, open
                # transactions are included: their records were written before "now" as well.
                ends = self._opened_admin().ends(self._topic, partitions)
            except RetriableError as error:
                if time.monotonic() > deadline:
                    fail(done, error)
                    return
                self._limited_log.log(
                    _logger, logging.WARNING, "Could not look up the end of topic %s; retrying: %s", self._topic, error)
                self._stopping.wait(0.1)
            except _KNOWN as error:  # RuntimeError: the admin client is closed
                fail(done, error)
                return
            else:
                self._progress.wait(ends, done)
                return
        done.cancel()

    def _await_sent(self, deadline: float) -> None:
        """Waits for the records that were sent before. Raises KafkaTimedOutError at the deadline. (The
        producer's flush() would log errors that `send` returns.)
        """
        if not self._freshness.wait_for_held(deadline - time.monotonic()):
            raise KafkaTimedOutError(f"records sent to topic {self._topic} were not acknowledged")

    def _known(self, ask: Callable[[KafkaAdmin], dict[int, int]]) -> dict[int, int]:
        """Asks again while the broker does not know a topic that was just created."""
        deadline = time.monotonic() + TOPIC_WAIT_S
        while True:
            try:
                return ask(self._opened_admin())
            except RetriableError:
                if time.monotonic() > deadline or self._stopping.wait(0.05):
                    raise

    def _opened_admin(self) -> KafkaAdmin:
        if self._admin is None:
            raise ConnectError(f"The log of topic {self._topic} is not open yet")
        return self._admin

    def _make_producer(self) -> TopicProducer:
        with self._creating:
            if self._producer is None and self._writable and not self._stopping.is_set():
                settings = {**self._shared, **self._producer_settings}
                self._producer = TopicProducer(self._topic, settings, self._freshness.error)
        if self._stopping.is_set():
            self._close_producer()  # `stop` does not wait for one that is being created
        if (producer := self._producer) is None:
            raise ConnectError(f"The log of topic {self._topic} is closed or read-only")
        return producer

    def _close_producer(self) -> None:
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.close(2)
            except ConnectError as error:
                _logger.warning("Could not write all records to topic %s before the stop: %s", self._topic, error)

    def _prepare_to_send(self) -> None:
        """Connects the producer, so that the first `send` need not wait."""
        self._make_producer().prepare()
