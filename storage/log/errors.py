"""Which of Kafka's errors a writer of an internal topic may wait out."""

from __future__ import annotations

import kafka.errors

from spark_tasks.errors import RetriableError


def is_retriable(error: BaseException) -> bool:
    """Whether the same write may succeed later: no leader, a time-out, a lost connection."""
    return isinstance(error, RetriableError | kafka.errors.RetriableError | kafka.errors.KafkaTimeoutError)
