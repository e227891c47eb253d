"""Gives the worker's Spark to plugins that ask PySpark for a SparkContext or SparkSession on the worker (ADR 0009)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import SparkContext

_NAME = "getOrCreate"


class LentSpark:
    """Until `close`, `SparkContext.getOrCreate`, and with it `SparkSession.builder.getOrCreate`, wait for the worker's
    Spark. Otherwise a plugin that asks before it is up would start another one, and a process cannot have two.
    """

    def __init__(self, wait: Callable[[], None]) -> None:
        """`wait` returns when Spark is up, and raises if it cannot be started."""
        self._lent = True
        before = self._before = SparkContext.__dict__[_NAME]

        def get_or_create(cls: type[SparkContext], conf: Any = None) -> SparkContext:
            if self._lent:
                wait()
            found: SparkContext = before.__get__(None, cls)(conf)
            return found

        self._mine = classmethod(get_or_create)
        setattr(SparkContext, _NAME, self._mine)

    def close(self) -> None:
        """Give PySpark its own `getOrCreate` back."""
        self._lent = False
        if SparkContext.__dict__[_NAME] is self._mine:
            setattr(SparkContext, _NAME, self._before)
