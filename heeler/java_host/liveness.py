"""Checks whether a JVM still responds. A JVM that is suspended, or whose heap is so full that it only collects garbage,
keeps its connections; without this check, its tasks would remain RUNNING forever.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from heeler.java_host.connection import Connection, Event
from heeler.java_host.process import CONNECT_S, HostProcess
from spark_tasks.host_frames import HostGoneError

_logger = logging.getLogger(__name__)

EVERY_S: Final = 1.0
_PARTS: Final = 10  # parts of the limit: if the worker itself was suspended, that counts as one part at most


class HostLiveness:
    """Sends requests until the JVM ends. `silent` is called once, after `limit_s` seconds without a response; `retires`
    is called repeatedly, with the reason, once the JVM has to be replaced; `measured` is called with the name of a
    config provider and its metrics (KIP-877) whenever they change, and with an empty list at the end.
    """

    def __init__(self, process: HostProcess, limit_s: float, silent: Callable[[], None],
                 retires: Callable[[str], None],
                 measured: Callable[[str, list[Mapping[str, Any]]], None] = lambda _name, _values: None) -> None:
        self._process = process
        self._limit_s = limit_s
        self._silent = silent
        self._retires = retires
        self._measured = measured
        self._providers: set[str] = set()
        threading.Thread(target=self._run, name="java-host-pulse", daemon=True).start()

    def _handle(self, gone: threading.Event, event: Event) -> None:
        if isinstance(event, HostGoneError):
            for name in self._providers:
                self._measured(name, [])
            gone.set()
        elif isinstance(event, Mapping) and event.get("op") == "metrics":
            self._providers.add(event["provider"])
            self._measured(event["provider"], event["values"])

    def _run(self) -> None:
        while (found := self._connect()) is not None:  # again if the connection ends before the JVM does
            connection, gone = found
            with suppress(HostGoneError):
                connection.tell("pulse")
                while not gone.wait(EVERY_S):
                    if not self._responds(connection):
                        self._silent()
                        return
            time.sleep(EVERY_S)

    def _connect(self) -> tuple[Connection, threading.Event] | None:
        """A connection, as soon as the JVM accepts it, and the event of its end. A JVM that accepts none within the
        limit is silent as well. None if the JVM is silent or has ended.
        """
        waited_s = 0.0
        while self._process.alive:
            begun, gone = time.monotonic(), threading.Event()
            try:
                return Connection(self._process.connect(), partial(self._handle, gone), name="pulse"), gone
            except HostGoneError as error:
                _logger.debug("No connection to check the Java plugin host: %s", error)
            time.sleep(EVERY_S)
            waited_s += min(time.monotonic() - begun, CONNECT_S + EVERY_S)  # the worker may have been suspended
            if waited_s >= self._limit_s:
                self._silent()
                return None
        return None

    def _responds(self, connection: Connection) -> bool:
        pending = connection.begin("ping")
        for _ in range(_PARTS):
            try:
                response = pending.result(self._limit_s / _PARTS)
            except TimeoutError:
                continue
            if response.get("op") == "retire":
                self._retires(str(response.get("why")))
            return True
        return False
