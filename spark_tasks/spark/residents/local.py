"""Starts executor processes without Spark, for splits that run before Spark is up.

These processes have a parent, which imports everything that splits need, and forks a process for each ticket that it
reads from standard input. With each ticket come the names of the modules that the worker's connectors need. At the end
of the input the parent exits; the worker ends the processes that are still running.

The imports take a second. A worker needs half of them itself: so it does these when it starts and forks the first
parent (`fork_parent`), which does the rest on another CPU, and shares the memory of what was imported before. Later,
when the worker has threads, a new parent is started as a program: this module.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn, TextIO

from typing_extensions import override

from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.descendants import has_children
from spark_tasks.process.pandas_import import defer_pandas
from spark_tasks.process.reaper import Reaper
from spark_tasks.spark.daemon import import_all, preload, refuse_threads
from spark_tasks.spark.environment import ENVIRONMENT, inherited, python_path
from spark_tasks.spark.process_output import log_as_the_worker, pump
from spark_tasks.spark.residents.fork_server import fork_for_each, framed
from spark_tasks.spark.residents.process import Launcher
from spark_tasks.spark.residents.wire import Ticket

JOIN_S = 60.0  # how long a process may take to join; on a busy machine its parent's imports take many seconds
TITLE = "heeler executor processes"  # in the output of ps
_SHARED = ("spark_tasks.sources.split", "spark_tasks.sinks.split")  # what both the worker and splits need
_REAP_S = 1.0
_END_S = 1.0
_END_STEP_S = 0.01
_INHERITED = 1024  # files that a shell or a service manager leaves open have lower numbers
_HANDLERS: Final[Mapping[signal.Signals, Any]] = {  # Python's own, instead of the worker's
    signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
_MALLOPT: Final = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_MMAP_THRESHOLD_": -3}  # as in glibc's malloc.h


class ForkedParent:
    """A parent process that was forked: what this module uses of subprocess.Popen."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self._lock = threading.Lock()
        self._code: int | None = None
        self.stdin = os.fdopen(stdin, "wb")
        close_on_fork(self.stdin)
        self.stdout = os.fdopen(stdout, "rb")

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        with self._lock:
            return self._ended(os.WNOHANG)

    def wait(self) -> None:
        """Waits for its end."""
        with self._lock:
            self._ended(0)

    def kill(self) -> None:
        """Kills it unless it has ended."""
        with self._lock:
            if self._ended(os.WNOHANG) is None:
                os.kill(self.pid, signal.SIGKILL)

    def _ended(self, option: int) -> int | None:
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, option)
            except ChildProcessError:  # other code has waited for it, or the system does (SIGCHLD is ignored)
                pid, status = self.pid, 0
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


Parent = subprocess.Popen[bytes] | ForkedParent


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
                begun = _BEGUN.pop() if _BEGUN else None
                parent = begun if begun and begun.poll() is None else _started(self._python_path)
                pump(parent.stdout, "executors-output")  # may raise: nobody would read what its processes print
                self._parent = parent
            assert self._parent.stdin is not None  # noqa: S101 - a pipe was asked for
            self._parent.stdin.write(framed(ticket))
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
        _ENDING.append(parent)
        threading.Thread(target=_reap, args=(parent,), name="executors-parent", daemon=True).start()


def _reap(parent: Parent) -> None:
    """Waits for its end, and kills it if it takes long though it has no processes: it may hang in an import."""
    deadline = time.monotonic() + JOIN_S
    while parent.poll() is None:
        if time.monotonic() > deadline and not has_children(parent.pid):
            parent.kill()
        time.sleep(_REAP_S)
    _ENDING.remove(parent)


_BEGUN: Final[list[Parent]] = []  # at most one, until a launcher takes it
_ENDING: Final[list[Parent]] = []  # those that wait for their last processes


def fork_parent() -> bool:
    """Forks the parent process of the first launcher. Returns True in the new process, which is to call `serve` when it
    has left all frames of the worker. The new process is killed if the worker ends before there is a launcher. Does
    nothing if this process has threads, or cannot fork: the launcher then starts a program.
    """
    _import_shared()
    if threading.active_count() > 1:
        return False
    sys.stdout.flush()
    sys.stderr.flush()
    ends: list[int] = []
    try:
        ends += os.pipe()
        ends += os.pipe()
        pid = os.fork()
    except OSError:  # too many open files or processes
        for end in ends:
            os.close(end)
        return False
    tickets, stdin, stdout, output = ends
    if pid:
        os.close(tickets)
        os.close(output)
        _BEGUN.append(ForkedParent(pid, stdin, stdout))
        return False
    _become_a_program(ends)
    return True


def _import_shared() -> None:
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    gc.disable()  # it would find nothing
    os.environ.update(ENVIRONMENT)  # libraries read it when they are imported
    try:
        defer_pandas()
        import_all(_SHARED)
        gc.freeze()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        gc.enable()


def end_parent() -> None:
    """Ends the forked parent if no launcher has taken it."""
    while _BEGUN:
        parent = _BEGUN.pop()
        parent.kill()
        parent.wait()


@atexit.register
def _end_all() -> None:
    end_parent()
    deadline = time.monotonic() + _END_S  # to end what its processes have left behind
    for parent in tuple(_ENDING):
        while parent.poll() is None and time.monotonic() < deadline:
            time.sleep(_END_STEP_S)
        parent.kill()


def _environment(path: str) -> dict[str, str]:
    # Unbuffered, as Spark's own processes are: no output is lost if a process is killed, or repeated after a fork.
    return {**inherited(), **ENVIRONMENT, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def _become_a_program(pipes: Sequence[int]) -> None:
    """Gives this forked process what `_started` gives a new program."""
    tickets, _, _, output = pipes
    _entitle()  # first: setproctitle needs the environment where it was when the process started
    os.setpgid(0, 0)
    for name, handler in _HANDLERS.items():
        if signal.getsignal(name) is not signal.SIG_IGN:
            signal.signal(name, handler)
    for source, *standard in ((tickets, 0), (output, 1, 2)):
        for number in standard:
            os.dup2(source, number)
    for number in range(3, _INHERITED):
        with suppress(OSError):  # it is not open
            if number in pipes or os.get_inheritable(number):  # which Python's own files are not
                os.close(number)
    sys.stdout = sys.__stdout__ = _unbuffered(sys.stdout, 1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _unbuffered(sys.stderr, 2)  # type: ignore[misc]
    sys.argv[:] = sys.orig_argv[:] = [__file__]  # the worker's has values of its settings
    path = python_path()
    os.environ.clear()
    os.environ.update(_environment(path))
    first = [] if sys.flags.safe_path else [_folder()]
    sys.path[:] = dict.fromkeys([*first, *path.split(os.pathsep), *sys.path[len(first):]])
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is not None:
        for variable, option in _MALLOPT.items():
            mallopt(option, int(ENVIRONMENT[variable]))


def _folder() -> str:
    """The first folder of a program's search path: `python -m` names the current one."""
    try:
        return os.getcwd()  # noqa: PTH109 - a text
    except OSError:  # it was deleted
        return ""


def _unbuffered(stream: TextIO, number: int) -> io.TextIOWrapper:
    raw: Any = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(raw, stream.encoding, stream.errors, write_through=True)


def _entitle() -> None:
    """Gives this process its title, on Linux: elsewhere it may crash after a fork."""
    if sys.platform == "linux":
        from setproctitle import setproctitle  # noqa: PLC0415 - only there

        setproctitle(TITLE)


def _started(path: str) -> subprocess.Popen[bytes]:
    parent = subprocess.Popen(  # noqa: S603 - our own command; Ctrl-C must only reach the worker
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=_environment(path), process_group=0,
    )
    assert parent.stdin is not None  # noqa: S101 - a pipe was asked for
    close_on_fork(parent.stdin)
    return parent


def serve() -> NoReturn:
    """The parent process: preloads, then forks a process for each ticket."""
    _entitle()
    log_as_the_worker()
    preload()
    refuse_threads()
    reaper = Reaper()
    reaper.end_with(os.getppid())
    assert isinstance(sys.stdin.buffer, io.BufferedReader)  # noqa: S101 - what Python opens
    fork_for_each(sys.stdin.buffer, reaper)
    reaper.await_all()
    os._exit(0)  # nothing that was imported has to be closed


if __name__ == "__main__":
    serve()
