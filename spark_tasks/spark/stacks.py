"""Gets the stacks of a process that runs a split on this machine. While a split runs, its process has a file in a
folder. On a signal, it writes the stacks of its threads to the file, even while plugin code holds the GIL.

The process holds a lock on its file. A file without a lock belongs to a process that has ended, so another process that
has its number now does not get a signal. (Resident executor processes have a file as long as they run, and no lock, as
the worker has a connection to them: residents/stack_file.py.)
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from spark_tasks.process.process_state import handles_signal, why_signal_is_ignored

STACK_SIGNAL = signal.SIGUSR2
STACK_S = 2.0  # timeout for a process to write its stacks
POLL_S = 0.05
MAX_CHARS = 8_000  # of the stacks of a process


@contextmanager
def stacks_available(folder: str, name: str) -> Iterator[None]:
    """A context manager in whose block `describe_stacks` can get the stacks of this process. `name`: that of the
    running split. Does nothing if `folder` does not exist, because it is on another machine, or outside of the main
    thread, as only that can handle signals.
    """
    path = Path(folder) / f"{name}.{os.getpid()}"
    file = None
    if threading.current_thread() is threading.main_thread():
        with suppress(OSError):
            file = path.open("w")
    if file is None:
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        faulthandler.register(STACK_SIGNAL, file, all_threads=True)
        try:
            yield
        finally:
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)  # a late signal must not end the process
            faulthandler.unregister(STACK_SIGNAL)
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)
            path.unlink(missing_ok=True)


def describe_stacks(folder: Path, name: str) -> str | None:
    """Returns the stacks of the processes that are running splits with this name, or None if there are none. Takes at
    most STACK_S for each process.
    """
    stacks = []
    for path in sorted(folder.glob(f"{name}.*")):
        pid = int(path.suffix[1:])
        with suppress(OSError), path.open() as file:
            text = _stacks(pid, file)
            if text is not None:
                stacks.append(f"The stacks of its process {pid}:\n{text}" if text else
                              f"Its process {pid} has not written its stacks: "
                              f"{why_signal_is_ignored(pid, STACK_SIGNAL)}")
    return "\n".join(stacks) or None


def _stacks(pid: int, file: IO[str]) -> str | None:
    """Returns the stacks: "" if the process does not write them, None if it or its split has ended. Raises OSError."""
    if not _is_locked(file):
        Path(file.name).unlink(missing_ok=True)  # the process was killed
        return None
    return request_stacks(pid, file, lambda: _is_locked(file))


def request_stacks(pid: int, file: IO[str], runs: Callable[[], bool]) -> str | None:
    """Has a process write its stacks to this file, and returns them: "" if it does not write them within STACK_S, None
    if `runs` says that it or its split has ended. `runs` is asked when nothing else can get the process's number any
    more. Raises OSError.
    """
    process = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    try:
        if not runs():  # the number may belong to another process now
            return None
        if not handles_signal(pid, STACK_SIGNAL):  # it would kill the process
            return ""
        file.seek(0, os.SEEK_END)
        before = file.tell()
        if process is not None:
            signal.pidfd_send_signal(process, STACK_SIGNAL)
        else:
            os.kill(pid, STACK_SIGNAL)
    finally:
        if process is not None:
            os.close(process)
    size, deadline = before, time.monotonic() + STACK_S
    while time.monotonic() < deadline:  # until the file has grown and then stays the same
        time.sleep(POLL_S)
        now = os.fstat(file.fileno()).st_size
        if now > before and now == size:
            break
        size = now
    file.seek(before)
    return file.read(MAX_CHARS).rstrip()


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
