"""What REST, the metrics and the herder ask about plugins. A plugin may hang while it is imported, so it is imported on
another thread, and every question is answered within a deadline.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeVar, cast

from actors.system.validation import describe_plugin
from spark_tasks.errors import ConnectError
from spark_tasks.plugins import Kind, PluginInfo, Plugins
from storage.daemon_pool import DaemonPool
from storage.ids import Config

_logger = logging.getLogger(__name__)

T = TypeVar("T")
WAIT_S = 5.0
LONG_WAIT_S = 60.0  # for answers that need all plugins, or a plugin's host
MAX_THREADS = 16  # each may hang for good, and then answers no other question
MAX_FACTS = 1000  # clients may ask for any number of version ranges


class PluginFacts:
    """Answers questions about plugins, each of which is looked up once, unless there are many. Thread-safe.

    Whoever asks waits until `wait_s` (or `long_wait_s`) after the question was first asked: so a plugin that hangs
    delays only the first answers.
    """

    def __init__(self, plugins: Plugins, wait_s: float = WAIT_S, long_wait_s: float = LONG_WAIT_S,
                 max_facts: int = MAX_FACTS) -> None:
        """`max_facts`: how many answers are kept, those that were used last, and how many questions may wait."""
        self._plugins = plugins
        self._wait_s = wait_s
        self._long_wait_s = long_wait_s
        self._pool = DaemonPool(MAX_THREADS, "plugin-facts")
        self._describing = DaemonPool(MAX_THREADS, "plugin-descriptions")
        self._lock = threading.Lock()
        self._max_facts = max_facts
        self._facts: OrderedDict[bytes, tuple[Future[Any], float]] = OrderedDict()  # the last one was used last
        self._evicted = 0
        self._descriptions: dict[Hashable, tuple[Future[Any], float]] = {}  # in progress

    def connector_type(self, config: Config | None, *, waits: bool = True) -> Literal["source", "sink", "unknown"]:
        """Returns the type of the connector class in a config; "unknown" if there is no such class, if it has not
        been imported in time, or after an error of a plugin. `waits`: False returns at once.
        """
        given = config or {}
        which = given.get("connector.class"), given.get("connector.plugin.version")
        found = "unknown"
        with suppress(TimeoutError):
            look_up = _or_default("unknown", lambda: self._plugins.connector_type(given))
            found = self._fact(which, look_up, self._wait_s, waits=waits)
        return cast("Literal['source', 'sink', 'unknown']", found)

    def version(self, kind: Kind, name: str, wanted: str | None) -> str | None:
        """Returns a plugin's version; None if it is not known (yet). `wanted`: the requested versions."""

        def look_up() -> str | None:
            plugin = self._plugins.get(kind, name, wanted)
            return plugin.version if plugin is not None else None

        with suppress(TimeoutError):
            return self._fact((kind, name, wanted), _or_default(None, look_up), self._wait_s)
        return None

    def all(self) -> Sequence[PluginInfo]:
        """Returns the installed plugins, in the order of GET /connector-plugins. Raises ConnectError if they have not
        been imported in time.
        """
        with _named("The installed plugins are"):
            return self._fact(None, self._plugins.all, self._long_wait_s)

    def describe(self, name: str, version: str | None) -> Sequence[Mapping[str, Any]]:
        """Returns a plugin's configuration keys, see describe_plugin. Raises its errors, and ConnectError if the plugin
        has not been imported in time. It is imported once, however many clients ask.
        """
        which = name, version
        with _named(f"The plugin {name} is"):
            with self._lock:
                waiting = {other: asked for other, asked in self._descriptions.items() if not asked[0].done()}
                self._descriptions = waiting
                if which not in waiting:
                    if len(waiting) >= self._max_facts:
                        raise TimeoutError
                    description = self._describing.submit(describe_plugin, self._plugins, name, version)
                    waiting[which] = description, time.monotonic() + self._long_wait_s
                asked = waiting[which]
            return _in_time(*asked)

    def known(self) -> int:
        """Returns the number of answers so far. An answer that was given before may change with it."""
        with self._lock:
            return self._evicted + sum(fact.done() for fact, _ in self._facts.values())

    def _fact(self, which: Hashable, look_up: Callable[[], T], wait_s: float, *, waits: bool = True) -> T:
        """Raises TimeoutError if it is not known in time, and the errors of `look_up`."""
        key = hashlib.sha256(repr(which).encode()).digest()  # a version range may have a million characters
        with self._lock:
            if key not in self._facts:
                self._make_room()
                self._facts[key] = self._pool.submit(look_up), time.monotonic() + wait_s
            self._facts.move_to_end(key)
            fact, until = self._facts[key]
        found: T = _in_time(fact, until if waits else 0)
        return found

    def _make_room(self) -> None:
        """Forgets the answer that has not been used for the longest time, if there are too many. Raises TimeoutError if
        none of the questions has been answered.
        """
        if len(self._facts) < self._max_facts:
            return
        oldest = next((key for key, (fact, _) in self._facts.items() if fact.done()), None)
        if oldest is None:
            raise TimeoutError
        del self._facts[oldest]
        self._evicted += 1


def _or_default(unknown: T, look_up: Callable[[], T]) -> Callable[[], T]:
    """Returns a look-up that answers `unknown` after an error: the pages that ask are about other plugins, too."""

    def guarded() -> T:
        try:
            return look_up()
        except ConnectError:  # such as a version that is missing; the connector itself fails with that error
            return unknown
        except Exception:  # a plugin's code may raise anything
            _logger.exception("A plugin could not be looked up")
            return unknown

    return guarded


def _in_time(fact: Future[T], until: float) -> T:
    return fact.result(max(0.0, until - time.monotonic()))


@contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise ConnectError(f"{what} still being imported; the import may hang") from error
