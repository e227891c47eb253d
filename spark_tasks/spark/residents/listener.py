"""Accepts the connections of executor processes: on a Unix socket in a private folder, or with TLS if executors are on
other machines.

Each process proves on both of its connections that it has its token, which is valid once. A connection that cannot is
closed.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import shutil
import signal
import socket
import ssl
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.descendants import kill_descendants
from spark_tasks.process.peer_credentials import peer_credentials
from spark_tasks.process.rate_limited_log import RateLimitedLog
from spark_tasks.process.readable import is_readable
from spark_tasks.spark.executor import MAX_RESULT_BYTES
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.wire import Ticket

_logger = logging.getLogger(__name__)

SUN_PATH = 103  # bytes of a Unix socket's path: 107 on Linux, 103 on macOS
MAX_HANDSHAKES = 64  # handshakes at a time, beside those of the processes that are expected
BACKLOG = 1024  # connections that wait for one; a full backlog refuses others
RETRY_S = 1.0


@dataclass(slots=True)
class Line:
    """The two connections of a process. `pid`: its process id if signals can be sent to it, else 0. `handle`: a pidfd
    of it, which never stands for a later process with the same id; -1 if there is none.
    """

    work: socket.socket
    leash: socket.socket
    pid: int = 0
    handle: int = -1

    def kill(self) -> None:
        """Kills the process, whatever it is doing, and even if a plugin has closed its connections, and the processes
        that it has started. Not to be called when the line may be closed meanwhile.
        """
        if self.handle >= 0:
            kill_descendants(self.pid)
            with suppress(OSError):
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        with suppress(OSError):
            self.leash.settimeout(1.0)
            self.leash.send(b"x")

    @property
    def ended(self) -> bool:
        """Whether an idle process has ended, which closes its connection."""
        return is_readable(self.work)

    def ask_to_end(self) -> None:
        """Asks an idle process to end."""
        with suppress(OSError):
            wire.send(self.work, b"")

    def shut_down(self) -> None:
        """Wakes a thread that waits for an answer."""
        for sock in (self.work, self.leash):
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes both connections, which kills a process that has not been asked to end."""
        self.work.close()
        self.leash.close()
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def close_after(self, timeout_s: float) -> None:
        """Closes after the process has closed its end, or after the timeout."""
        with suppress(OSError):
            self.work.settimeout(timeout_s)
            self.work.recv(1)
        self.close()


@dataclass(slots=True)
class _Expected:
    token: bytes
    leash: socket.socket | None = None


class ExecutorListener:
    """`joined` is called with the number and the connections of each process that has joined. `host`: the address that
    processes on other machines (`remote`) connect to.
    """

    def __init__(
        self, joined: Callable[[int, Line], None], *, remote: bool = False, bind: str = "127.0.0.1", port: int = 0,
        slow_s: float = 0.0, max_result_bytes: int = MAX_RESULT_BYTES,
    ) -> None:
        """Raises OSError."""
        self.host = bind
        self._closed = False
        self._joined = joined
        self._slow_s = slow_s
        self._most = max_result_bytes
        self._lock = threading.Lock()
        self._expected: dict[int, _Expected] = {}
        self._withdrawn: deque[tuple[int, bytes]] = deque(maxlen=MAX_HANDSHAKES)
        self._greeted: dict[int, socket.socket] = {}  # connections whose handshake is in progress; the oldest is first
        self._numbers = itertools.count()
        self._rejections = RateLimitedLog()
        self._certificate = ""
        self._context: ssl.SSLContext | None = None
        self._remote = remote
        self.folder = Path(tempfile.mkdtemp(prefix="heeler-listener-"))  # only this user may read it
        path = str(self.folder / "s")
        self._path = path if not remote and len(os.fsencode(path)) <= SUN_PATH else ""
        if self._path:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(self._path)
            self._listener.listen(BACKLOG)
        else:
            from spark_tasks.spark.residents.certificate import own_certificate  # noqa: PLC0415 - 0.1 s to import

            self._certificate, self._context = own_certificate()
            family = socket.AF_INET6 if ":" in bind else socket.AF_INET
            self._listener = socket.create_server((bind, port), family=family, backlog=BACKLOG)
        threading.Thread(target=self._accept, name="executors-listener", daemon=True).start()

    def expect(self, number: int) -> Ticket:
        """A ticket for a new process."""
        token = secrets.token_bytes(32)
        with self._lock:
            self._expected[number] = _Expected(token)
        stacks, slow_s = ("", self._slow_s) if self._remote else (str(self.folder), 0.0)
        if self._path:
            return Ticket(number, token, self._path, stacks=stacks, slow_s=slow_s, max_result_bytes=self._most)
        port = self._listener.getsockname()[1]
        return Ticket(number, token, "", self.host, port, self._certificate, stacks, slow_s, self._most)

    def forget(self, number: int) -> None:
        """Withdraws a ticket, or removes the file with its stacks that a killed process has left."""
        with self._lock:
            expected = self._expected.pop(number, None)
            if expected is not None:
                self._withdrawn.append((number, expected.token))
        (self.folder / str(number)).unlink(missing_ok=True)
        if expected is not None and expected.leash is not None:
            expected.leash.close()

    def close(self) -> None:
        """Accepts no more processes. Open connections stay open."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes _accept
        self._listener.close()
        for number in list(self._expected):
            self.forget(number)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                if self._closed:
                    return
                self._retry(error)  # too many open files, for example
                continue
            number = next(self._numbers)
            with self._lock:
                if len(self._greeted) >= MAX_HANDSHAKES + len(self._expected):  # each has one at a time
                    oldest = self._greeted.pop(next(iter(self._greeted)))
                    with suppress(OSError):
                        socket.socket.shutdown(oldest, socket.SHUT_RDWR)  # wakes its thread
                self._greeted[number] = sock
            try:
                threading.Thread(
                    target=self._greet, args=(number, sock), name="executors-greeting", daemon=True).start()
            except RuntimeError as error:  # too many threads
                with self._lock:
                    self._greeted.pop(number, None)
                sock.close()
                self._retry(error)

    def _retry(self, error: Exception) -> None:
        """Waits until another process may connect."""
        self._rejections.log(_logger, logging.WARNING, "Executor processes cannot connect to the worker: %s. If it has "
                             "too many open files or threads, raise its limits (ulimit -n, ulimit -u)", error)
        time.sleep(RETRY_S)

    def _greet(self, number: int, sock: socket.socket) -> None:
        deadline = time.monotonic() + wire.GREETING_S
        try:
            sock.settimeout(wire.GREETING_S)
            if self._context is not None:
                wire.tune(sock)
                with self._lock:
                    tls = self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                    if number in self._greeted:
                        self._greeted[number] = tls
                sock = tls
                tls.do_handshake()
            self._admit(number, sock, deadline)
        except (OSError, struct.error) as error:
            self._rejections.log(_logger, logging.WARNING,
                                "A connection to the listener for executor processes was refused: %s",
                                error)
            sock.close()
        finally:
            with self._lock:
                self._greeted.pop(number, None)

    def _admit(self, connection: int, sock: socket.socket, deadline: float) -> None:
        greeting = wire.Greeting(sock, deadline)
        hello = greeting.receive_hello()
        with self._lock:
            expected = self._expected.get(hello.number)
            withdrawn = dict(self._withdrawn).get(hello.number)
        if expected is None and withdrawn is not None:
            greeting.check(withdrawn)
            _logger.debug("Executor process %d was no longer expected when it connected", hello.number)
            sock.close()
            return
        if expected is None or hello.leash is (expected.leash is not None):
            raise ConnectionError("no such executor process is expected")
        proof = greeting.check(expected.token)
        with self._lock:
            if self._expected.get(hello.number) is not expected or hello.leash is (expected.leash is not None):
                raise ConnectionError("the executor process is no longer expected")
            if self._greeted.pop(connection, None) is None:
                raise ConnectionError("the handshake took too long")
            if hello.leash:
                expected.leash = sock
            else:
                del self._expected[hello.number]  # its token is used up
        sock.sendall(proof)  # not earlier: after it, the process opens its second connection
        if hello.leash:
            return
        sock.settimeout(None)
        assert expected.leash is not None  # noqa: S101 - checked above
        for one in (sock, expected.leash):
            close_on_fork(one)
        pid = peer_pid(sock) if self._path else 0 if self._remote else hello.pid
        self._joined(hello.number, Line(sock, expected.leash, pid, handle_of(pid) if pid else -1))


def peer_pid(sock: socket.socket) -> int:
    """The process at the other end of a Unix socket, from the kernel; 0 on other systems than Linux.

    Raises ConnectionError if it is a process of another user.
    """
    peer = peer_credentials(sock)
    if peer is not None and peer.uid not in (os.getuid(), 0):
        raise ConnectionError(f"a process of user {peer.uid}")
    return 0 if peer is None else peer.pid


def handle_of(pid: int) -> int:
    """A pidfd of another process, which has a connection open and therefore lives; -1 if the system has none."""
    if not hasattr(os, "pidfd_open") or pid == os.getpid():
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, or a sandbox that refuses it
        return -1
