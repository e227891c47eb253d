"""Calls of functions of third parties' plugins that need no object, such as a connector's `validate`: each in an
executor process that ends with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.plugin_processes.call_limit import CallLimit
from spark_tasks.plugin_processes.plugin_object import Maker, Owner, PluginObject
from spark_tasks.task import Engine

T = TypeVar("T")


def owner_of(engine: Engine, connector: str, metrics: PluginMetrics) -> Owner:
    """A connector, and not one of its tasks, as the owner of a process."""
    return Owner(engine, f"{connector}-connector", connector, metrics)


class PluginCalls:
    """Calls for one connector. `kill` may be called on any thread, the rest on one."""

    def __init__(self, engine: Callable[[], Engine | None], limit: CallLimit, connector: str) -> None:
        """`engine` may wait for its start, and returns None if there is none: functions are called on the worker then.
        `limit`: that of the worker.
        """
        self._engine = engine
        self._limit = limit
        self._connector = connector
        self._lock = threading.Lock()
        self._current: PluginObject[_Function] | None = None
        self._killed = False

    def call(self, plugin: type[Any], function: Callable[..., T], *arguments: Any) -> T:
        """Returns what the function returns, both of which can be pickled. Raises what it raises, and a RetriableError
        if its process ends, or is killed. Waits while too many calls of the plugin run.
        """
        with self._limit.take(plugin, lambda: self._killed):
            engine = self._engine()
            return function(*arguments) if engine is None else self._call(engine, function, *arguments)

    def _call(self, engine: Engine, function: Callable[..., T], *arguments: Any) -> T:
        called = PluginObject(owner_of(engine, self._connector, PluginMetrics()),
                              Maker.of(partial(_Function, function)))
        with self._lock:
            self._current = called
            if self._killed:
                called.kill()
        try:
            called.call("exists")  # if its process ends in the function, that is not called again
            result: T = called.call("run", *arguments)
        finally:
            with self._lock:
                self._current = None
            called.end()
        return result

    def kill(self) -> None:
        """Ends the process of a call that nobody waits for any more."""
        with self._lock:
            self._killed = True
            if self._current is not None:
                self._current.kill()


class _Function:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def exists(self) -> None:
        """Nothing."""

    def run(self, *arguments: Any) -> Any:
        return self._function(*arguments)
