"""The executor's side: a process that connects to its worker and runs splits until the worker ends it.

It has a second connection, the leash: when a byte arrives on it or it is closed, the kernel kills the process at once
(F_SETSIG), even if a split sleeps in C or holds the global interpreter lock (GIL). This is specific to Linux. On other
systems a thread watches the leash; it cannot run while a split holds the GIL. If a plugin has closed the leash, the
worker kills the process; if the worker has been killed itself, a thread notices that.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from spark_tasks.process.oom_score import raise_oom_score
from spark_tasks.process.process_state import start_time_of
from spark_tasks.process.readable import is_readable
from spark_tasks.process.zombies import zombies
from spark_tasks.spark.executor import pickled_outcomes, refuse_second_attempt, run_split
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.leftovers import Leftovers
from spark_tasks.spark.residents.wire import Ticket

STACK_SIGNAL = signal.SIGUSR2  # writes the stacks of all threads, even if one holds the GIL
_HANGUP = "hangup"  # the name of a thread
_FROM_KERNEL = 0x80  # SI_KERNEL, the code of a signal that no process has sent
_PEER = struct.Struct("3i")  # SO_PEERCRED: pid, uid, gid
WORKER_S = 5.0  # how often a process looks whether its worker still lives
_open: set[socket.socket] = set()
_workers: set[tuple[int, str]] = set()  # the worker of this process: its pid and start, if it is on this machine


def _let_go_after_fork() -> None:
    """A process forked by a plugin must not keep the connections open when this process is killed."""
    while _open:
        with suppress(OSError):
            os.close(_open.pop().detach())


os.register_at_fork(after_in_child=_let_go_after_fork)


def dial(ticket: Ticket, *, leash: bool) -> socket.socket:
    """A connection to the worker on which both sides have authenticated each other. Raises OSError."""
    if ticket.path:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(wire.GREETING_S)
        sock.connect(ticket.path)
    else:
        plain = socket.create_connection((ticket.host, ticket.port), wire.GREETING_S)
        wire.tune(plain)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the worker's own certificate is the only one that is trusted
        context.load_verify_locations(cadata=ticket.certificate)
        sock = context.wrap_socket(plain)
    wire.greet(sock, ticket, leash=leash)
    sock.settimeout(None)
    return sock


def serve(ticket: Ticket) -> None:
    """Joins the worker, and runs splits until it ends this process or closes the connection. Raises OSError."""
    from spark_tasks.spark.residents.set_up import SetUp  # noqa: PLC0415 - heeler's worker does not need numpy

    _survive_the_daemon()
    with _stacks(ticket) as stacks, joined(ticket) as (work, _):
        leftovers, set_up = Leftovers(), SetUp()
        while split := wire.receive(work):
            if split.startswith(wire.OTHER):
                if changes := set_up.changes(with_umask=True):
                    wire.send(work, wire.before_answer(changes))  # it is kept for the connector before
                    continue
                if not leftovers.end():
                    wire.send(work, b"")  # the worker replaces this process
                    continue
                split = split.removeprefix(wire.OTHER)
            stacks.renew()
            if ticket.slow_s:
                faulthandler.dump_traceback_later(ticket.slow_s, file=sys.stderr)
            try:
                answer = pickled_outcomes([run_split(split)], ticket.max_result_bytes)
            finally:
                if ticket.slow_s:
                    faulthandler.cancel_dump_traceback_later()
            wire.send(work, answer, before=wire.before_answer(set_up.changes()))
            zombies.reap()
        if not leftovers.end() or set_up.changes(with_umask=True):
            os._exit(0)  # otherwise Spark would use it for jobs of other plugins


@contextmanager
def joined(
    ticket: Ticket, leash_signal: signal.Signals = signal.SIGKILL
) -> Iterator[tuple[socket.socket, Leash]]:
    """The connections of a process that has joined its worker; until the end of the block, the worker can kill it, or
    send it another signal. Raises OSError.
    """
    with dial(ticket, leash=True) as connection, dial(ticket, leash=False) as work:
        _open.update((connection, work))
        try:
            leash = Leash(connection, leash_signal)
            leash.tie()
            _workers.update(_worker_and_start(connection))
            yield work, leash
            _workers.clear()
            leash.untie()
        finally:
            _open.difference_update((connection, work))


def worker_at(connection: socket.socket) -> int:
    """The worker's process id. 0 if it is on another machine, and on other systems than Linux."""
    if sys.platform != "linux" or connection.family != socket.AF_UNIX:
        return 0
    pid, _, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(pid)


def _worker_and_start(leash: socket.socket) -> Iterator[tuple[int, str]]:
    with suppress(OSError):  # too many open files
        if (pid := worker_at(leash)) and (start := start_time_of(pid)) is not None:
            yield pid, start


class _stacks:  # noqa: N801 - a context manager
    """In this block, the worker can ask for the stacks of this process (if it can send it a signal)."""

    def __init__(self, ticket: Ticket) -> None:
        self._path = Path(ticket.stacks) / str(ticket.number) if ticket.stacks else None

    def __enter__(self) -> Self:
        if self._path is not None:
            self._file = self._path.open("w")
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)  # what `unregister` restores: a late signal must not end it
            faulthandler.register(STACK_SIGNAL, self._file, all_threads=True)
        return self

    def renew(self) -> None:
        """Handles the signal again if a plugin has put its own handler or the default in place."""
        if self._path is not None:
            faulthandler.unregister(STACK_SIGNAL)
            faulthandler.register(STACK_SIGNAL, self._file, all_threads=True)

    def __exit__(self, *_error: object) -> None:
        if self._path is not None:
            faulthandler.unregister(STACK_SIGNAL)
            self._file.close()
            self._path.unlink(missing_ok=True)


def _survive_the_daemon() -> None:
    """Goes on when the process that forked this one is killed; but if memory is full, the OOM killer is to choose this
    process first.

    If a sibling is suspended at that moment, the kernel sends SIGHUP to all of them: their process group has lost its
    last parent and has a stopped member (POSIX, _Exit). When Spark stops, its daemon sends them SIGHUP too, which still
    ends this process.
    """
    if sys.platform == "linux":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # before other threads are started: they inherit it
        if not any(thread.name == _HANGUP for thread in threading.enumerate()):  # Spark uses processes again
            threading.Thread(target=_await_hangup, name=_HANGUP, daemon=True).start()
            raise_oom_score(os.getpid())


def _await_hangup() -> None:
    while (got := signal.sigtimedwait({signal.SIGHUP}, WORKER_S)) is None or got.si_code == _FROM_KERNEL:
        with suppress(OSError):  # too many open files: looked at again
            if any(start_time_of(pid) != start for pid, start in tuple(_workers)):
                break  # and the leash, which has not ended this process, was closed by a plugin
    os._exit(128 + signal.SIGHUP)


def _unblock_after_fork() -> None:
    """A process that a plugin forks has no thread that waits for SIGHUP."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


os.register_at_fork(after_in_child=_unblock_after_fork)


class Leash:
    """At its end, this process gets a signal."""

    def __init__(self, connection: socket.socket, number: signal.Signals) -> None:
        self._connection = connection
        self._signal = number

    def tie(self) -> None:
        """From now on, the signal is sent, also if the leash has ended already."""
        if sys.platform != "linux":
            threading.Thread(target=self._watch, name="leash", daemon=True).start()
            return
        fcntl.fcntl(self._connection, fcntl.F_SETOWN, os.getpid())
        self._select(self._signal)
        fcntl.fcntl(self._connection, fcntl.F_SETFL, fcntl.fcntl(self._connection, fcntl.F_GETFL) | os.O_ASYNC)
        if is_readable(self._connection):  # a byte arrived before F_SETSIG was set
            os.kill(os.getpid(), self._signal)

    def untie(self) -> None:
        """The worker has released this process: the leash may now be closed, and Spark may use the process again."""
        _open.discard(self._connection)
        if sys.platform == "linux":
            fcntl.fcntl(self._connection, fcntl.F_SETFL, fcntl.fcntl(self._connection, fcntl.F_GETFL) & ~os.O_ASYNC)

    @contextmanager
    def deadly(self) -> Iterator[bool]:
        """In this block, the end of the leash kills this process, whatever the signal is otherwise. The result is False
        if it has ended before.
        """
        former = self._signal
        self._select(signal.SIGKILL)
        try:
            yield not is_readable(self._connection)
        finally:
            self._select(former)

    def _select(self, number: signal.Signals) -> None:
        self._signal = number
        if sys.platform == "linux":
            fcntl.fcntl(self._connection, fcntl.F_SETSIG, number)

    def _watch(self) -> None:
        with suppress(OSError):
            self._connection.recv(1)
        if self._connection in _open:
            os.kill(os.getpid(), self._signal)


class ExecutorJob:
    """The function of a Spark job with one partition, whose process joins the worker with a ticket."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket

    def __call__(self, _index: int, rows: Iterable[Any]) -> Iterator[bytes]:
        """Serves the worker until it ends the process. The result is empty; so is `rows`, which must be consumed."""
        from pyspark import TaskContext  # noqa: PLC0415 - local processes do not need it

        for _ in rows:
            pass
        refuse_second_attempt(TaskContext.get())
        self.run(self._ticket)
        yield b""

    def run(self, ticket: Ticket) -> None:
        """Joins the worker, and runs splits. Raises OSError."""
        serve(ticket)
