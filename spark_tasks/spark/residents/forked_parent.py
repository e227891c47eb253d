"""The first parent of the worker's own executor processes (local_parent.py) is forked by the worker.

The imports of a parent take a second. A worker needs half of them itself: so it does these when it starts and forks the
first parent (`fork_parent`), which does the rest on another CPU, and shares the memory of what was imported before.
Later, when the worker has threads, a new parent is started as a program. ADR 0050.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TextIO

from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.pandas_import import defer_pandas
from spark_tasks.spark.daemon import import_all
from spark_tasks.spark.environment import ENVIRONMENT, python_path
from spark_tasks.spark.residents import local_parent

_SHARED = ("spark_tasks.sources.split", "spark_tasks.sinks.split")  # what both the worker and splits need
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


_untaken: Final[list[ForkedParent]] = []  # at most one, until a launcher takes it


def fork_parent() -> bool:
    """Forks the parent process of the first launcher. Returns True in the new process, which is to call
    `local_parent.serve` when it has left all frames of the worker. The new process is killed if the worker ends before
    there is a launcher. Does nothing if this process has threads, or cannot fork: the launcher then starts a program.
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
        _untaken.append(ForkedParent(pid, stdin, stdout))
        return False
    _become_a_program(ends)
    return True


def take_parent() -> ForkedParent | None:
    """The forked parent, for the first launcher; None if there is none, it was taken, or it has ended."""
    parent = _untaken.pop() if _untaken else None
    return parent if parent is not None and parent.poll() is None else None


@atexit.register
def end_parent() -> None:
    """Ends the forked parent if no launcher has taken it."""
    while _untaken:
        parent = _untaken.pop()
        parent.kill()
        parent.wait()


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


def _become_a_program(pipes: Sequence[int]) -> None:
    """Gives this forked process what `start_parent` gives a new program."""
    tickets, _, _, output = pipes
    local_parent.entitle()  # first: setproctitle needs the environment where it was when the process started
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
    sys.argv[:] = sys.orig_argv[:] = [local_parent.__file__]  # the worker's has values of its settings
    path = python_path()
    os.environ.clear()
    os.environ.update(local_parent.environment_of(path))
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
