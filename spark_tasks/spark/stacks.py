"""Finds out where a split hangs: while it runs, its process has a file in a folder on this machine, and writes the
stacks of its threads to it when it gets a signal, even while plugin code holds the interpreter's lock.

The process holds a lock on its file: a file without a lock was left by a process that has ended, and no signal is sent
to another process that has its number by now.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

STACK_SIGNAL = signal.SIGUSR2
STACK_S = 2.0  # how long a process may take to write its stacks
LOOK_S = 0.05
MOST = 8_000  # characters of the stacks that are shown


@contextmanager
def telling(folder: str, name: str) -> Iterator[None]:
    """Inside this block the process answers `told`. `name`: of what it works on. Does nothing if `folder` does not
    exist, which is then on another machine, or outside the main thread, which alone can handle signals.
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
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)  # a signal that is on its way must not end the process
            faulthandler.unregister(STACK_SIGNAL)
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)
            path.unlink(missing_ok=True)


def told(folder: Path, name: str) -> str | None:
    """The stacks of the processes that work on `name` now; None if none does. Takes STACK_S at most for each."""
    found = []
    for path in sorted(folder.glob(f"{name}.*")):
        pid = int(path.suffix[1:])
        with suppress(OSError), path.open() as file:
            text = _ask(pid, file)
            if text is not None:
                found.append(f"Its process {pid} is here:\n{text}" if text else
                             f"Its process {pid} does not say where it hangs: it may be suspended")
    return "\n".join(found) or None


def _ask(pid: int, file: IO[str]) -> str | None:
    """The stacks; empty if the process does not write them, None if it has ended or continued. Raises OSError."""
    if not _is_held(file):
        Path(file.name).unlink(missing_ok=True)  # its process was killed
        return None
    process = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    try:
        if not _is_held(file):  # by now the number may be another process's
            return None
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
        time.sleep(LOOK_S)
        now = os.fstat(file.fileno()).st_size
        if now > before and now == size:
            break
        size = now
    file.seek(before)
    return file.read(MOST).rstrip()


def _is_held(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
