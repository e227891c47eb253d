"""cheroot, tuned: a pool that grows with what waits, TLS handshakes off the accepting thread, errors as JSON.

All that reaches into cheroot's insides is here.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import ssl
import threading
from typing import Any

from cheroot import errors, wsgi
from cheroot.makefile import StreamReader, StreamWriter
from cheroot.server import HTTPConnection, HTTPRequest
from cheroot.ssl import Adapter
from cheroot.workers.threadpool import ThreadPool

from rest.errors import error_body

log = logging.getLogger(__name__)

MIN_THREADS = 4
MAX_THREADS = 200
IDLE_TIMEOUT_S = 30  # of a kept-alive connection, and of each wait for a request's bytes; as Kafka Connect's server


class GrowingPool(ThreadPool):
    """Starts a thread whenever a connection would have to wait for one: a request may wait 90 s for the herder."""

    _threads: list[threading.Thread]
    _queue: queue.Queue[Any]

    def __init__(self, server: Any) -> None:
        super().__init__(server, min=MIN_THREADS, max=MAX_THREADS)
        self._lock = threading.Lock()
        self._free = 0  # threads that wait for a connection, minus connections that wait for a thread
        self.get = self._take

    def put(self, obj: Any) -> None:
        """A connection has a request."""
        super().put(obj)
        with self._lock:
            self._free -= 1
            if self._free < 0 and len(self._threads) < self.max:
                self._threads.append(self._spawn_worker())

    def grow(self, amount: int) -> None:
        """Start threads without waiting until they run."""
        self._threads.extend(self._spawn_worker() for _ in range(min(amount, self.max - len(self._threads))))

    def _take(self) -> Any:
        with self._lock:
            self._free += 1
        return self._queue.get()

    def _spawn_worker(self) -> threading.Thread:
        thread: threading.Thread = super()._spawn_worker()  # type: ignore[misc]
        return thread


class _Request(HTTPRequest):
    """Its own errors (a request line that is none, a body that is too long) have the body that all errors have."""

    def simple_response(self, status: Any, msg: str = "") -> None:
        code = int(str(status)[:3])
        body = error_body(code, msg or str(status))
        self.close_connection = True
        head = (f"{self.server.protocol} {status}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n")
        try:
            self.conn.wfile.write(head.encode("latin-1") + body)
        except OSError as error:
            if error.args[0] not in errors.socket_errors_to_ignore:
                raise


class _Connection(HTTPConnection):
    """Does the TLS handshake in a pool thread: a silent client must not keep others from being accepted."""

    RequestHandlerClass = _Request
    _greeted = False

    def communicate(self) -> bool:
        if not self._greeted and isinstance(self.socket, ssl.SSLSocket):
            try:
                self.socket.do_handshake()
            except OSError as error:
                log.info("TLS handshake with %s failed: %s", self.remote_addr, error)
                return False
        self._greeted = True
        keep_open: bool = super().communicate()  # type: ignore[no-untyped-call]
        return keep_open


class TlsAdapter(Adapter):
    """Wraps accepted sockets with a context."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__("", "")
        self.context = context

    def bind(self, sock: socket.socket) -> socket.socket:
        """The listening socket stays as it is."""
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        """An accepted socket, before its handshake."""
        return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), self.get_environ()

    def get_environ(self) -> dict[str, str]:
        """What the application sees of TLS."""
        return {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def makefile(self, sock: ssl.SSLSocket, mode: str = "r", bufsize: int = -1) -> Any:
        """The connection's reader or writer."""
        return (StreamReader if "r" in mode else StreamWriter)(sock, mode, bufsize)


class HttpServer(wsgi.Server):
    """One listener."""

    ConnectionClass = _Connection
    _connections: Any
    timeout = IDLE_TIMEOUT_S

    def __init__(self, address: tuple[str, int], app: Any) -> None:
        super().__init__(address, app, server_name="heeler", timeout=IDLE_TIMEOUT_S)
        self.requests = GrowingPool(self)

    def stop(self) -> None:
        """Stop now: cheroot would notice up to half a second later."""
        if self.ready and self.socket is not None:
            self._connections._stop_requested = True  # noqa: SLF001
            with contextlib.suppress(OSError):  # whatever is wrong with the listening socket, it wakes or is closed
                socket.create_connection(self.socket.getsockname()[:2], 1).close()
        super().stop()

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """To the logger of this module."""
        log.log(level, msg, exc_info=traceback)
