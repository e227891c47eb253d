"""A cache of what a schema registry says and what is made from its schemas, with errors that would come again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TypeVar

from spark_tasks.errors import DataError

T = TypeVar("T")


def with_failures(
    function: Callable[..., T], size: int, failure: type[DataError], failure_s: float
) -> Callable[..., T]:
    """Returns a function that keeps the last `size` results of `function`, and also its errors of the class `failure`,
    for `failure_s` seconds. Thread-safe.
    """
    from cachetools import TTLCache  # noqa: PLC0415 - of the extra `registry`

    results = lru_cache(size)(function)
    failures: TTLCache[Hashable, str] = TTLCache(size, failure_s)
    lock = threading.Lock()

    def call(*arguments: Hashable) -> T:
        with lock:
            why = failures.get(arguments)
        if why is not None:
            raise failure(why)
        try:
            return results(*arguments)
        except failure as error:
            with lock:
                failures[arguments] = str(error)
            raise

    return call
