"""The hosts of a worker's Java plugins: one JVM for all, or one per connector (java.plugins.isolation), started when
a plugin is first needed.

A host that has ended is started again when it is needed; one that no longer responds is ended. A host in which too many
threads hang, or whose heap is full, reports that: its tasks and connectors leave it cleanly and continue in a new one.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from heeler.embedded_kafka.java import find_java
from heeler.errors import SetupError
from heeler.java_host.connection import Connection, Event, NoResponseError
from heeler.java_host.host_classpath import host_classpath
from heeler.java_host.liveness import HostLiveness
from heeler.java_host.plugin_metrics import figures
from heeler.java_host.process import HostProcess
from heeler.java_host.settings import ANSWER, OPTIONS, JavaHostSettings
from spark_tasks.errors import ConnectError
from spark_tasks.host_frames import HostGoneError
from spark_tasks.metrics.plugins import Figures

TELL_S: Final = 5.0
LINGER_S: Final = 5.0  # an unused JVM runs for this long, so that plugins can finish what they do when they stop
_CHOOSES_COLLECTOR: Final = re.compile(r"-XX:[+]Use\w*GC")
_FEW_PROCESSORS: Final = 2
_LOGGING: Final = {
    "defaultLogLevel": "info", "levelInBrackets": "true", "showThreadName": "false",
    "log.org.apache.kafka": "warn", "log.org.apache.kafka.connect.file": "info",
    "log.org.apache.kafka.connect.mirror": "info",
}
_logger = logging.getLogger(__name__)

HostPath = Callable[[Path], tuple[str, str]]
"""Returns the plugin.path and the plugin.discovery of a host, given the host's folder; see Discovery.host_path."""
OnEvent = Callable[[Event], None]
Offsets = Callable[[], list[tuple[str, str]]]
OnHostEnd = Callable[[str, str, str], None]
"""Called with a connector's name, the name of the connector or of one of its tasks ("name-0"), and a description."""
PAUSES_S: Final = (0.05, 0.2, 0.8)
_METHODS: Final = {"exactlyOnce": "exactlyOnceSupport", "boundaries": "canDefineTransactionBoundaries"}


class JavaHost:
    """The host, or hosts, of a worker. Starts nothing before `connect`. Thread-safe."""

    def __init__(self, host_path: HostPath, settings: JavaHostSettings) -> None:
        """`host_path`: called at each start of a JVM."""
        self._settings = settings
        self._levels = dict(settings.levels)
        self.on_end: OnHostEnd = lambda _connector, _item, _what: None
        self._host_path = host_path
        self._lock = threading.Lock()
        self._hosts: dict[str, _Host] = {}
        self._provides = False  # there are config providers, which may have something to close
        self._measured: dict[str, Figures] = {}  # by the names of config providers
        self._closed = False

    def connect(self, on_event: OnEvent = lambda _: None, offsets: Offsets = list, name: str = "requests",
                connector: str = "") -> Connection:
        """A new connection; starts the host if it is not running. `name`: of the connection's user, for logs;
        `connector`: the connector that it is for, empty for requests about plugins. Raises SetupError if the host
        cannot be started.
        """
        key = connector if self._settings.isolated else ""
        with self._lock:
            if self._closed:
                raise ConnectError("The worker is shutting down")
            host = self._hosts.get(key)
            if host is None:
                title = f"Java plugin host of {key}" if key else "Java plugin host"
                host = self._hosts[key] = _Host(lambda: HostProcess(self._command, title), title, self._settings,
                                                self._measure, stays=not key)

        def tell(what: str) -> None:
            if connector:
                self.on_end(connector, name, what)

        return host.connect(on_event, offsets, name, tell)

    def ask(self, op: str, **fields: Any) -> Mapping[str, Any]:
        """Sends a request about plugins on its own connection, so that one that hangs does not delay others. It fails
        after a timeout; if the host is just ending, it is sent to the next one. Raises ConnectError.
        """
        self._provides = self._provides or op == "configure"
        for pause_s in PAUSES_S if op != "alterOffsets" else ():  # not repeated: the host may have carried it out
            try:
                return self._ask(op, fields)
            except HostGoneError as error:
                _logger.info("Repeating the request %s in another Java plugin host: %s", op, error)
            time.sleep(pause_s)
        return self._ask(op, fields)

    def _ask(self, op: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        connection = self.connect()
        try:
            return connection.ask_within(self._settings.answer_s, op, **fields)
        except NoResponseError as error:
            call = f"{fields['class']}.{_METHODS.get(op, op)}()" if "class" in fields else op
            raise ConnectError(f"{call} did not return within {self._settings.answer_s:g} s ({ANSWER}); check what the "
                               "plugin is waiting for") from error
        finally:
            connection.close()

    def _measure(self, provider: str, reported: list[Mapping[str, Any]]) -> None:
        self._measured[provider] = figures(reported)

    def figures(self) -> list[Figures]:
        """The metrics of the config providers."""
        return list(self._measured.values())

    def set_level(self, logger: str, level: str) -> None:
        """Sets the level (slf4j's name) of a logger and those below it, in all JVMs, including those started later."""
        with self._lock:
            self._levels[logger] = level
            hosts = list(self._hosts.values())
        for host in hosts:
            host.tell("level", logger=logger, level=level)

    def close(self) -> None:
        """Ends all hosts; no more are started."""
        with self._lock:
            self._closed = True
            hosts = list(self._hosts.values())
        for host in hosts:
            if self._provides:
                host.tell("closeProviders")
            host.close()

    def _command(self, folder: Path) -> list[str]:
        wanted = {**_LOGGING, **{f"log.{name}": level.lower() for name, level in self._levels.items()}}
        logs = [f"-Dorg.slf4j.simpleLogger.{key}={value}" for key, value in wanted.items()]
        try:
            own = shlex.split(self._settings.options)
        except ValueError as error:
            raise SetupError(f"Invalid value {self._settings.options} for configuration {OPTIONS}: {error}") from error
        return [find_java(), *collector(own, os.cpu_count()), "-Xshare:auto", *logs, *own, "-cp", host_classpath(),
                "heeler.host.Host", str(folder), *self._host_path(folder), str(self._settings.max_hung)]


def collector(options: Sequence[str], processors: int | None) -> Sequence[str]:
    """The JVM's garbage collector, unless the options choose one: a JVM with two does not start (ADR 0042)."""
    if any(map(_CHOOSES_COLLECTOR.match, options)):
        return ()
    if (processors or 1) <= _FEW_PROCESSORS:
        return ("-XX:+UseSerialGC",)
    return ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


class _Host:
    """The process that accepts connections, and older ones that still have connections."""

    def __init__(self, start: Callable[[], HostProcess], title: str, settings: JavaHostSettings,
                 measured: Callable[[str, list[Mapping[str, Any]]], None], *, stays: bool) -> None:
        """`title`: how log lines call it; `stays`: whether the host continues to run without connections."""
        self._settings = settings
        self._measured = measured
        self._start = start
        self._title = title
        self._stays = stays
        self._lock = threading.Lock()
        self._running: HostProcess | None = None
        self._retired: set[HostProcess] = set()
        self._used: Counter[HostProcess] = Counter()  # the number of connections
        self._closed = False

    def connect(self, on_event: OnEvent, offsets: Offsets, name: str, tell: Callable[[str], None]) -> Connection:
        """A new connection to the running host. `tell` is called if the host ends unexpectedly."""
        with self._lock:
            if self._closed:
                raise ConnectError("The worker is shutting down")
            sock, process = self._reach()
            self._used[process] += 1

        def handle(event: Event) -> None:
            if isinstance(event, HostGoneError):
                self._left(process)
                if not event.wanted:
                    tell(f"the Java plugin host has ended ({process.why()}); it continues in a new one")
            elif isinstance(event, Mapping) and event.get("op") == "retire":
                self._retires(process, str(event.get("why")))
                tell(f"the Java plugin host is being replaced ({event.get('why')}); it continues in a new one")
            on_event(event)

        connection = Connection(sock, handle, offsets, name)
        connection.folder = str(process.folder)
        return connection

    def tell(self, op: str, **fields: str) -> None:
        """Sends a request to all JVMs, and waits briefly for each response. JVMs that are just ending are skipped."""
        with self._lock:
            running = [*self._retired, *([self._running] if self._running is not None else [])]
        for process in running:
            with suppress(HostGoneError, NoResponseError):
                connection = Connection(process.connect())
                try:
                    connection.ask_within(TELL_S, op, **fields)
                finally:
                    connection.close()

    def _reach(self) -> tuple[socket.socket, HostProcess]:
        if self._running is not None:
            try:
                return self._running.connect(), self._running
            except HostGoneError:
                if self._running.alive:
                    self._retire(self._running, "it refuses connections")  # other users know the reason
                else:
                    _logger.warning("The %s has ended; starting a new one", self._title)
                    self._used.pop(self._running, None)
                    self._running.close()
                    self._running = None
        self._running = process = self._start()
        HostLiveness(process, self._settings.silence_s, lambda: self._silent(process),
                  lambda why: self._retires(process, why), self._measured)
        return process.connect(), process

    def _retires(self, process: HostProcess, why: str) -> None:
        with self._lock:
            self._retire(process, why)

    def _silent(self, process: HostProcess) -> None:
        why = f"it has not responded for {self._settings.silence_s:g} s: it is suspended, or its heap is full"
        _logger.error("Ending the %s: %s; its tasks continue in a new one", self._title, why)
        self._end(process, why=why)

    def _retire(self, process: HostProcess, why: str) -> None:
        """Sends no more connections to a process. Its users have some time to leave."""
        if process is not self._running:
            return
        _logger.warning("Replacing the %s: %s; its tasks continue in a new one", self._title, why)
        self._running = None
        self._retired.add(process)
        _later(self._settings.grace_s, lambda: self._end(process))
        if not self._used[process]:
            _later(LINGER_S, lambda: self._end(process))

    def _left(self, process: HostProcess) -> None:
        with self._lock:
            if process not in self._used:
                return  # it was ended
            self._used[process] -= 1
            unused = self._used[process] <= 0 and (process in self._retired or not self._stays)
        if unused:
            _later(LINGER_S, lambda: self._end(process, only_unused=True))

    def _end(self, process: HostProcess, *, only_unused: bool = False, why: str = "it was replaced") -> None:
        with self._lock:
            if only_unused and self._used[process] > 0:
                return
            if self._running is process:
                self._running = None
            self._retired.discard(process)
            self._used.pop(process, None)
        process.close(why)

    def close(self) -> None:
        """Ends all processes; no more are started."""
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
