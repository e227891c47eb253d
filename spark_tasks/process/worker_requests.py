"""A request to a worker's REST API, over its own connection: for other workers and for commands."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from spark_tasks.process.bounded_read import TooLongError, read_bounded

PERMANENT_CONFLICT = "already exists"
"""The end of the message of the only conflict (409) that another attempt cannot resolve."""
LONGEST_ANSWER = 64 * 1024 * 1024  # bytes; ten thousand connectors with their statuses and configurations


class WorkerUnreachableError(ConnectionError):
    """A worker is unreachable, closes the connection, or does not respond in time; `sent`: it may nevertheless have
    carried out the request.
    """

    sent = True


class NotConnectedError(WorkerUnreachableError):
    """There was no connection, or no thread for it, so the request has not been sent."""

    sent = False


class ResponseTooLargeError(WorkerUnreachableError):
    """The response exceeds LONGEST_ANSWER."""


class WorkerResponse(NamedTuple):
    """A worker's response; `date` is its Date header."""

    status: int
    body: bytes
    date: str | None


def exchange(
    method: str, url: str, body: bytes | None, headers: Mapping[str, str], *, tls: Callable[[], ssl.SSLContext],
    connect_s: float, answer_s: float, connected: Callable[[socket.socket], None] = lambda _: None,
) -> WorkerResponse:
    """Sends a request, without following redirects or retrying, and returns its response.

    `url` includes path and query; a user and a password in it are not sent. `tls` creates the context for https, and
    is called only if one is needed. `connect_s` limits the time for connecting, `answer_s` the time from then until the
    response is complete. `connected` is called with the socket; shutting it down ends the request. Raises ValueError
    if the URL is not the address of a worker, WorkerUnreachableError, and what `tls` raises.
    """
    limit = _TimeLimit(answer_s)

    def opened(sock: socket.socket) -> None:
        limit.start(sock)
        connected(sock)

    with _pool(url, tls, opened) as pool:
        path = "/" + url.split("//", 1)[-1].partition("/")[2]
        try:
            response = pool.urlopen(method, path, body, headers, retries=False, redirect=False, preload_content=False,
                                    decode_content=False, timeout=urllib3.Timeout(connect=connect_s, read=None))
            try:
                content = read_bounded(response.read1, LONGEST_ANSWER)
            finally:
                response.close()
            limit.check()  # a response without a length ends with the connection
            return WorkerResponse(response.status, content, response.headers.get("Date"))
        except TooLongError as error:
            raise ResponseTooLargeError(str(error)) from None
        except (HTTPError, OSError) as error:
            limit.check()
            kind = WorkerUnreachableError if limit.started else NotConnectedError
            reason = error.__cause__ or error.__context__ or error  # urllib3's messages contain its own objects
            raise kind(str(reason) or type(reason).__name__) from error
        finally:
            limit.cancel()


class _TimeLimit:
    """Shuts a connection down after some seconds, which ends each wait for it. (A socket's timeout is that of a single
    wait: a server that sends a byte, or `100 Continue`, now and then is never over it.)
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._sock: socket.socket | None = None
        self._exceeded = False
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    @property
    def started(self) -> bool:
        """Whether there was a connection that could be used."""
        return self._sock is not None

    def start(self, sock: socket.socket) -> None:
        """Begins when the connection is open. Raises OSError if the system has no thread left."""
        self._sock = sock
        try:
            self._timer.start()
        except RuntimeError as error:
            self._sock = None  # nothing has been sent
            raise OSError(errno.EAGAIN, str(error)) from error

    def _end(self) -> None:
        assert self._sock is not None  # noqa: S101 - `start` set it
        self._exceeded = True
        with suppress(OSError):  # it has just been closed
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)  # not TLS's shutdown, which sends close_notify

    def check(self) -> None:
        """Raises WorkerUnreachableError after the limit."""
        if self._exceeded:
            raise WorkerUnreachableError(f"timed out: no complete response within {self._seconds:g} s")

    def cancel(self) -> None:
        """Lifts the limit."""
        self._timer.cancel()


def _pool(
    url: str, tls: Callable[[], ssl.SSLContext], connected: Callable[[socket.socket], None]
) -> urllib3.HTTPConnectionPool:
    parts = urllib3.util.parse_url(url)
    if not parts.host or parts.scheme not in {"http", "https"}:
        raise ValueError(f"{url!r} is not the address of a worker")
    pool: Any
    if parts.scheme == "https":
        context = tls()
        # If the context does not check host names, urllib3 would.
        pool = urllib3.HTTPSConnectionPool(parts.host, parts.port, ssl_context=context,
                                           assert_hostname=None if context.check_hostname else False)
        kind: Any = HTTPSConnection
    else:
        pool, kind = urllib3.HTTPConnectionPool(parts.host, parts.port), HTTPConnection

    class WorkerConnection(kind):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            self.sock.settimeout(None)  # the limit was that of connecting
            connected(self.sock)

    pool.ConnectionCls = WorkerConnection
    return pool  # type: ignore[no-any-return]
