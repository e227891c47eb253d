"""A future for coroutines on the IO thread of a Kafka client."""

from __future__ import annotations

from kafka.future import Future


class IoFuture(Future):  # type: ignore[misc]
    """kafka-python's future, which coroutines on its loop can await. `success(value)` completes it; `value` is its
    result.
    """
