"""Kafka's errors after which a write to an internal topic may be retried."""

from __future__ import annotations

import kafka.errors

from spark_tasks.errors import RetriableError


def is_retriable(error: BaseException) -> bool:
    """Whether the same write may succeed later: no leader, a timeout, a lost connection."""
    return isinstance(error, RetriableError | kafka.errors.RetriableError | kafka.errors.KafkaTimeoutError)
