"""A thread of an executor process that ends it when Spark stops, or when its worker has ended and the leash, which a
plugin may have closed, has not ended it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress

from spark_tasks.process.process_state import start_time_of

WORKER_S = 5.0  # how often it looks whether the worker still lives
_NAME = "watchdog"  # of the thread
_FROM_KERNEL = 0x80  # SI_KERNEL, the code of a signal that no process has sent
_workers: set[tuple[int, str]] = set()  # the worker of this process: its pid and start, if it is on this machine


def start_watchdog() -> bool:
    """Starts the thread, on Linux. Returns False if there is one: Spark uses processes again. To be called before other
    threads are started, which inherit the mask of signals.

    Spark's Python daemon sends its processes SIGHUP when Spark stops. The kernel sends it, too, if the daemon is killed
    while a sibling is suspended: the process group has then lost its last parent and has a stopped member (POSIX,
    _Exit). In that case, this process continues.
    """
    if sys.platform != "linux":
        return False
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    if any(thread.name == _NAME for thread in threading.enumerate()):
        return False
    threading.Thread(target=_run, name=_NAME, daemon=True).start()
    return True


def watch_worker(pid: int) -> None:
    """Ends this process, too, when its worker has ended. `pid`: 0 if that is on another machine."""
    with suppress(OSError):  # too many open files
        if pid and (start := start_time_of(pid)) is not None:
            _workers.add((pid, start))


def release_worker() -> None:
    """The worker has released this process."""
    _workers.clear()


def _run() -> None:
    while (got := signal.sigtimedwait({signal.SIGHUP}, WORKER_S)) is None or got.si_code == _FROM_KERNEL:
        with suppress(OSError):  # too many open files: looked at again
            if any(start_time_of(pid) != start for pid, start in tuple(_workers)):
                break
    os._exit(128 + signal.SIGHUP)


def _unblock_after_fork() -> None:
    """A process that a plugin forks has no thread that waits for SIGHUP."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


os.register_at_fork(after_in_child=_unblock_after_fork)
