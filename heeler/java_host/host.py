"""The host of a worker's Java plugins: one JVM, started when the first of them is needed.

Its socket and the secret that opens it lie in a folder of this user's alone. The JVM ends with the worker however that
ends (see guard.py), and the folder goes. One that has ended is started anew for whoever needs it next.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shlex
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.java import find_java
from heeler.errors import SetupError
from heeler.java_host.building import host_classpath
from heeler.java_host.connection import Connection, Event, HostGoneError
from heeler.java_host.frames import message
from spark_tasks.errors import ConnectError
from spark_tasks.process.private_files import open_private

OPTIONS: Final = "java.plugins.jvm.options"
DEFAULT_OPTIONS: Final = "-Xmx1G"
_TUNING: Final = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xshare:auto")
_LOGGING: Final = {
    "defaultLogLevel": "info", "levelInBrackets": "true", "showThreadName": "false",
    "log.org.apache.kafka": "warn", "log.org.apache.kafka.connect.file": "info",
    "log.org.apache.kafka.connect.mirror": "info",
}
_START_S: Final = 120.0  # scanning jars without manifests takes its time on a busy machine
_LOOK_S: Final = 0.02
_LEVEL: Final = re.compile(r"\[(TRACE|DEBUG|INFO|WARN|ERROR)\] (.*)", re.DOTALL)
_PYTHON: Final = {"TRACE": 5, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING,
                  "ERROR": logging.ERROR}
_said = logging.getLogger("heeler.java")  # what the JVM and its plugins write
log = logging.getLogger(__name__)


class JavaHost:
    """Starts nothing before `connect`. Any thread."""

    def __init__(self, plugin_path: Sequence[str], discovery: str = "service_load",
                 options: str = DEFAULT_OPTIONS, *, classpath: Callable[[], str] = host_classpath) -> None:
        """`discovery`: how the JVM looks for plugins, in the words of plugin.discovery. `options`: of the JVM."""
        self._arguments = (",".join(plugin_path), discovery)
        self._options = options
        self._classpath = classpath
        self._lock = threading.Lock()
        self._running: _Process | None = None
        self._closed = False

    @classmethod
    def of(cls, worker: Mapping[str, str], plugin_path: Sequence[str], discovery: str) -> JavaHost:
        """With the worker's settings."""
        return cls(plugin_path, discovery, worker.get(OPTIONS) or DEFAULT_OPTIONS)

    def connect(self, on_event: Callable[[Event], None] = lambda _: None,
                offsets: Callable[[], list[tuple[str, str]]] = list, name: str = "questions") -> Connection:
        """A new connection; starts the host where none runs. Raises SetupError where there can be none."""
        with self._lock:
            if self._closed:
                raise ConnectError("The worker is shutting down")
            return Connection(self._connected(), on_event, offsets, name)

    def _connected(self) -> socket.socket:
        if self._running is not None:
            try:
                return self._running.connect()
            except HostGoneError:
                log.warning("The host of Java plugins has ended; a new one is started")
                self._running.close()
                self._running = None
        self._running = _Process(self._command)
        return self._running.connect()

    def ask(self, op: str, **more: Any) -> Mapping[str, Any]:
        """One question about plugins, over a connection of its own: one that hangs holds up nobody else."""
        connection = self.connect()
        try:
            return connection.ask(op, **more)
        finally:
            connection.close()

    @property
    def pid(self) -> int | None:
        """The process id of the guarding shell, whose child the JVM is; None where none runs."""
        running = self._running
        return running.pid if running is not None and running.alive else None

    def close(self) -> None:
        """End the JVM. From now on none is started."""
        with self._lock:
            self._closed = True
            if self._running is not None:
                self._running.close()
                self._running = None

    def _command(self, folder: Path) -> list[str]:
        logs = [f"-Dorg.slf4j.simpleLogger.{key}={value}" for key, value in _LOGGING.items()]
        try:
            own = shlex.split(self._options)
        except ValueError as error:
            raise SetupError(f"Invalid value {self._options} for configuration {OPTIONS}: {error}") from error
        return [find_java(), *_TUNING, *logs, *own, "-cp", self._classpath(), "heeler.host.Host", str(folder),
                *self._arguments]


class _Process:
    """One JVM, from its start to its end."""

    def __init__(self, command: Callable[[Path], list[str]]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="heeler-java-"))  # 0700
        self._secret = secrets.token_hex(32)
        try:
            with open_private(self._folder / "secret", "x") as file:
                file.write(self._secret)
            reading, writing = os.pipe()
            try:
                whole = command(self._folder)  # may have to fetch and compile
                begun = time.monotonic()
                self._guard = GuardedProcess(whole, writing, remove=self._folder)
            except BaseException:
                os.close(reading)
                raise
            finally:
                os.close(writing)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._last = ""
        self._closed = False
        threading.Thread(target=self._log, args=(reading,), name="java-host-log", daemon=True).start()
        self._wait(begun + _START_S)
        log.info("The host of Java plugins runs (started in %.1f s)", time.monotonic() - begun)

    @property
    def pid(self) -> int:
        return self._guard.pid

    @property
    def alive(self) -> bool:
        return self._guard.exit_code() is None

    def _wait(self, until: float) -> None:
        while not (self._folder / "socket").exists():
            if not self.alive or time.monotonic() > until:
                why = "did not start in time" if self.alive else f"ended at once: {self._last}"
                self.close()
                raise SetupError(f"The host of Java plugins {why}; see the worker's log")
            time.sleep(_LOOK_S)

    def connect(self) -> socket.socket:
        """A connection that has shown the secret. Raises ConnectError."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(str(self._folder / "socket"))
            sock.sendall(message(0, {"op": "hello", "secret": self._secret}))
        except OSError as error:
            sock.close()
            raise HostGoneError(f"The host of Java plugins takes no connections: {error}") from error
        return sock

    def _log(self, reading: int) -> None:
        """What the JVM writes becomes lines of the worker's log; not what is said at a wanted end."""
        level = logging.INFO  # a trace belongs to the line before it
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                found = _LEVEL.match(line.rstrip())
                if found:
                    level = _PYTHON[found[1]]
                elif not line[:1].isspace() and not line.startswith("Caused by"):
                    level = logging.INFO
                self._last = found[2] if found else line.rstrip()
                _said.log(logging.DEBUG if self._closed else level, "%s", self._last)

    def close(self) -> None:
        self._closed = True
        self._guard.close()
        shutil.rmtree(self._folder, ignore_errors=True)
