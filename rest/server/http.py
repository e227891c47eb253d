"""The HTTP server, on cheroot: with a thread pool that grows on demand, TLS handshakes outside the accepting thread,
and limits for slow and idle clients.

Cheroot's internals are used here and, for parsing, in request.py.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import queue
import resource
import socket
import ssl
import sys
import threading
import time
from typing import Any

from cheroot import wsgi
from cheroot.connections import ConnectionManager
from cheroot.makefile import StreamReader, StreamWriter
from cheroot.server import HTTPConnection
from cheroot.ssl import Adapter
from cheroot.workers.threadpool import ThreadPool
from typing_extensions import override

from rest.server.request import MAX_HEAD_BYTES, StrictRequest
from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.rate_limited_log import RateLimitedLog

_logger = logging.getLogger(__name__)

MIN_THREADS = 4
MAX_THREADS = 200
IDLE_TIMEOUT_S = 30  # of a kept-alive connection, and of each wait for a request's bytes; as in Kafka Connect
BODY_TIMEOUT_S = 90  # for a whole body; for a head, IDLE_TIMEOUT_S
SLOW_S = 2.0  # how long a thread waits for the bytes of one client while other clients wait for a thread
DRAIN_S = 2.0
_DRAIN_STEP_S = 0.1
SILENT_S = 5.0  # how long a connection may be idle while others wait to be accepted
BACKLOG = 4096  # connections that wait to be accepted; net.core.somaxconn may allow fewer
MAX_CONNECTIONS = 4096
_CLOSED_AT_ONCE = 32
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class GrowingPool(ThreadPool):
    """Starts a thread when a connection would have to wait for one, as a request may wait 90 s for the herder."""

    _threads: list[threading.Thread]
    _queue: queue.Queue[Any]

    def __init__(self, server: Any) -> None:
        super().__init__(server, min=MIN_THREADS, max=MAX_THREADS)
        self._lock = threading.Lock()
        self._free = 0  # threads that wait for a connection, minus connections that wait for a thread
        self.get = self._take

    @override
    def put(self, obj: Any) -> None:
        """Queues a connection that has a request."""
        super().put(obj)
        with self._lock:
            self._free -= 1
            if self._free < 0 and len(self._threads) < self.max:
                self._threads.append(self._spawn_worker())

    @property
    def waiting(self) -> int:
        """The number of connections that have a request but no thread."""
        return max(0, -self._free) if len(self._threads) >= self.max else 0

    @override
    def grow(self, amount: int) -> None:
        """Starts threads without waiting until they run."""
        self._threads.extend(self._spawn_worker() for _ in range(min(amount, self.max - len(self._threads))))

    def _take(self) -> Any:
        with self._lock:
            self._free += 1
        return self._queue.get()

    def _spawn_worker(self) -> threading.Thread:
        thread: threading.Thread = super()._spawn_worker()  # type: ignore[misc]
        return thread


class _Incoming(socket.SocketIO):
    """The incoming bytes of a connection, with a deadline."""

    _sock: socket.socket
    deadline = math.inf  # time.monotonic()

    def cancel(self) -> None:
        """Wakes a thread that waits for bytes, which then times out."""
        self.deadline = -math.inf
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RD)  # an SSLSocket's own method would drop encryption

    @override
    def readinto(self, buffer: Any) -> int | None:
        """Raises TimeoutError if no bytes arrive for IDLE_TIMEOUT_S, or at the deadline."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")  # cheroot recognizes it by this text
        self._sock.settimeout(min(left, IDLE_TIMEOUT_S))
        count = super().readinto(buffer)
        if not count and self.deadline == -math.inf:
            raise TimeoutError("timed out")
        return count


class _Reader(StreamReader):
    """A connection's reader."""

    def __init__(self, sock: socket.socket) -> None:
        self.incoming = _Incoming(sock, "rb")
        super(StreamReader, self).__init__(self.incoming)  # StreamReader would use a plain SocketIO
        self.bytes_read = 0
        self._socket = sock

    @override
    def has_data(self) -> bool:
        """Whether a part of the next request is already buffered, which the selector does not see."""
        waiting: bool = super().has_data()  # type: ignore[no-untyped-call]
        return waiting or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0)


class _Writer(StreamWriter):
    """A connection's writer; `since`: when a write in progress began, as time.monotonic()."""

    since = math.inf

    @override
    def write(self, b: Any) -> Any:
        """Writes bytes of a response; blocks while the client does not read."""
        self.since = time.monotonic()
        try:
            return super().write(b)  # type: ignore[no-untyped-call]
        finally:
            self.since = math.inf


def _make_file(sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:  # noqa: ARG001 - cheroot's interface
    return _Reader(sock) if "r" in mode else _Writer(sock, mode)


class _Connection(HTTPConnection):
    """Does the TLS handshake in a thread of the pool, so that a silent client does not block accepting others."""

    RequestHandlerClass = StrictRequest
    rfile: _Reader
    wfile: _Writer
    reading_since = math.inf  # time.monotonic()
    refused = False  # the server responded before it had read everything, and closes the connection
    answered = False  # idle after a response
    handshake_done = False

    def __init__(self, server: HttpServer, sock: socket.socket, _makefile: Any = None) -> None:
        super().__init__(server, sock, _make_file)
        close_on_fork(sock)
        server.open.add(self)

    @override
    def communicate(self) -> bool:
        """Handles one request; returns whether the connection is kept."""
        self.answered = False
        self.reading_since = time.monotonic()
        if not self.handshake_done and isinstance(self.socket, ssl.SSLSocket):
            try:
                self.socket.do_handshake()
            except OSError as error:
                self.server.limited_log.log(
                    _logger, logging.INFO, "TLS handshake with %s failed: %s", self.remote_addr, error)
                return False
        self.handshake_done = True
        self.rfile.incoming.deadline = time.monotonic() + IDLE_TIMEOUT_S
        try:
            self.answered = super().communicate()  # type: ignore[no-untyped-call]
        finally:
            self.reading_since = math.inf
        return self.answered

    @property
    def slow_since(self) -> float:
        """Since when a thread has been waiting for this client, as time.monotonic(); infinity if none does."""
        return min(self.reading_since, self.wfile.since)

    def disconnect(self) -> None:
        """Ends a wait for this client, so that its thread gives up."""
        if self.wfile.since < math.inf:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        elif self.reading_since < math.inf:
            self.rfile.incoming.cancel()

    def body_follows(self) -> None:
        """The head has been read: sets the deadline for the body."""
        self.rfile.incoming.deadline = time.monotonic() + BODY_TIMEOUT_S

    def request_read(self) -> None:
        """The request has been read completely; the response follows."""
        self.reading_since = math.inf
        self.socket.settimeout(IDLE_TIMEOUT_S)

    @override
    def close(self) -> None:
        """Closes the connection; after a refusal, first reads what the client still sends: a reset could overtake the
        response. If other clients wait for a thread, reads only what has arrived.
        """
        self.server.open.discard(self)
        if self.refused:
            with contextlib.suppress(OSError):
                self._drain()
        super().close()

    def _drain(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)
        end = time.monotonic() + DRAIN_S
        while time.monotonic() < end:
            others_wait = self.server.requests.waiting > 0
            self.socket.settimeout(0 if others_wait else _DRAIN_STEP_S)
            with contextlib.suppress(TimeoutError):
                if not self.socket.recv(65536) or others_wait:
                    return


class _Connections(ConnectionManager):
    """Accepts a limited number of connections."""

    _selector: Any
    _stop_requested: bool
    _warned = -math.inf

    @override
    def put(self, conn: _Connection) -> None:
        """Takes back an idle connection from its thread, or closes it if the server stops: the selector may be closed
        just after cheroot has checked that the server still runs.
        """
        if not self._stop_requested:
            try:
                super().put(conn)
            except ValueError:
                if not self._stop_requested:
                    raise
            else:
                return
        conn.close()

    def _from_server_socket(self, server_socket: socket.socket) -> _Connection | None:
        if len(self.server.open) < self.server.max_connections:
            try:
                accepted: _Connection | None = super()._from_server_socket(server_socket)  # type: ignore[misc]
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
            else:
                return accepted
        self._make_room()
        return None

    def _expire(self, threshold: float) -> None:
        """Called twice a second. If all threads wait for slow clients, disconnects the slowest ones."""
        super()._expire(threshold)  # type: ignore[misc]
        if waiting := self.server.requests.waiting:
            late = time.monotonic() - SLOW_S
            slow = sorted((connection.slow_since, id(connection), connection)
                          for connection in list(self.server.open) if connection.slow_since < late)
            for _, _, connection in slow[:waiting]:
                connection.disconnect()
            if slow:
                self._warn("All %d threads of the REST server are waiting for slow clients: disconnecting some of them",
                           MAX_THREADS)

    def _warn(self, *what: Any) -> None:
        if time.monotonic() - self._warned > IDLE_TIMEOUT_S:
            self._warned = time.monotonic()
            _logger.warning(*what)

    def _make_room(self) -> None:
        """Closes some connections that are idle after a response, or have sent nothing for some time.

        They are not removed from the selector, whose events are being iterated over: it reports their end.
        """
        self._warn("The REST server has %d open connections, or the process has no free file descriptor: new "
                   "connections have to wait. If that is too few, raise the limit of open files (ulimit -n)",
                   len(self.server.open))
        silent_since = time.time() - SILENT_S
        idle = [one for _, one in self._selector.connections
                if one is not self.server and (one.answered or one.last_used < silent_since)]
        for connection in sorted(idle, key=lambda one: one.last_used)[:_CLOSED_AT_ONCE]:
            with contextlib.suppress(OSError):  # the client has disconnected already
                connection.socket.shutdown(socket.SHUT_RDWR)
        if not idle:
            time.sleep(0.05)  # the selector would call again at once


class TlsAdapter(Adapter):
    """Wraps accepted sockets with a TLS context."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__("", "")
        self.context = context

    @override
    def bind(self, sock: socket.socket) -> socket.socket:
        """The listening socket, unchanged."""
        return sock

    @override
    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        """An accepted socket with TLS, before its handshake."""
        return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), self.get_environ()

    @override
    def get_environ(self) -> dict[str, str]:
        """The entries about TLS in the WSGI environment."""
        return {"wsgi.url_scheme": "https", "HTTPS": "on"}

    @override
    def makefile(self, sock: ssl.SSLSocket, mode: str = "r", bufsize: int = -1) -> Any:
        """The connection's reader or writer."""
        return _make_file(sock, mode, bufsize)


class HttpServer(wsgi.Server):
    """One listener."""

    ConnectionClass = _Connection
    _connections: Any
    timeout = IDLE_TIMEOUT_S
    max_request_header_size = MAX_HEAD_BYTES
    keep_alive_conn_limit: int | None = None  # type: ignore[assignment]  # max_connections bounds them all

    def __init__(self, address: tuple[str, int], app: Any, max_body_bytes: int, max_connections: int) -> None:
        super().__init__(address, app, server_name="heeler", timeout=IDLE_TIMEOUT_S, request_queue_size=BACKLOG)
        self.requests = GrowingPool(self)
        self.max_request_body_size = max_body_bytes
        self.max_connections = max_connections
        self.open: set[_Connection] = set()
        self.limited_log = RateLimitedLog()

    @override
    def prepare(self) -> None:
        """Binds and listens."""
        super().prepare()
        self._connections.close()
        self._connections = _Connections(self)

    @override
    def process_conn(self, conn: _Connection) -> None:
        """Has a new connection wait for its first bytes without a thread, like others for their next request."""
        if conn.last_used is None:
            self._connections.put(conn)
        else:
            super().process_conn(conn)

    @override
    def stop(self) -> None:
        """Stops at once; cheroot would take up to half a second to notice."""
        if self.ready and self.socket is not None:
            self._connections._stop_requested = True  # noqa: SLF001
            with contextlib.suppress(OSError):  # whatever the error, the listening socket wakes or is closed
                socket.create_connection(self.socket.getsockname()[:2], 1).close()
        super().stop()

    @override
    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Logs to this module's logger; errors of a client's connection without a traceback, as they are not
        defects.
        """
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self.limited_log.log(_logger, level, "A connection to the REST server failed: %s", error)
        else:
            _logger.log(level, msg, exc_info=traceback)


def connection_limit(listeners: int) -> int:
    """The maximum number of connections for each of `listeners` listeners: half of the process's file descriptors are
    left to Kafka, Spark and plugins.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(MAX_CONNECTIONS, files // 2 // listeners))
