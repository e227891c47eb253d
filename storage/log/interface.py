"""The interface of a compacted topic for the stores, which read it continuously from its beginning and append to it.
Errors are ConnectErrors; after a RetriableError, the same write may succeed later, although the log has given it up.

topic_log.py implements it with Kafka, tests/rigs/memory_log.py in memory; tests/contract checks both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

from spark_tasks.errors import ConnectError, RetriableError
from storage.log.record import KeyValue, LogRecord, Position


class SuspendedError(ConnectError):
    """A record was not sent because it had been decided on before this process was suspended past its session."""


class UnsentError(RetriableError):
    """A record was not sent because of a SuspendedError of another record in its batch."""


OnRecords = Callable[[Sequence[LogRecord]], None]
OnError = Callable[[Exception], None]


class TopicLog(Protocol):
    """Every method returns at once. Futures complete, and `on_records` is called, on threads of the log.

    A future of `read_past` or `read_to_end` completes after `on_records` has returned for all records concerned.
    """

    @property
    def topic(self) -> str:
        """The topic's name."""

    def start(self, on_records: OnRecords, on_error: OnError) -> Future[None]:
        """Reads from the beginning. The future completes at the topic's current end, or fails if reading is impossible.
        With read_committed, that is the end without open transactions: if all workers have crashed, only starting
        workers can end these transactions, so they must not wait for them.

        `on_records` gets batches, in the order of the log within a partition; `on_error` gets later errors, after
        which reading continues.
        """

    def send(self, key: bytes, value: bytes | None, since: float | None = None) -> Future[Position]:
        """Appends a record; records that are sent one after the other have that order in the log. `since`: the time
        (time.monotonic) at which this worker was last entitled to write the record, if not now.
        """

    def read_past(self, positions: Iterable[Position]) -> Future[None]:
        """Completes once all these records have been read."""

    def read_to_end(self, timeout: float = 30.0, *, own: bool = False) -> Future[None]:
        """Completes once the topic's current end, including open transactions, has been read; with `own`, also all
        records that this log has sent before.

        Fails if the end cannot be determined, or with `own` a record is not acknowledged, within `timeout` seconds.
        """

    def stop(self) -> None:
        """Stops reading and frees all resources; blocks briefly. Incomplete futures are cancelled."""


class PrivilegedWriter(Protocol):
    """A writer that fences its predecessors (KIP-618); used by one thread at a time, never blocks."""

    def claim(self) -> Future[None]:
        """Fences all earlier claims. Does nothing while the privilege is held."""

    def write(self, records: Sequence[KeyValue]) -> Future[list[Position]]:
        """Appends all records or none.

        Fails with PrivilegedWriteError if the privilege is not held, or was fenced, which loses it until the next
        `claim`.
        """

    def release(self) -> None:
        """Gives up the privilege: the next `claim` fences writes in progress."""

    def close(self) -> None:
        """Gives up the privilege and frees all resources."""
