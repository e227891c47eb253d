"""In-memory twins of the Kafka logs: many "workers" of one process share a MemoryTopic.

Records are delivered in the thread that sends them or, in simulations, when and as far as the test decides.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from operator import attrgetter

from kafka.partitioner.default import murmur2
from typing_extensions import override

from storage.errors import PrivilegedWriteError
from storage.log.interface import OnError, OnRecords, PrivilegedWriter, TopicLog
from storage.log.read_progress import ReadProgress, ends_of
from storage.log.record import KeyValue, LogRecord, Position


class MemoryTopic:
    """The records of one topic, and the logs that are notified of new ones.

    If `refuse` returns an error, sends fail with it.
    """

    def __init__(self, name: str, partitions: int = 1, clock: Callable[[], int] = lambda: 0) -> None:
        self.name = name
        self.refuse: Callable[[bytes], Exception | None] = lambda _: None
        self._clock = clock
        self._lock = threading.RLock()
        self._records: list[list[LogRecord]] = [[] for _ in range(partitions)]
        self._ends = [0] * partitions
        self._epochs: dict[str, int] = {}
        self._listeners: list[Callable[[], None]] = []

    def append(self, records: Sequence[KeyValue]) -> list[Position]:
        """Add records as one unit and notify all logs."""
        with self._lock:
            done = [self._append(key, value) for key, value in records]
            listeners = list(self._listeners)
        for tell in listeners:
            tell()
        return done

    def _append(self, key: bytes, value: bytes | None) -> Position:
        partition = (murmur2(key) & 0x7FFFFFFF) % len(self._records) if len(self._records) > 1 else 0
        offset = self._ends[partition]
        self._records[partition].append(LogRecord(partition, offset, self._clock(), key, value))
        self._ends[partition] += 1
        return Position(partition, offset)

    def compact(self, keep_tombstones: bool = True) -> None:
        """Keep only the newest record of each key; the end offsets stay the same."""
        with self._lock:
            for number, records in enumerate(self._records):
                newest = {record.key: record.offset for record in records}
                self._records[number] = [
                    r for r in records if newest[r.key] == r.offset and (keep_tombstones or r.value is not None)
                ]

    def records(self) -> list[LogRecord]:
        """All records, partition by partition."""
        with self._lock:
            return [record for records in self._records for record in records]

    def after(self, reached: dict[int, int]) -> list[LogRecord]:
        """All records after the given positions."""
        with self._lock:
            return [r for p, records in enumerate(self._records)
                    for r in records[bisect_left(records, reached.get(p, 0), key=attrgetter("offset")):]]

    def ends(self) -> dict[int, int]:
        """The end offset of each partition."""
        with self._lock:
            return dict(enumerate(self._ends))

    def listen(self, listener: Callable[[], None]) -> None:
        """Register `listener`, which is called after each append."""
        with self._lock:
            self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Undo `listen`."""
        with self._lock:
            self._listeners.remove(listener)

    def claim(self, transactional_id: str) -> int:
        """A new epoch for a transactional id; older ones are fenced."""
        with self._lock:
            self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
            return self._epochs[transactional_id]

    def epoch(self, transactional_id: str) -> int:
        """The newest epoch of a transactional id."""
        with self._lock:
            return self._epochs.get(transactional_id, -1)


class MemoryTopicLog(TopicLog):
    """One worker's log over a MemoryTopic. With `held`, records arrive only when `deliver` is called."""

    def __init__(self, topic: MemoryTopic, *, held: bool = False) -> None:
        self._source = topic
        self._lock = threading.RLock()
        self._allowed: int | None = 0 if held else None
        self._read_error: Exception | None = None
        self._progress = ReadProgress()
        self._on_records: OnRecords | None = None
        self._delivering = False

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._source.name

    @override
    def start(self, on_records: OnRecords, on_error: OnError) -> Future[None]:
        self._on_records = on_records
        started = self._progress.wait(self._source.ends(), Future())
        self._source.listen(self._pump)
        self._pump()
        return started

    @override
    def send(self, key: bytes, value: bytes | None, since: float | None = None) -> Future[Position]:
        sent: Future[Position] = Future()
        error = self._source.refuse(key)
        if error is not None:
            sent.set_exception(error)
        else:
            sent.set_result(self._source.append([(key, value)])[0])
        return sent

    @override
    def read_past(self, positions: Iterable[Position]) -> Future[None]:
        return self._progress.wait(ends_of(positions), Future())

    @override
    def read_to_end(self, timeout: float = 30.0, *, own: bool = False) -> Future[None]:
        if self._read_error is not None:
            failed: Future[None] = Future()
            failed.set_exception(self._read_error)
            return failed
        return self._progress.wait(self._source.ends(), Future())

    @override
    def stop(self) -> None:
        with self._lock:
            if self._on_records is None:
                return
            self._on_records = None
        self._source.unlisten(self._pump)
        self._progress.close()

    # ------------------------------------------------------------ for simulations
    def hold(self) -> None:
        """Deliver nothing until `deliver` or `release`."""
        with self._lock:
            self._allowed = 0

    def deliver(self, count: int = 1) -> None:
        """Deliver `count` more records."""
        with self._lock:
            self._allowed = (self._allowed or 0) + count
        self._pump()

    @property
    def waits(self) -> bool:
        """Whether it is started but held back, so that it delivers no records."""
        return self._allowed == 0 and self._on_records is not None

    def release(self) -> None:
        """Deliver everything, now and from now on."""
        with self._lock:
            self._allowed = None
        self._pump()

    def fail_reads(self, error: Exception | None) -> None:
        """Make `read_to_end` fail with this error; None ends that."""
        self._read_error = error

    # ------------------------------------------------------------ delivery
    def _pump(self) -> None:
        # Only one thread delivers at a time; it continues until nothing is left, so nobody else has to wait for it.
        while True:
            with self._lock:
                if self._delivering or self._on_records is None:
                    return
                ends = self._source.ends()
                left = self._source.after(self._progress.reached())
                batch = left if self._allowed is None else left[: self._allowed]
                if not batch:
                    if not left:
                        self._progress.advance(ends)  # a compacted tail has no records left to read
                    return
                self._delivering = True
                deliver = self._on_records
                if self._allowed is not None:
                    self._allowed -= len(batch)
            try:
                deliver(batch)
            finally:
                self._progress.advance({record.partition: record.offset + 1 for record in batch})
                with self._lock:
                    self._delivering = False


class MemoryPrivilegedWriter(PrivilegedWriter):
    """The twin of KafkaPrivilegedWriter."""

    def __init__(self, topic: MemoryTopic, transactional_id: str) -> None:
        self._topic = topic
        self._id = transactional_id
        self._epoch: int | None = None

    @override
    def claim(self) -> Future[None]:
        if self._epoch is None:
            self._epoch = self._topic.claim(self._id)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @override
    def write(self, records: Sequence[KeyValue]) -> Future[list[Position]]:
        done: Future[list[Position]] = Future()
        if self._epoch is None:
            message = f"Cannot produce to topic {self._topic.name} without claiming write privileges first"
            done.set_exception(PrivilegedWriteError(message))
        elif self._epoch != self._topic.epoch(self._id):
            self._epoch = None
            message = f"Failed to perform fencable send to topic {self._topic.name}: fenced"
            done.set_exception(PrivilegedWriteError(message))
        else:
            done.set_result(self._topic.append(records))
        return done

    @property
    def closed(self) -> bool:
        """Whether it holds no claim to the topic."""
        return self._epoch is None

    @override
    def release(self) -> None:
        self._epoch = None

    @override
    def close(self) -> None:
        self._epoch = None
