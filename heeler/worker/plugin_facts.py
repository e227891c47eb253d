"""What REST, the metrics and the herder ask about plugins. A plugin may hang while it is imported, so it is imported on
another thread, and every question is answered within a deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal, TypeVar, cast

from spark_tasks.errors import ConnectError
from spark_tasks.plugins import Kind, PluginInfo, Plugins
from storage.daemon_pool import DaemonPool
from storage.ids import Config

T = TypeVar("T")
WAIT_S = 5.0
MAX_THREADS = 16  # each may hang for good, and then answers no other question


class PluginFacts:
    """Answers questions about plugins, each of which is looked up once. Thread-safe.

    Whoever asks waits until `wait_s` after the question was first asked: so a plugin that hangs delays only the first
    answers.
    """

    def __init__(self, plugins: Plugins, wait_s: float = WAIT_S) -> None:
        self._plugins = plugins
        self._wait_s = wait_s
        self._pool = DaemonPool(MAX_THREADS, "plugin-facts")
        self._lock = threading.Lock()
        self._facts: dict[Hashable, tuple[Future[Any], float]] = {}

    def connector_type(self, config: Config | None, *, waits: bool = True) -> Literal["source", "sink", "unknown"]:
        """Returns the type of the connector class in a config; "unknown" if there is no such class, or if it has not
        been imported in time. `waits`: False returns at once.
        """
        given = config or {}
        which = given.get("connector.class"), given.get("connector.plugin.version")
        found = "unknown"
        with suppress(TimeoutError):
            found = self._fact(which, lambda: self._plugins.connector_type(given), waits=waits)
        return cast("Literal['source', 'sink', 'unknown']", found)

    def version(self, kind: Kind, name: str, wanted: str | None) -> str | None:
        """Returns a plugin's version; None if it is not known (yet). `wanted`: the requested versions."""

        def look_up() -> str | None:
            plugin = self._plugins.get(kind, name, wanted)
            return plugin.version if plugin is not None else None

        # ConnectError: there is no such version; the connector itself fails with that error
        with suppress(TimeoutError, ConnectError):
            return self._fact((kind, name, wanted), look_up)
        return None

    def all(self) -> Sequence[PluginInfo]:
        """Returns the installed plugins, in the order of GET /connector-plugins. Raises ConnectError if
        they have not been imported in time.
        """
        try:
            return self._fact(None, self._plugins.all)
        except TimeoutError as error:
            raise ConnectError("The installed plugins are still being imported; one of them may hang") from error

    def known(self) -> int:
        """Returns the number of questions whose answer is known. An answer that was given before may change with it."""
        with self._lock:
            return sum(fact.done() for fact, _ in self._facts.values())

    def _fact(self, which: Hashable, look_up: Callable[[], T], *, waits: bool = True) -> T:
        """Raises TimeoutError if it is not known in time, and the errors of `look_up`."""
        with self._lock:
            if which not in self._facts:
                self._facts[which] = self._pool.submit(look_up), time.monotonic() + self._wait_s
            fact, until = self._facts[which]
        found: T = fact.result(max(0.0, until - time.monotonic()) if waits else 0)
        return found
