"""Kills the processes that a plugin has started in an executor process: they would go on without it, as orphans."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from spark_tasks.process.process_state import start_time_of

_MAX_THREADS = 4096  # of a process: whoever has more is looked at in part


def kill_descendants(pid: int, spared: int = 0) -> bool:
    """Kills all processes that a process has started, and those that they have started, but not the one that is
    spared. Returns whether there were any that had not ended. Does nothing on systems other than Linux.
    """
    found = _opened(pid, spared)
    for handle in found:
        with suppress(OSError):  # it has ended
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)
    return bool(found)


def _opened(pid: int, spared: int = 0) -> list[int]:
    """Pidfds of all descendants: their numbers may be given to other processes as soon as they have ended."""
    found: list[int] = []
    for child in children(pid):
        with suppress(OSError):  # it has just ended, or too many files are open
            if child != spared and start_time_of(child) is not None:
                found.append(os.pidfd_open(child))
                found += _opened(child)
    return found


def children(pid: int) -> Iterator[int]:
    """The processes whose parent is this one, including those that have ended and that nobody has waited for. Some may
    be missing while this process has too many open files.
    """
    with suppress(OSError):
        yield from _children(pid)


def has_children(pid: int) -> bool:
    """Whether a process has children that have not ended. True if that cannot be read now: this process may have too
    many open files. False on systems other than Linux.
    """
    try:
        return any(start_time_of(child) is not None for child in _children(pid))
    except OSError:
        return True


def _children(pid: int) -> Iterator[int]:
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        for _, thread in zip(range(_MAX_THREADS), Path(f"/proc/{pid}/task").iterdir(), strict=False):
            with suppress(FileNotFoundError, ProcessLookupError):  # so has a thread; or a kernel without this file
                yield from map(int, (thread / "children").read_text().split())
