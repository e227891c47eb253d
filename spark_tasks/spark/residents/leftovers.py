"""Detects threads, timers and processes that a plugin has left behind, and that would affect others.

A process runs splits of one connector after another. Before the first split of another connector, timers are cancelled
and processes killed. A thread that is still busy cannot be stopped, so the worker replaces the process; the same goes
for one whose own processes were killed, as modules may still refer to them, and for one with many more threads than at
its start, even if all sleep: they occupy memory, and the system has a limit of them. Libraries that keep pools (Arrow,
numba, OpenMP, a client of a database) have a few for each CPU. What plugins have set up is the subject of set_up.py.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from spark_tasks.process.descendants import kill_descendants
from spark_tasks.process.process_state import count_threads

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_KAFKA = "kafka-io-"  # the names of threads of Kafka's clients, which heeler keeps
_MUCH_S = 0.1  # CPU time of other threads since the last time, after which they are looked at
MANY = 50 + 8 * (os.cpu_count() or 1)  # threads more than at the start, of which pools of four libraries are half
_LOOK_S = 0.002  # how long threads are watched
_BUSY = 0.25  # the share of a CPU above which a thread still works


class Leftovers:
    """Detects busy threads and timers in this process. To be created before the first split, in the main thread."""

    def __init__(self) -> None:
        self._seen = set(threading.enumerate())  # the first ones, and those that were idle later
        self._used = _cpu_of_others()
        self._count = _count()

    def end(self) -> bool:
        """Stops timers and processes. Returns False if this process has to be ended: it has started others, or a timer,
        a busy thread or many threads are left.
        """
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        had_processes = kill_descendants(os.getpid())
        return not had_processes and _count() - self._count <= MANY and not self._still_runs()

    def _still_runs(self) -> bool:
        """Whether a timer waits in a thread, or a thread uses the CPU. Only new threads, and those of a process whose
        threads have used much of the CPU, are watched, as that takes time.
        """
        new = [t for t in threading.enumerate() if t not in self._seen and not t.name.startswith(_KAFKA)]
        if any(isinstance(thread, threading.Timer) for thread in new):
            return True
        used = _cpu_of_others()
        if not new and used - self._used < _MUCH_S:
            return False
        self._seen.update(new)
        self._used = used
        return _is_busy()


def _count() -> int:
    """The threads of this process, those of C code included (on Linux), without those that heeler keeps."""
    kept = sum(thread.name.startswith(_KAFKA) for thread in threading.enumerate())
    return (count_threads() or threading.active_count()) - kept


def _cpu_of_others() -> float:
    """The CPU seconds of all threads but this one."""
    return time.process_time() - time.thread_time()


def _is_busy() -> bool:
    """Whether a thread that is neither this one nor of a Kafka client uses the CPU now, or waits for it. False on other
    systems.
    """
    if sys.platform != "linux":
        return False
    ours = {t.native_id for t in threading.enumerate() if t.name.startswith(_KAFKA)} | {threading.get_native_id()}
    before = {tid: ns for tid, ns, _ in _threads()}
    time.sleep(_LOOK_S)
    return any(is_ready or ns - before.get(tid, 0) > _BUSY * _LOOK_S * 1e9
               for tid, ns, is_ready in _threads() if tid not in ours)


def _threads() -> Iterator[tuple[int, int, bool]]:
    """The threads of this process: their ids, their CPU time, and whether they run or wait for a CPU now."""
    for thread in Path("/proc/self/task").iterdir():
        try:
            ns = int((thread / "schedstat").read_text().split()[0])
            state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # it has just ended
            continue
        yield int(thread.name), ns, state == "R"
