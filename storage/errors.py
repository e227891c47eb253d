"""What the stores fail with, beyond ConnectError."""

from __future__ import annotations

import kafka.errors

from spark_tasks.errors import ConnectError, RetriableError


class PrivilegedWriteError(ConnectError):
    """A write that only the leader may do was refused: the privilege was never claimed, or somebody fenced it.

    Whoever is still the leader claims the privilege again and repeats the write (KIP-618).
    """


def is_retriable(error: BaseException) -> bool:
    """Whether the same write may succeed later: no leader, a time-out, a lost connection."""
    return isinstance(error, RetriableError | kafka.errors.RetriableError | kafka.errors.KafkaTimeoutError)
