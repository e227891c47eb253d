"""A compacted topic as the stores see it: read from its beginning, for ever, and appended to.

`topic_log.py` is the one over Kafka, `tests/rigs/memory_log.py` its twin in memory; tests/contract holds both to this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

from kafka.errors import KafkaError

from storage.log.record import KeyValue, LogRecord, Position


class SuspendedError(KafkaError):  # type: ignore[misc]
    """Records were not sent, since this process has slept past its session since they were good."""


OnRecords = Callable[[Sequence[LogRecord]], None]
OnError = Callable[[Exception], None]


class TopicLog(Protocol):
    """Every method returns at once. Futures complete, and `on_records` is called, on threads of the log.

    A future of `read_past` or `read_to_end` completes after `on_records` has returned for all that was to be read.
    """

    @property
    def topic(self) -> str:
        """The topic's name."""

    def start(self, on_records: OnRecords, on_error: OnError) -> Future[None]:
        """Read from the beginning. The future completes at the end as of now, or fails where reading is impossible.
        Who reads what is committed starts without what is in an open transaction: where all workers have crashed,
        only those that start can end it, and they must not wait for it before.

        `on_records` gets batches, in the order of the log within a partition; `on_error` gets what went wrong later,
        while reading goes on.
        """

    def send(self, key: bytes, value: bytes | None, since: float | None = None) -> Future[Position]:
        """Append; records sent one after the other are in that order in the log. `since`: when (of time.monotonic) this
        worker last knew that the record is its to write, if not now.
        """

    def read_past(self, positions: Iterable[Position]) -> Future[None]:
        """Completes when all these records have been read."""

    def read_to_end(self, timeout: float = 30.0) -> Future[None]:
        """Completes when the end as of now is read, open transactions included.

        Fails where the end cannot be found out within `timeout` seconds.
        """

    def stop(self) -> None:
        """Stop reading and free everything; blocks for a moment. Futures that are still open are cancelled."""


class PrivilegedWriter(Protocol):
    """A writer that fences its predecessors (KIP-618); used by one thread at a time, never blocks."""

    def claim(self) -> Future[None]:
        """Fence everybody who claimed before. Does nothing while the privilege is held."""

    def write(self, records: Sequence[KeyValue]) -> Future[list[Position]]:
        """Append all or nothing.

        Fails with PrivilegedWriteError where it is not claimed, or fenced: then the privilege is gone until the next
        `claim`.
        """

    def release(self) -> None:
        """Give the privilege up: the next `claim` fences what is still under way."""

    def close(self) -> None:
        """Give the privilege up and free everything."""
