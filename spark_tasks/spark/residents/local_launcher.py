"""Starts executor processes without Spark, for splits that run before Spark is up."""

from __future__ import annotations

import atexit
import math
import subprocess
import threading
import time
from contextlib import suppress
from typing import Final

from typing_extensions import override

from spark_tasks.process.descendants import has_children
from spark_tasks.spark.process_output import pump
from spark_tasks.spark.residents.fork_requests import fork_request
from spark_tasks.spark.residents.forked_parent import ForkedParent, take_parent
from spark_tasks.spark.residents.local_parent import start_parent
from spark_tasks.spark.residents.process import Launcher
from spark_tasks.spark.residents.wire import Ticket

JOIN_S = 60.0  # how long a process may take to join; on a busy machine its parent's imports take many seconds
_REAP_S = 1.0
_END_S = 1.0
_END_STEP_S = 0.01
Parent = subprocess.Popen[bytes] | ForkedParent
_ending: Final[list[Parent]] = []  # those that wait for their last processes


class LocalLauncher(Launcher):
    """Starts processes on this machine. Their parent process is started with the first one."""

    def __init__(self, python_path: str, max_processes: int) -> None:
        self._max_processes = max_processes
        self._launched: dict[int, tuple[float, Parent]] = {}
        self._python_path = python_path
        self._lock = threading.Lock()
        self._closed = False
        self._parent: Parent | None = None

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
                parent = take_parent() or start_parent(self._python_path)
                pump(parent.stdout, "executors-output")  # may raise: nobody would read what its processes print
                self._parent = parent
            assert self._parent.stdin is not None  # noqa: S101 - a pipe was asked for
            self._parent.stdin.write(fork_request(ticket))
            self._parent.stdin.flush()
            now = time.monotonic()
            self._launched = {n: (at, by) for n, (at, by) in self._launched.items() if now - at < 2 * JOIN_S}
            self._launched[ticket.number] = now, self._parent

    @override
    def failure(self, number: int) -> str | None:
        with self._lock:
            code = None if self._parent is None else self._parent.poll()
            at, parent = self._launched.get(number, (math.inf, None))
        if code is not None:
            return f"their parent process ended with code {code}; the worker's log says why"
        if time.monotonic() - at <= JOIN_S:
            return None
        if parent is not None:
            parent.kill()  # it may be suspended, or hang in an import; the processes that it has forked go on
        return f"it did not join within {JOIN_S:.0f} s"

    @override
    def close(self) -> None:
        with self._lock:
            self._closed = True
            parent, self._parent = self._parent, None
        if parent is None:
            return
        assert parent.stdin is not None  # noqa: S101 - a pipe was asked for
        with suppress(OSError):
            parent.stdin.close()  # it ends after its last process, so that no zombie is left to a worker that is PID 1
        _ending.append(parent)
        threading.Thread(target=_reap, args=(parent,), name="executors-parent", daemon=True).start()


def _reap(parent: Parent) -> None:
    """Waits for its end, and kills it if it takes long though it has no processes: it may hang in an import."""
    deadline = time.monotonic() + JOIN_S
    while parent.poll() is None:
        if time.monotonic() > deadline and not has_children(parent.pid):
            parent.kill()
        time.sleep(_REAP_S)
    _ending.remove(parent)


@atexit.register
def _end_all() -> None:
    deadline = time.monotonic() + _END_S  # to end what its processes have left behind
    for parent in tuple(_ending):
        while parent.poll() is None and time.monotonic() < deadline:
            time.sleep(_END_STEP_S)
        parent.kill()
