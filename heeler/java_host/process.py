"""A JVM of the host of Java plugins, from its start to its end.

Its socket and the secret that opens it lie in a folder of this user's alone. The JVM ends with the worker however that
ends (see guard.py), and the folder goes.
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
from typing import Final

from heeler.embedded_kafka.guard import GuardedProcess
from heeler.errors import SetupError
from heeler.java_host.connection import HostGoneError
from heeler.java_host.frames import message
from spark_tasks.process.private_files import open_private

_START_S: Final = 120.0  # scanning jars without manifests takes its time on a busy machine
_LOOK_S: Final = 0.02
_LEVEL: Final = re.compile(r"\[(TRACE|DEBUG|INFO|WARN|ERROR)\] (.*)", re.DOTALL)
_PYTHON: Final = {"TRACE": 5, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING,
                  "ERROR": logging.ERROR}
_said = logging.getLogger("heeler.java")  # what the JVM and its plugins write
log = logging.getLogger(__name__)


class HostProcess:
    """`command`: from the folder of its socket; `whose`: for the log, what it is the host of."""

    def __init__(self, command: Callable[[Path], list[str]], whose: str) -> None:
        self._whose = whose
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
        log.info("The host of %s runs (started in %.1f s)", whose, time.monotonic() - begun)

    @property
    def alive(self) -> bool:
        """Whether the JVM has not ended."""
        return self._guard.exit_code() is None

    def _wait(self, until: float) -> None:
        while not (self._folder / "socket").exists():
            if not self.alive or time.monotonic() > until:
                why = "did not start in time" if self.alive else f"ended at once: {self._last}"
                self.close()
                raise SetupError(f"The host of {self._whose} {why}; see the worker's log")
            time.sleep(_LOOK_S)

    def connect(self) -> socket.socket:
        """A connection that has shown the secret. Raises HostGoneError."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(str(self._folder / "socket"))
            sock.sendall(message(0, {"op": "hello", "secret": self._secret}))
        except OSError as error:
            sock.close()
            raise HostGoneError(f"The host of {self._whose} takes no connections: {error}") from error
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
        """End the JVM. May be repeated."""
        self._closed = True
        self._guard.close()
        shutil.rmtree(self._folder, ignore_errors=True)
