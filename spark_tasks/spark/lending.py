"""The worker's Spark for plugins that ask PySpark for one on the worker (ADR 0009)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import SparkContext


class LentSpark:
    """From now until `close`, `SparkContext.getOrCreate` and with it `SparkSession.builder.getOrCreate` wait for the
    worker's Spark. Without that, one who asks before it is up would start another, and a process cannot have two.
    """

    def __init__(self, wait: Callable[[], None]) -> None:
        """`wait` returns when Spark is up, and raises where it does not come."""
        before = self._before = SparkContext.__dict__["getOrCreate"]

        def get_or_create(cls: type[SparkContext], conf: Any = None) -> SparkContext:
            wait()
            found: SparkContext = before.__get__(None, cls)(conf)
            return found

        SparkContext.getOrCreate = classmethod(get_or_create)

    def close(self) -> None:
        """Everything is as before."""
        SparkContext.getOrCreate = self._before
