"""A second parent for executor processes, for when Spark's Python daemon starts none.

If the daemon is killed or suspended, Spark needs many seconds until it has another one with all modules imported. A
fork server is a process that the daemon has forked earlier and that runs no splits, so it has these modules too and
costs a few MiB. While the daemon starts no process in time, the worker sends tickets to the fork server, which forks a
process for each. The server is itself a Spark job, which ends with the worker's connection. Local Sparks only.

The server also knows all other executor processes of the worker, and kills them when the worker ends: their parents,
which would do that, may have been killed.
"""

from __future__ import annotations

import logging
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from typing_extensions import override

from spark_tasks.process.process_state import start_time_of
from spark_tasks.process.reaper import Reaper
from spark_tasks.spark.daemon import refuse_threads
from spark_tasks.spark.residents.background_call import BackgroundCall
from spark_tasks.spark.residents.connections import joined, worker_at
from spark_tasks.spark.residents.executor_job import ExecutorJob
from spark_tasks.spark.residents.fork_requests import fork_for_each, fork_request, guard_request
from spark_tasks.spark.residents.listener import Line
from spark_tasks.spark.residents.process import Expects, Launcher
from spark_tasks.spark.residents.wire import Ticket

_logger = logging.getLogger(__name__)

PROCESS_S = 10.0  # how long a process that it forks may take to join
START_S = 60.0  # how long the server itself may take before another one is started
RETRY_S = 5.0
LOOK_S = 0.2  # how often Spark is asked about a server that has not joined
SEND_S = 1.0  # how long a server that is told to end may take, after which its leash ends


class ForkServerJob(ExecutorJob):
    """The fork server's Spark job."""

    @override
    def run(self, ticket: Ticket) -> None:
        """Joins the worker, and forks processes. Raises OSError."""
        refuse_threads()
        reaper = Reaper()
        with reaper.as_fork_server():  # a daemon that ends sends SIGHUP to its process group
            # The end of the worker must not kill this process, which has others to kill first. But if it is suspended,
            # it has to continue.
            with joined(ticket, signal.SIGCONT) as (work, leash), work.makefile("rb") as tickets:
                reaper.end_with_worker(worker_at(work))
                fork_for_each(tickets, reaper, leash.fileno())
            reaper.await_all()  # they may have a split to end; and Spark may use this process again


class ForkServer(Launcher):
    """The worker's side. `ask` starts a server that joins with the ticket, and may raise any error; it returns a
    function that returns why the server will never join, or None as long as it may. `lives` returns whether its Spark
    does, `number` a new process's number.
    """

    def __init__(
        self, ask: Callable[[Ticket], Callable[[], str | None]], lives: Callable[[], bool], listener: Expects,
        number: Callable[[], int], max_processes: int,
    ) -> None:
        self._ask = ask
        self._lives = lives
        self._listener = listener
        self._number = number
        self._max_processes = max_processes
        self._asking = BackgroundCall("fork-server", self._start)
        self._lock = threading.Lock()
        self._line: Line | None = None
        self._unsent = bytearray()
        self._expected: int | None = None
        self._asked_at = 0.0
        self._launched: dict[int, float] = {}
        self._closed = False

    @property
    @override
    def max_processes(self) -> int:
        """Zero while there is no server, or after its Spark has ended, which reads what its processes print."""
        return self._max_processes if self._line is not None and self._lives() else 0

    def keep(self) -> None:
        """Starts a server in the background if there is none. Called periodically. While Spark's JVM is suspended, one
        request waits for it, and its ticket stays valid; another one would only wait, too.
        """
        with self._lock:
            if self._line is not None and self._line.ended:
                self._line.close()
                self._line = None
            with suppress(OSError):  # it has just ended
                self._send(b"")
            if self._asking.busy:
                return
            since = time.monotonic() - self._asked_at
            if self._closed or self._line is not None or since < (RETRY_S if self._expected is None else START_S):
                return
            if self._expected is not None:
                self._listener.forget(self._expected)
            self._asked_at, self._expected = time.monotonic(), self._number()
            number, ticket = self._expected, self._listener.expect(self._expected)
        self._asking.begin(ticket, number)

    def _start(self, ticket: Ticket, number: int) -> None:
        """Starts a server, and waits until it has joined, or never will: Spark's daemon may be killed before."""
        try:
            failure = self._ask(ticket)
            while (why := failure()) is None and self._awaits(number):
                time.sleep(LOOK_S)
        except Exception as error:  # noqa: BLE001 - Spark's; it is tried again
            why = str(error)
        if why is not None:
            _logger.debug("The fork server did not start: %s", why)
            with self._lock:
                if self._expected == number:
                    self._expected = None
                    self._listener.forget(number)

    def _awaits(self, number: int) -> bool:
        """Whether the server with this number may still join, and there is time."""
        with self._lock:
            return (not self._closed and self._expected == number
                    and time.monotonic() - self._asked_at < START_S)

    def joined(self, number: int, line: Line) -> bool:
        """A process has joined. Returns whether it is the server."""
        with self._lock:
            if number != self._expected:
                return False
            self._expected = None
            if self._closed:
                line.close()
            else:
                line.work.setblocking(False)
                self._line, self._unsent = line, bytearray()
            return True

    def guard(self, lines: Iterable[Line]) -> None:
        """Has the server kill these processes when the worker ends. The next server has to be told again."""
        with suppress(OSError):  # they have ended; or too many files are open, or the server has ended
            found = [guard_request(pid, start) for pid in (line.pid for line in lines)
                     if pid and (start := start_time_of(pid)) is not None]
            with self._lock:
                self._send(b"".join(found))

    def _send(self, frames: bytes) -> None:
        """Never waits: what a suspended server does not receive is sent later. The caller holds the lock."""
        if self._line is None:
            return
        self._unsent += frames
        with suppress(BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            while self._unsent:
                del self._unsent[:self._line.work.send(self._unsent)]

    @override
    def launch(self, ticket: Ticket) -> None:
        with self._lock:
            if self._line is None:
                raise RuntimeError("there is no fork server")
            self._send(fork_request(ticket))
            self._launched = {n: at for n, at in self._launched.items() if time.monotonic() - at < 2 * PROCESS_S}
            self._launched[ticket.number] = time.monotonic()

    @override
    def failure(self, number: int) -> str | None:
        late = time.monotonic() - self._launched.get(number, 0.0) > PROCESS_S
        return "the fork server did not start a process; it may be suspended" if late else None

    @override
    def close(self) -> None:
        with self._lock:
            self._closed = True
            line, self._line, unsent = self._line, None, bytes(self._unsent)
            if self._expected is not None:
                self._listener.forget(self._expected)
        if line is not None:
            threading.Thread(target=_end, args=(line, unsent), name="fork-server-end", daemon=True).start()


def _end(line: Line, unsent: bytes) -> None:
    with suppress(OSError):  # it has ended, or is suspended
        line.work.settimeout(SEND_S)
        line.work.sendall(unsent)
        line.ask_to_end()
    line.close_after(SEND_S)
