"""The hosts of a worker's Java plugins: one JVM for all, or one for each connector (java.plugins.isolation), started
when the first plugin is needed.

One that has ended is started anew for whoever needs it next. One in which too many threads hang says so: its tasks and
connectors leave it in order, and go on in a new one.
"""

from __future__ import annotations

import logging
import shlex
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from heeler.embedded_kafka.java import find_java
from heeler.errors import SetupError
from heeler.java_host.building import host_classpath
from heeler.java_host.connection import Connection, Event, HostGoneError
from heeler.java_host.process import HostProcess
from spark_tasks.errors import ConnectError

OPTIONS: Final = "java.plugins.jvm.options"
ISOLATION: Final = "java.plugins.isolation"
MOST_HUNG: Final = "java.plugins.hung.max"
DEFAULT_OPTIONS: Final = "-Xmx1G"
DEFAULT_MOST_HUNG: Final = 8
LINGER_S: Final = 5.0  # a JVM that nobody uses any more, so that what a plugin does at its end is done
_TUNING: Final = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xshare:auto")
_LOGGING: Final = {
    "defaultLogLevel": "info", "levelInBrackets": "true", "showThreadName": "false",
    "log.org.apache.kafka": "warn", "log.org.apache.kafka.connect.file": "info",
    "log.org.apache.kafka.connect.mirror": "info",
}
log = logging.getLogger(__name__)

Look = Callable[[Path], tuple[str, str]]
"""From a folder of a host to its plugin.path and its plugin.discovery; see Discovery.look."""
OnEvent = Callable[[Event], None]
Offsets = Callable[[], list[tuple[str, str]]]


class JavaHost:
    """Starts nothing before `connect`. Any thread."""

    def __init__(
        self, look: Look, options: str = DEFAULT_OPTIONS, *, isolated: bool = False,
        most_hung: int = DEFAULT_MOST_HUNG, grace_s: float = 5.0,
    ) -> None:
        """`look`: where the JVM finds plugins, asked at each start. `options`: of the JVM.
        `isolated`: a JVM for each connector, and one for questions about plugins. `most_hung`: so many hung threads
        have it replaced; `grace_s`: how long its tasks then have to leave it.
        """
        self._look = look
        self._most_hung = most_hung
        self._options = options
        self._isolated = isolated
        self._grace_s = grace_s
        self._lock = threading.Lock()
        self._hosts: dict[str, _Host] = {}
        self._closed = False

    @classmethod
    def of(cls, worker: Mapping[str, str], look: Look) -> JavaHost:
        """With the worker's settings."""
        return cls(look, worker.get(OPTIONS) or DEFAULT_OPTIONS,
                   isolated=worker.get(ISOLATION) == "connector",
                   most_hung=int(worker.get(MOST_HUNG) or DEFAULT_MOST_HUNG),
                   grace_s=int(worker.get("task.shutdown.graceful.timeout.ms") or 5000) / 1000)

    def connect(self, on_event: OnEvent = lambda _: None, offsets: Offsets = list, name: str = "questions",
                connector: str = "") -> Connection:
        """A new connection; starts the host where none runs. `connector`: whose it is, empty for questions about
        plugins. Raises SetupError where there can be none.
        """
        key = connector if self._isolated else ""
        with self._lock:
            if self._closed:
                raise ConnectError("The worker is shutting down")
            host = self._hosts.get(key)
            if host is None:
                whose = f"Java plugins of {key}" if key else "Java plugins"
                host = self._hosts[key] = _Host(lambda: HostProcess(self._command, whose), whose, self._grace_s,
                                                stays=not key)
        return host.connect(on_event, offsets, name)

    def ask(self, op: str, **more: Any) -> Mapping[str, Any]:
        """One question about plugins, over a connection of its own: one that hangs holds up nobody else."""
        connection = self.connect()
        try:
            return connection.ask(op, **more)
        finally:
            connection.close()

    def close(self) -> None:
        """End all. From now on none is started."""
        with self._lock:
            self._closed = True
            hosts = list(self._hosts.values())
        for host in hosts:
            host.close()

    def _command(self, folder: Path) -> list[str]:
        logs = [f"-Dorg.slf4j.simpleLogger.{key}={value}" for key, value in _LOGGING.items()]
        try:
            own = shlex.split(self._options)
        except ValueError as error:
            raise SetupError(f"Invalid value {self._options} for configuration {OPTIONS}: {error}") from error
        return [find_java(), *_TUNING, *logs, *own, "-cp", host_classpath(), "heeler.host.Host", str(folder),
                *self._look(folder), str(self._most_hung)]


class _Host:
    """One process at a time that takes connections, and those before it whose connections have not left yet."""

    def __init__(self, start: Callable[[], HostProcess], whose: str, grace_s: float, *, stays: bool) -> None:
        """`stays`: also while nobody is connected."""
        self._start = start
        self._whose = whose
        self._grace_s = grace_s
        self._stays = stays
        self._lock = threading.Lock()
        self._running: HostProcess | None = None
        self._retired: set[HostProcess] = set()
        self._used: Counter[HostProcess] = Counter()  # by how many connections
        self._closed = False

    def connect(self, on_event: OnEvent, offsets: Offsets, name: str) -> Connection:
        """See JavaHost."""
        with self._lock:
            if self._closed:
                raise ConnectError("The worker is shutting down")
            sock, process = self._reach()
            self._used[process] += 1

        def heed(event: Event) -> None:
            if isinstance(event, HostGoneError):
                self._left(process)
            elif isinstance(event, Mapping) and event.get("op") == "retire":
                with self._lock:
                    self._retire(process)
            on_event(event)

        return Connection(sock, heed, offsets, name)

    def _reach(self) -> tuple[socket.socket, HostProcess]:
        if self._running is not None:
            try:
                return self._running.connect(), self._running
            except HostGoneError:
                if self._running.alive:
                    self._retire(self._running)  # it has said so to others only
                else:
                    log.warning("The host of %s has ended; a new one is started", self._whose)
                    self._used.pop(self._running, None)
                    self._running.close()
                    self._running = None
        self._running = self._start()
        return self._running.connect(), self._running

    def _retire(self, process: HostProcess) -> None:
        """Nobody else is connected to it. Those who are have some time to leave."""
        if process is not self._running:
            return
        log.warning("Too many threads hang in the host of %s: its tasks go on in a new one", self._whose)
        self._running = None
        self._retired.add(process)
        _later(self._grace_s, lambda: self._end(process))
        if not self._used[process]:
            _later(LINGER_S, lambda: self._end(process))

    def _left(self, process: HostProcess) -> None:
        with self._lock:
            if process not in self._used:
                return  # it has been ended
            self._used[process] -= 1
            unused = self._used[process] <= 0 and (process in self._retired or not self._stays)
        if unused:
            _later(LINGER_S, lambda: self._end(process, only_unused=True))

    def _end(self, process: HostProcess, *, only_unused: bool = False) -> None:
        with self._lock:
            if only_unused and self._used[process] > 0:
                return
            if self._running is process:
                self._running = None
            self._retired.discard(process)
            self._used.pop(process, None)
        process.close()

    def close(self) -> None:
        """End them. From now on none is started."""
        with self._lock:
            self._closed = True
            ending = [*self._retired, *([self._running] if self._running is not None else [])]
            self._retired.clear()
            self._running = None
        for process in ending:
            process.close()


def _later(seconds: float, work: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()
