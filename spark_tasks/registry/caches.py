"""Errors that would come again, beside a cache of what a schema registry says or of what is made from its schemas."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TypeVar

from spark_tasks.errors import DataError

T = TypeVar("T")


def with_failures(
    function: Callable[..., T], size: int, failure: type[DataError], failure_s: float
) -> Callable[..., T]:
    """Returns a function that returns what `function`, which caches its results, does, and raises the last `size` of
    its errors of the class `failure` again for `failure_s` seconds. Thread-safe.
    """
    from cachetools import TTLCache  # noqa: PLC0415 - of the extra `registry`

    failures: TTLCache[Hashable, str] = TTLCache(size, failure_s)
    lock = threading.Lock()

    def call(*arguments: Hashable) -> T:
        with lock:
            why = failures.get(arguments)
        if why is not None:
            raise failure(why)
        try:
            return function(*arguments)
        except failure as error:
            with lock:
                failures[arguments] = str(error)
            raise

    return call
