"""Lets plugins on the worker use the worker's Spark with PySpark's SparkContext and SparkSession (ADR 0009)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import SparkContext

_NAME = "getOrCreate"


class SharedSpark:
    """Until `close`, `SparkContext.getOrCreate`, and so `SparkSession.builder.getOrCreate`, wait for the worker's
    Spark. Otherwise a plugin that calls them earlier would start a second Spark, and a process can have only one.
    """

    def __init__(self, wait: Callable[[], None]) -> None:
        """`wait` returns when Spark is running, and raises an error if it cannot be started."""
        self._open = True
        before = self._before = SparkContext.__dict__[_NAME]

        def get_or_create(cls: type[SparkContext], conf: Any = None) -> SparkContext:
            if self._open:
                wait()
            context: SparkContext = before.__get__(None, cls)(conf)
            return context

        self._mine = classmethod(get_or_create)
        setattr(SparkContext, _NAME, self._mine)

    def close(self) -> None:
        """Restores PySpark's own `getOrCreate`."""
        self._open = False
        if SparkContext.__dict__[_NAME] is self._mine:
            setattr(SparkContext, _NAME, self._before)
