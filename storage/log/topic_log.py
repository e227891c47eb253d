"""A compacted topic over kafka-python, the counterpart of Kafka Connect's KafkaBasedLog: one thread reads it; sending
and looking up ends are asynchronous.

Long polls return with the first record, so an idle log costs next to nothing, and a record is read back as soon as it
is committed.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import InvalidMetadataError, KafkaError, KafkaTimeoutError, RetriableError
from typing_extensions import override

from spark_tasks.errors import ConnectError
from spark_tasks.futures import complete, error_of, fail
from spark_tasks.kafka.consumer_records import EndMark, mark_ends
from spark_tasks.kafka.topic_client import client_for, partitions_of
from spark_tasks.process.rate_limited_log import RateLimitedLog
from storage.daemon_pool import DaemonPool
from storage.log.freshness import Freshness
from storage.log.interface import OnError, OnRecords, SuspendedError, TopicLog, UnsentError
from storage.log.read_progress import Ends, ReadProgress, ends_of
from storage.log.record import LogRecord, Position

_logger = logging.getLogger(__name__)

_FETCH_WAIT_MS = 10_000  # the broker holds an empty fetch for this long
_FETCH_BYTES = 32 << 20
TOPIC_WAIT_S = 30.0  # for a topic that was just created to be known to all brokers
_FOREVER_MS = 2**31 - 1
_KNOWN = (KafkaError, ConnectError, RuntimeError)  # RuntimeError: a network loop has ended; any other is a defect


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
        admin: AbstractContextManager[KafkaAdminClient],
        *,
        client_id: str,
        read_committed: bool = False,
        writable: bool = True,
        producer: Mapping[str, Any] | None = None,
        session_s: float = math.inf,
    ) -> None:
        self._topic = topic
        self._open_admin = admin
        self._admin: KafkaAdminClient | None = None
        self._shared = {
            "reconnect_backoff_max_ms": 1000,  # as in Kafka Connect; the library's 30 s would delay reconnecting
            **clients,
            "client_id": client_id,
            "kafka_client": client_for(topic),
        }
        self._freshness = Freshness(session_s)
        self._isolation = "read_committed" if read_committed else "read_uncommitted"
        self._producer_settings = {
            "acks": "all",
            "enable_idempotence": False,  # as in Kafka Connect: duplicates do not matter in a compacted topic
            "max_in_flight_requests_per_connection": 1,  # but the order does
            "delivery_timeout_ms": _FOREVER_MS,
            "retry_backoff_ms": 20,
            "metrics_enabled": False,
            "kafka_client": client_for(topic, self._freshness.error),
            **(producer or {}),
        }
        self._writable = writable
        self._producer: KafkaProducer | None = None
        self._consumer: KafkaConsumer | None = None
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
        try:
            acknowledged = self._make_producer().send(self._topic, key=key, value=value)
        # Too large, not authorized, no metadata in time; RuntimeError: the library's network loop has ended.
        except (KafkaError, RuntimeError) as error:
            self._freshness.release(number)
            fail(sent, error)
            return sent

        def succeeded(meta: Any) -> None:
            self._freshness.release(number)
            complete(sent, Position(meta.partition, meta.offset))

        def failed(error: Exception) -> None:
            decided = self._freshness.release(number)
            if isinstance(error, SuspendedError) and self._freshness.error_since(decided) is None:
                error = UnsentError(str(error))
            fail(sent, error)

        acknowledged.add_callback(succeeded)
        acknowledged.add_errback(failed)
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
        if self._consumer is not None:
            self._consumer.close(timeout_ms=1000)  # ends the reader's poll
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2)  # it may be waiting for Kafka much longer
        self._close_producer()
        self._progress.close()

    # ------------------------------------------------------------ the reader's thread
    def _run(self, started: Future[None], on_records: OnRecords, on_error: OnError) -> None:
        try:
            with self._open_admin as self._admin:
                partitions = self._open()
                ends = self._known(partitions, OffsetSpec.LATEST, self._isolation)
                self._progress.wait(_by_number(ends), started)
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
        """Pauses before the next poll, which opens a new consumer if this one has a defect or its network loop
        ended.
        """
        if not isinstance(error, (KafkaError, ConnectError)):
            self._discard_consumer()
        self._stopping.wait(0.5)

    def _discard_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with contextlib.suppress(Exception):  # it is broken already
                consumer.close(timeout_ms=1000)

    def _open(self) -> list[TopicPartition]:
        self._consumer = consumer = KafkaConsumer(
            **self._shared,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=self._isolation,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            fetch_max_bytes=_FETCH_BYTES,
            max_partition_fetch_bytes=_FETCH_BYTES,
            request_timeout_ms=_FETCH_WAIT_MS + 30_000,
            metrics_enabled=False,
        )
        mark_ends(consumer)
        if self._stopping.is_set():  # stop() ran before there was a consumer
            consumer.close(timeout_ms=1000)
        try:
            return self._assign(consumer)
        except BaseException:
            self._discard_consumer()  # polling a consumer without partitions would block without an error
            raise

    def _assign(self, consumer: KafkaConsumer) -> list[TopicPartition]:
        deadline = time.monotonic() + TOPIC_WAIT_S
        while not (numbers := partitions_of(consumer, self._topic)):
            if time.monotonic() > deadline or self._stopping.wait(0.05):
                raise ConnectError(
                    f"Could not look up partition metadata for topic '{self._topic}' in {TOPIC_WAIT_S:.0f} s. There "
                    "may be a connectivity issue, or the topic does not exist (the worker creates it if its principal "
                    "has CREATE permission), or the principal lacks DESCRIBE permission on it, or it has just been "
                    "created and needs more time"
                )
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        begins = self._known(partitions, OffsetSpec.EARLIEST)
        consumer.assign(partitions)
        reached = self._progress.reached()
        for partition in partitions:
            reached[partition.partition] = max(begins[partition].offset, reached.get(partition.partition, 0))
            consumer.seek(partition, reached[partition.partition])
        self._progress.advance(reached)
        return partitions

    def _poll(self) -> Mapping[TopicPartition, list[Any]]:
        if self._consumer is None:
            self._open()
            return {}
        fetched: Mapping[TopicPartition, list[Any]] = self._consumer.poll(3_600_000, max_records=sys.maxsize)
        return fetched

    def _deliver(
        self, fetched: Mapping[TopicPartition, list[Any]], on_records: OnRecords, on_error: OnError
    ) -> None:
        ends = {tp.partition: records[-1].offset + 1 for tp, records in fetched.items() if records}
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
        partitions = [TopicPartition(self._topic, number) for number in self._progress.reached()]
        while not done.done() and not self._stopping.is_set():
            try:
                if own:
                    self._await_sent(deadline)
                ends = self._ends(partitions)
            except RetriableError as error:
                if time.monotonic() > deadline:
                    fail(done, error)
                    return
                self._limited_log.log(
                    _logger, logging.WARNING, "Could not look up the end of topic %s; retrying: %s", self._topic, error)
                self._stopping.wait(0.1)
            except (KafkaError, RuntimeError) as error:  # RuntimeError: the admin client is closed
                fail(done, error)
                return
            else:
                self._progress.wait(ends, done)
                return
        done.cancel()

    def _await_sent(self, deadline: float) -> None:
        """Waits for the records that were sent before. Raises KafkaTimeoutError at the deadline. (The producer's
        flush() would log errors that `send` returns.)
        """
        if not self._freshness.wait_for_held(deadline - time.monotonic()):
            raise KafkaTimeoutError(f"records sent to topic {self._topic} were not acknowledged")

    def _ends(self, partitions: list[TopicPartition]) -> Ends:
        # Not through the consumer, whose connection may be waiting for the broker. Except for the start, open
        # transactions are included: their records were written before "now" as well.
        return _by_number(self._list(dict.fromkeys(partitions, OffsetSpec.LATEST)))

    def _known(
        self, partitions: list[TopicPartition], wanted: OffsetSpec, isolation: str = "read_uncommitted"
    ) -> Mapping[TopicPartition, Any]:
        """Like `_list`, but retries while the broker does not know a topic that was just created."""
        deadline = time.monotonic() + TOPIC_WAIT_S
        while True:
            try:
                return self._list(dict.fromkeys(partitions, wanted), isolation)
            except InvalidMetadataError:
                if time.monotonic() > deadline or self._stopping.wait(0.05):
                    raise

    def _list(
        self, wanted: Mapping[TopicPartition, OffsetSpec], isolation: str = "read_uncommitted"
    ) -> Mapping[TopicPartition, Any]:
        if self._admin is None:
            raise KafkaError(f"The log of topic {self._topic} is not open yet")
        offsets: Mapping[TopicPartition, Any] = self._admin.list_partition_offsets(wanted, isolation)
        return offsets

    def _make_producer(self) -> KafkaProducer:
        with self._creating:
            if self._producer is None and self._writable and not self._stopping.is_set():
                self._producer = KafkaProducer(**{**self._shared, **self._producer_settings})
        if self._stopping.is_set():
            self._close_producer()  # `stop` does not wait for one that is being created
        if (producer := self._producer) is None:
            raise KafkaError(f"The log of topic {self._topic} is closed or read-only")
        return producer

    def _close_producer(self) -> None:
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.close(timeout=2)
            except KafkaError as error:
                _logger.warning("Could not write all records to topic %s before the stop: %s", self._topic, error)

    def _prepare_to_send(self) -> None:
        """Connects the producer, so that the first `send` need not wait."""
        self._make_producer().partitions_for(self._topic)


def _by_number(found: Mapping[TopicPartition, Any]) -> Ends:
    """The offsets, by partition number."""
    return {partition.partition: end.offset for partition, end in found.items()}
