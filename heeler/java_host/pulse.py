"""Whether a JVM still answers: one that is stopped, or whose heap is so full that it does nothing but look for memory,
keeps its connections, and its tasks would be RUNNING for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from heeler.java_host.connection import Connection, Event
from heeler.java_host.process import HostProcess
from spark_tasks.host_frames import HostGoneError

EVERY_S: Final = 1.0
_PARTS: Final = 10  # a worker that was stopped itself, and wakes up, has missed one of them at most


class HostPulse:
    """Asks from now on until the JVM ends. `silent` is called once, after `limit_s` without an answer; `retires` with
    the reason, again and again, once the JVM is to be replaced; `measured` with the name of a config provider and what
    it measures (KIP-877), whenever that has changed, and with nothing at the end.
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
        self._gone = threading.Event()
        threading.Thread(target=self._run, name="java-host-pulse", daemon=True).start()

    def _heed(self, event: Event) -> None:
        if isinstance(event, HostGoneError):
            for name in self._providers:
                self._measured(name, [])
            self._gone.set()
        elif isinstance(event, Mapping) and event.get("op") == "metrics":
            self._providers.add(event["provider"])
            self._measured(event["provider"], event["values"])

    def _run(self) -> None:
        try:
            connection = Connection(self._process.connect(), self._heed, name="pulse")
            connection.tell("pulse")
            while not self._gone.wait(EVERY_S):
                if not self._answered(connection):
                    self._silent()
                    return
        except HostGoneError:
            return

    def _answered(self, connection: Connection) -> bool:
        answer = connection.begin("ping")
        for _ in range(_PARTS):
            try:
                response = answer.result(self._limit_s / _PARTS)
            except TimeoutError:
                continue
            if response.get("op") == "retire":
                self._retires(str(response.get("why")))
            return True
        return False
