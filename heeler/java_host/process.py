"""One JVM that hosts Java plugins, from its start to its end.

Its socket and the secret for it are in a folder that only this user can read. The JVM ends with the worker however the
worker ends (see guard.py), and the folder is removed.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from heeler.embedded_kafka.guard import GuardedProcess
from heeler.errors import SetupError
from spark_tasks.host_frames import HostGoneError, message
from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.log_levels import LONGEST_NAME, SLF4J
from spark_tasks.process.private_files import open_private
from storage.ids import ConnectorName, ConnectorTaskId

_START_S: Final = 120.0  # scanning jars without manifests takes long on a busy machine
_POLL_S: Final = 0.02
_END_S: Final = 0.5
CONNECT_S: Final = 5.0  # less than a JVM may be silent before it is ended
_LONGEST_LINE: Final = 1 << 16  # characters
_FULL: Final = 3  # the exit code of Host.java if its heap is full
_WHOSE: Final = re.compile(r"\x01(\d*)\x01([^\x01]*)\x01")  # task, or nothing, and connector: see PluginOutput.java
_LEVEL: Final = re.compile(rf"\[({'|'.join(SLF4J)})\] (?:([\w.$-]{{1,{LONGEST_NAME}}}) - )?(.*)", re.DOTALL)
_output = logging.getLogger("heeler.java")  # the output of the JVM and its plugins
_logger = logging.getLogger(__name__)


class HostProcess:
    """`command` returns the JVM's command, given the folder of the socket; `title`: how log lines call it."""

    def __init__(self, command: Callable[[Path], list[str]], title: str) -> None:
        self._title = title
        self.folder = Path(tempfile.mkdtemp(prefix="heeler-java-"))  # 0700
        self._secret = secrets.token_hex(32)
        try:
            with open_private(self.folder / "secret", "x") as file:
                file.write(self._secret)
            reading, writing = os.pipe()
            try:
                whole = command(self.folder)  # may have to fetch and compile
                begun = time.monotonic()
                self._guard = GuardedProcess(whole, writing, remove=self.folder)
            except BaseException:
                os.close(reading)
                raise
            finally:
                os.close(writing)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._last = ""
        self._closed = False
        self._why = ""
        threading.Thread(target=self._log, args=(reading,), name="java-host-log", daemon=True).start()
        self._wait(begun + _START_S)
        _logger.info("The %s is running (started in %.1f s)", title, time.monotonic() - begun)

    @property
    def alive(self) -> bool:
        """Whether the JVM runs."""
        return self._guard.exit_code() is None

    def why(self) -> str:
        """Why the JVM has ended, or refuses connections. Waits briefly for its end."""
        if self._why:
            return self._why
        match self._guard.wait(_END_S):
            case None:
                return "it has closed its connections"
            case code if code == _FULL:
                return "its heap was full"
            case code:
                return f"exit code {code}"

    def _wait(self, until: float) -> None:
        while not (self.folder / "socket").exists():
            if not self.alive or time.monotonic() > until:
                why = "did not start in time" if self.alive else f"ended at once: {self._last}"
                self.close()
                raise SetupError(f"The {self._title} {why}; see the worker's log")
            time.sleep(_POLL_S)

    def connect(self) -> socket.socket:
        """An authenticated connection. Raises HostGoneError, also if the JVM does not accept it in time."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        close_on_fork(sock)
        try:
            self._reach(sock, time.monotonic() + CONNECT_S)
            sock.sendall(message(0, {"op": "hello", "secret": self._secret}))
        except OSError as error:
            sock.close()
            raise HostGoneError(f"The {self._title} refuses connections: {error}") from error
        return sock

    def _reach(self, sock: socket.socket, until: float) -> None:
        """Connects. While the JVM has accepted none of very many connections, the kernel would block without a limit,
        and at a socket with a timeout it refuses at once.
        """
        sock.setblocking(False)
        while True:
            try:
                sock.connect(str(self.folder / "socket"))
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
                time.sleep(_POLL_S)
            else:
                break
        sock.setblocking(True)

    def _log(self, reading: int) -> None:
        """Logs the JVM's output in the worker's log, with the logger that a line names (unless that name is too long)
        and about the connector or task that wrote it; a long line in pieces, as it may never end. After `close`, only
        at DEBUG.
        """
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in iter(lambda: lines.readline(_LONGEST_LINE), ""):
                about = about_of(_WHOSE.match(line))
                plain = _WHOSE.sub("", line).rstrip()
                match = _LEVEL.match(plain)
                level = SLF4J[match[1]] if match else logging.INFO
                logger = logging.getLogger(match[2]) if match and match[2] else _output
                self._last = match[3] if match else plain
                logger.log(logging.DEBUG if self._closed else level, "%s", self._last, extra=about)

    def close(self, why: str = "it was stopped by the worker") -> None:
        """Ends the JVM. May be repeated."""
        if self.alive:
            self._why = self._why or why
        self._closed = True
        self._guard.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def about_of(found: re.Match[str] | None) -> dict[str, Any]:
    """The `extra` of a log record for a line that names its connector or task."""
    if found is None:
        return {}
    name = ConnectorName(found[2])
    return {"heeler_about": ConnectorTaskId(name, int(found[1])) if found[1] else name}
