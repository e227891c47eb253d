"""The parent of executor processes: forks them, and kills the processes that each of them leaves behind when it ends.

A plugin may start processes, in sessions of their own or as daemons. Its executor process may end without a chance to
end them: by a crash, os._exit, the OOM killer or kill -9. So every process that is forked here adopts the orphans among
its descendants (PR_SET_CHILD_SUBREAPER), and this process does, too. When an executor process ends, its descendants
become children of this process, and not before: so each child that was not forked here is to be killed. ADR 0053.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from spark_tasks.process.deputy import fork_deputy
from spark_tasks.process.descendants import children, kill_descendants
from spark_tasks.process.process_state import group_and_session, process_name, start_time_of
from spark_tasks.process.readable import is_readable

_PR_SET_NAME: Final = 15  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER: Final = 36
_prctl: Final = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
KEPT_S: Final = 2.0  # how long the worker may read how a process has ended: until then it is a zombie
_FORK_SERVER: Final = "heeler-forks"  # the name of a fork server, which it keeps as a zombie; at most 15 bytes
_STEP_S: Final = 0.02


class Reaper:
    """A parent process without threads. It has to wait for its input with `poll`, an object as select.poll makes them,
    and to fork with `fork`. On other systems than Linux, that is all it does.
    """

    def __init__(self) -> None:
        self._poll = select.poll()
        self._forked: set[int] = set()
        self._ended: dict[int, float] = {}  # those that were forked, have ended, and can still be read; and since when
        self._handles: dict[int, int] = {}  # pidfds, by process
        self._guarded: dict[int, int] = {}  # processes that were forked elsewhere, by pidfds
        self._worker = -1
        self._name = ""  # of this process before it became a fork server
        self._killing = False
        self._adopts = hasattr(os, "pidfd_open") and _adopt_orphans()
        self.handle_sigchld()

    def handle_sigchld(self) -> None:
        """Has the system keep processes that have ended, if this one looks after them."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL if self._adopts else signal.SIG_IGN)

    def end_with_worker(self, pid: int) -> None:
        """Kills all processes when this one, the worker, ends."""
        if self._adopts:
            with suppress(OSError):  # it has ended: so has this process's input
                self._worker = os.pidfd_open(pid)
                self._poll.register(self._worker, select.POLLIN)

    def guard(self, pid: int, start: str) -> None:
        """Kills this process, too, when the worker ends: the parent that has forked it may have been killed. `start`:
        as start_time_of returns it.
        """
        if self._worker < 0 or pid in self._guarded.values() or pid in self._forked:
            return
        with suppress(OSError):  # it has ended, or there are too many open files
            handle = os.pidfd_open(pid)
            if start_time_of(pid) == start:
                self._guarded[handle] = pid
                self._poll.register(handle, select.POLLIN)
                if self._killing:  # that one has ended before this process was told of this one
                    _kill_with_descendants(pid, handle)
            else:
                os.close(handle)

    @contextmanager
    def as_fork_server(self) -> Iterator[None]:
        """In this block, this process is a fork server: it has a session of its own and forks executor processes, which
        become process groups. It does not end with its parent's, and if it is killed, its parent lets them go on.
        """
        if os.getsid(0) != os.getpid():
            os.setsid()
        self._name = process_name(os.getpid())
        _rename(_FORK_SERVER)
        try:
            yield
        finally:
            _rename(self._name)
            self._name = ""
            self.leave_guarded()

    def fork(self) -> int:
        """As os.fork."""
        pid = os.fork()
        if pid:
            if not self._adopts:
                self._forked = {one for one in self._forked if not self._has_ended(one)}
            self._forked.add(pid)
            self._watch(pid)
        else:
            self._let_go()
        return pid

    def _let_go(self) -> None:
        for handle in (*self._handles.values(), *self._guarded, self._worker):
            with suppress(OSError):
                os.close(handle)
        self._forked, self._ended, self._handles, self._guarded = set(), {}, {}, {}
        self._worker, self._killing = -1, False
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._restore_name()
        if self._adopts:
            _adopt_orphans()

    def register(self, file: int, events: int) -> None:
        """As select.poll's."""
        self._poll.register(file, events)

    def unregister(self, file: int) -> None:
        """As select.poll's."""
        self._poll.unregister(file)

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        """As select.poll's, but it may return earlier with nothing."""
        if not self._adopts:
            return self._poll.poll(timeout_ms)
        if self._ended or self._forked - self._handles.keys():  # something is due, or not watched
            timeout_ms = min(KEPT_S * 1000, KEPT_S * 1000 if timeout_ms is None else timeout_ms)
        ready = self._poll.poll(timeout_ms)
        if any(file == self._worker for file, _ in ready):
            self.kill()
            self._poll.unregister(self._worker)
        own = {self._worker, *self._handles.values(), *self._guarded}
        for handle in [file for file, _ in ready if file in self._guarded]:  # these have ended
            self._leave(handle)
        self._look()
        return [(file, event) for file, event in ready if file not in own]

    def await_all(self, within_s: float | None = None) -> bool:
        """Waits for the end of all processes but fork servers, of all that they leave behind, and of those that it has
        to `guard`. Returns False if it takes longer.
        """
        deadline = None if within_s is None else time.monotonic() + within_s
        # In this order: the last one may end meanwhile.
        while self._running() or self._guarded or (self._adopts and self._look()):
            left = None if deadline is None else 1000 * (deadline - time.monotonic())
            if left is not None and left <= 0:
                return False
            if self._adopts:
                self.poll(left)
            else:
                time.sleep(_STEP_S)
        return True

    def kill(self) -> None:
        """Kills all processes but fork servers, and from now on also those of a fork server that has ended."""
        self._killing = True
        for pid in self._running():
            with suppress(PermissionError, ProcessLookupError):  # another user's; or the system has waited for it
                os.kill(pid, signal.SIGKILL)
        self._kill_guarded()

    def _kill_guarded(self) -> None:
        for handle, pid in self._guarded.items():
            _kill_with_descendants(pid, handle)

    @contextmanager
    def deputized(self, leash: int = -1) -> Iterator[None]:
        """In this block, this process may hang: another one kills all processes, and this one, when the worker ends. It
        kills this one when the connection with the descriptor `leash` ends. There is no such process while the system
        has too many open files or processes.
        """
        with ExitStack() as files:
            if self._worker >= 0:
                with suppress(OSError):
                    deputy = fork_deputy(files, self._worker, leash, self._restore_name, self._kill_guarded)
                    self._forked.add(deputy)
                    self._watch(deputy)
            yield

    def _restore_name(self) -> None:
        if self._name:
            _rename(self._name)

    def leave_guarded(self) -> None:
        """Another process guards those."""
        for handle in tuple(self._guarded):
            self._leave(handle)

    def _leave(self, handle: int) -> None:
        del self._guarded[handle]
        self._poll.unregister(handle)
        os.close(handle)

    def _running(self) -> list[int]:
        return [pid for pid in self._forked if not self._has_ended(pid) and process_name(pid) != _FORK_SERVER]

    def _has_ended(self, pid: int) -> bool:
        try:
            if not self._adopts:  # it need not be kept for anybody; and not every system has waitid
                return os.waitpid(pid, os.WNOHANG)[0] == pid
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _look(self) -> bool:
        """Kills what processes have left behind. Returns whether some of that has not ended yet."""
        now, found = time.monotonic(), tuple(children(os.getpid()))  # before the others: those may end meanwhile
        for pid in [pid for pid in self._forked if self._has_ended(pid)]:
            self._forked.discard(pid)
            self._ended[pid] = now
            self._forget(pid)
            if process_name(pid) == _FORK_SERVER and not self._killing:
                self._succeed(pid)
        for pid in [pid for pid, at in self._ended.items() if now - at > KEPT_S]:
            _reap(pid)
            del self._ended[pid]
        orphans = [pid for pid in found if pid not in self._forked | self._ended.keys()]
        return any([self._goes_on(pid) for pid in orphans])  # noqa: C419 - for each of them

    def _succeed(self, server: int) -> None:
        """Takes over the executor processes of a fork server that has ended: all of them have arrived here with its
        end. What arrives later is what they leave behind.
        """
        for pid in children(os.getpid()):
            if pid != server and group_and_session(pid) == (pid, server):
                self._forked.add(pid)
                self._watch(pid)

    def _goes_on(self, pid: int) -> bool:
        """Kills a process that was not forked here. Returns whether it has not ended yet."""
        if self._has_ended(pid):
            self._forget(pid)
            _reap(pid)
            return False
        try:
            os.kill(pid, signal.SIGKILL)
        except PermissionError:  # it has become another user's
            return False
        self._watch(pid)
        return True

    def _watch(self, pid: int) -> None:
        """Has `poll` return when the process ends."""
        if self._adopts and pid not in self._handles:
            with suppress(OSError):  # too many open files: it is noticed later
                handle = self._handles[pid] = os.pidfd_open(pid)
                self._poll.register(handle, select.POLLIN)

    def _forget(self, pid: int) -> None:
        handle = self._handles.pop(pid, None)
        if handle is not None:
            self._poll.unregister(handle)
            os.close(handle)


def _adopt_orphans() -> bool:
    """From now on, orphans among the descendants of this process become its children. Returns whether that is so."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def _kill_with_descendants(pid: int, handle: int) -> None:
    if not is_readable(handle):  # it has not ended
        kill_descendants(pid)
        with suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)


def _rename(name: str) -> None:
    if _prctl is not None:
        _prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
