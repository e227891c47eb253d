"""Where a split hangs, asked from outside: while it runs, its process has a file in a folder of this machine, and
writes the stacks of its threads into it when it gets a signal, also where it holds the interpreter.

The process holds a lock on its file, so that a file that is not locked belongs to nobody, and no signal goes to another
process of the same number.
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
MOST = 8_000  # characters of them that are told


@contextmanager
def telling(folder: str, name: str) -> Iterator[None]:
    """In this block the process says where it is. `name`: of what it works on; a folder that is not there: of another
    machine, where nobody could ask. Only a main thread may say what a signal does.
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
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)  # one that is on its way must not end the process
            faulthandler.unregister(STACK_SIGNAL)
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)
            path.unlink(missing_ok=True)


def told(folder: Path, name: str) -> str | None:
    """Where the processes are that work on it now; None where none does. Takes STACK_S at most for each."""
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
    """The stacks; empty where it does not say, None where it works on that no more. Raises OSError."""
    if not _is_held(file):
        Path(file.name).unlink(missing_ok=True)  # its process was killed
        return None
    process = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    try:
        if not _is_held(file):  # by now the number could have become another process's
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
    while time.monotonic() < deadline:  # until it has grown and grows no more
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
