"""Writes dead letters. One that a broker rejects never fails the task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

import numpy as np
import pyarrow as pa

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.append import DEFAULT_REQUEST_BYTES, Appender
from spark_tasks.kafka.pending_batch import OnRefusal
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.kafka.records.too_large import too_large
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.process.rate_limited_log import RateLimitedLog

_logger = logging.getLogger(__name__)

# Unlike a source, a sink has to end its batch in time: its group waits for it.
_LIMIT: Final = {"delivery_timeout_ms": 120_000.0}

Append = Callable[[str, pa.RecordBatch, OnRefusal], None]
"""Appends letters (RAW_SCHEMA) to a topic, as Appender.append does: the rows that a broker refuses are left out."""


class LetterCounts:
    """Counts the letters that were written, and those that could not be, which are logged instead, as in Kafka Connect.
    The counts are final when the appender has flushed.
    """

    def __init__(self) -> None:
        self._appended = 0
        self._refused = 0  # of these; counted on the IO thread
        self._too_large = 0

    @property
    def written(self) -> int:
        """The number of letters in the queue."""
        return self._appended - self._refused

    @property
    def lost(self) -> int:
        """The number of letters that could not be written."""
        return self._refused + self._too_large

    def append(self, handling: ErrorHandling, letters: pa.RecordBatch, append: Append) -> None:
        """Appends letters (RAW_SCHEMA) to the queue, without those that are larger than the producer's
        max.request.size.
        """
        queue, limit = handling.queue, int(handling.appender.get("max_request_bytes", DEFAULT_REQUEST_BYTES))
        large = too_large(letters, limit)  # before any is appended: an appender sends some while it encodes others
        for row, size in large:
            self._too_large += 1
            _log(queue, RecordTooLargeError(row, size, limit, queue))
        if large:
            rows = np.delete(np.arange(len(letters)), [row for row, _ in large])
            letters = letters.take(pa.array(rows))
        if len(letters):
            append(queue, letters, partial(self.refused, queue))
            self._appended += len(letters)

    def refused(self, queue: str, _row: int, error: ConnectError) -> None:
        """An OnRefusal: a broker does not take a letter that was appended."""
        self._refused += 1
        _log(queue, error)

    def write(self, handling: ErrorHandling, letters: pa.RecordBatch) -> None:
        """Like `append`, but with a separate producer, and waits until the letters are acknowledged."""
        self.append(handling, letters, partial(write_apart, handling))


@lru_cache(maxsize=256)
def _log_of(queue: str) -> RateLimitedLog:  # noqa: ARG001 - the cache's key
    return RateLimitedLog(max_lines=100)


def _log(queue: str, error: ConnectError) -> None:
    text = "Could not produce message to dead letter queue. topic=%s: %s"
    _log_of(queue).log(_logger, logging.ERROR, text, queue, error)


def write_apart(handling: ErrorHandling, queue: str, letters: pa.RecordBatch, on_refusal: OnRefusal) -> None:
    """Writes letters with a producer of their own."""
    appender = Appender(shared_cluster(handling.client), None, **{**_LIMIT, **handling.appender})
    try:
        appender.append(queue, None, letters, on_refusal=on_refusal)
        appender.flush()
    finally:
        appender.close()
