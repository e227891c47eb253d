"""Starts executor processes without Spark, for splits that run before Spark is up.

Run as a program, this module is the parent of these processes. It imports everything that splits need, and forks a
process for each ticket that it reads from standard input. With each ticket come the names of the modules that the
worker's connectors need. At the end of the input it exits; the worker ends the processes that are still running.

The imports take a second. `begin` starts the parent before a launcher needs it, so that they take place while the
worker itself starts, on another CPU.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Final

from typing_extensions import override

from spark_tasks.spark.daemon import preload, refuse_threads
from spark_tasks.spark.environment import ENVIRONMENT, inherited, python_path
from spark_tasks.spark.process_output import log_as_the_worker, pump
from spark_tasks.spark.residents.fork_server import fork_for_each, framed
from spark_tasks.spark.residents.process import Launcher
from spark_tasks.spark.residents.wire import Ticket

JOIN_S = 60.0  # how long a process may take to join; on a busy machine its parent's imports take many seconds


class LocalLauncher(Launcher):
    """Starts processes on this machine. Their parent process is started with the first one."""

    def __init__(self, python_path: str, max_processes: int) -> None:
        self._max_processes = max_processes
        self._launched: dict[int, float] = {}
        self._python_path = python_path
        self._lock = threading.Lock()
        self._closed = False
        self._parent: subprocess.Popen[bytes] | None = None

    @property
    @override
    def max_processes(self) -> int:
        return self._max_processes

    @override
    def launch(self, ticket: Ticket) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("no more executor processes are started")
            if self._parent is None or self._parent.poll() is not None:
                begun = _BEGUN.pop() if _BEGUN else None
                self._parent = begun if begun and begun.poll() is None else _started(self._python_path)
                pump(self._parent.stdout, "executors-output")
            assert self._parent.stdin is not None  # noqa: S101 - a pipe was asked for
            self._parent.stdin.write(framed(ticket))
            self._parent.stdin.flush()
            self._launched = {n: at for n, at in self._launched.items() if time.monotonic() - at < 2 * JOIN_S}
            self._launched[ticket.number] = time.monotonic()

    @override
    def failure(self, number: int) -> str | None:
        with self._lock:
            code = None if self._parent is None else self._parent.poll()
            launched = self._launched.get(number)
        if code is not None:
            return f"their parent process ended with code {code}; the worker's log says why"
        late = launched is not None and time.monotonic() - launched > JOIN_S
        return f"it did not join within {JOIN_S:.0f} s" if late else None

    @override
    def close(self) -> None:
        with self._lock:
            self._closed = True
            parent, self._parent = self._parent, None
        if parent is None:
            return
        parent.kill()  # even if it still imports modules; the worker ends the processes that it has forked
        assert parent.stdin is not None  # noqa: S101 - a pipe was asked for
        with suppress(OSError):
            parent.stdin.close()
        threading.Thread(target=parent.wait, name="executors-parent", daemon=True).start()  # leaves no zombie


_BEGUN: Final[list[subprocess.Popen[bytes]]] = []  # at most one, until a launcher takes it


def begin() -> None:
    """Starts the parent process of the first launcher. It is killed if the worker ends before there is a launcher."""
    _BEGUN.append(_started(python_path()))
    atexit.register(_end_begun)


def _end_begun() -> None:
    while _BEGUN:
        _BEGUN.pop().kill()


def _started(path: str) -> subprocess.Popen[bytes]:
    # Unbuffered, as Spark's own processes are: no output is lost if a process is killed, or repeated after a fork.
    environment = {**inherited(), **ENVIRONMENT, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(  # noqa: S603 - our own command; Ctrl-C must only reach the worker
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment, process_group=0,
    )


def main() -> None:
    """Preloads, then forks a process for each ticket."""
    log_as_the_worker()
    preload()
    refuse_threads()
    fork_for_each(sys.stdin.buffer)
    os._exit(0)  # nothing that was imported has to be closed


if __name__ == "__main__":
    main()
