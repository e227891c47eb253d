"""The future that coroutines on a client's IO thread wait for."""

from __future__ import annotations

from kafka.future import Future


class IoFuture(Future):  # type: ignore[misc]
    """kafka-python's future, which its IO loop can await. `success(value)` completes it; `value` is its result."""
