"""Writes dead letters, none of which may fail a task because of its size."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.kafka.append import DEFAULT_REQUEST_BYTES, Appender
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.kafka.records.too_large import too_large
from spark_tasks.kafka.shared_clusters import shared_cluster

_logger = logging.getLogger(__name__)

# Unlike a source, a sink has to end its batch in time: its group waits for it.
_LIMIT: Final = {"delivery_timeout_ms": 120_000.0}

Append = Callable[[str, pa.RecordBatch], None]


def append_letters(handling: ErrorHandling, letters: pa.RecordBatch, append: Append) -> tuple[int, int]:
    """Appends letters (RAW_SCHEMA) to the queue. Returns how many were written and how many were not, because they are
    too large; those are logged instead, as in Kafka Connect.

    `append(topic, batch)` gets no letter that is larger than the producer's max.request.size. If it raises
    RecordTooLargeError because a broker refuses one, it has to be able to append again.
    """
    queue, limit = handling.queue, int(handling.appender.get("max_request_bytes", DEFAULT_REQUEST_BYTES))
    large = too_large(letters, limit)  # before any is appended: an appender sends some while it encodes others
    for row, size in large:
        _log(queue, RecordTooLargeError(row, size, limit, queue))
    sound = letters.take(pa.array(np.delete(np.arange(len(letters)), [row for row, _ in large]))) if large else letters
    sent, lost = _append(queue, sound, append) if len(sound) else (0, 0)
    return sent, lost + len(large)


def _append(queue: str, letters: pa.RecordBatch, append: Append) -> tuple[int, int]:
    try:
        append(queue, letters)
    except RecordTooLargeError as error:
        if len(letters) == 1:
            _log(queue, error)
            return 0, 1
        middle = len(letters) // 2
        counts = [_append(queue, part, append) for part in (letters.slice(0, middle), letters.slice(middle))]
        return sum(sent for sent, _ in counts), sum(lost for _, lost in counts)
    return len(letters), 0


def _log(queue: str, error: RecordTooLargeError) -> None:
    _logger.error("Could not produce message to dead letter queue. topic=%s: %s", queue, error)


def write_letters(handling: ErrorHandling, letters: pa.RecordBatch) -> tuple[int, int]:
    """As `append_letters`, with a separate producer, and waits until the letters are acknowledged. If the broker
    rejects one as too large, others may be written twice.
    """
    return append_letters(handling, letters, partial(_write, handling))


def _write(handling: ErrorHandling, queue: str, letters: pa.RecordBatch) -> None:
    appender = Appender(shared_cluster(handling.client), None, **{**_LIMIT, **handling.appender})
    try:
        appender.append(queue, None, letters)
        appender.flush()
    finally:
        appender.close()
