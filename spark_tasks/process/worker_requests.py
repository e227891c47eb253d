"""A request to a worker's REST API, over its own connection: for other workers and for commands."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Mapping
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
    """There was no connection, so the request has not been sent."""

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
    is called only if one is needed. `connect_s` limits the time for connecting, `answer_s` each wait for bytes
    afterwards and the time for reading the response. `connected` is called with the socket; shutting it down ends the
    request. Raises ValueError if the URL is not the address of a worker, WorkerUnreachableError, and what `tls` raises.
    """
    timeout = urllib3.Timeout(connect=connect_s, read=answer_s)
    open_connections: list[socket.socket] = []

    def opened(sock: socket.socket) -> None:
        open_connections.append(sock)
        connected(sock)

    with _pool(url, tls, answer_s, opened) as pool:
        path = "/" + url.split("//", 1)[-1].partition("/")[2]
        try:
            response = pool.urlopen(method, path, body, headers, retries=False, redirect=False, timeout=timeout,
                                    preload_content=False, decode_content=False)
            try:
                content = read_bounded(response.read1, LONGEST_ANSWER, time.monotonic() + answer_s)
                return WorkerResponse(response.status, content, response.headers.get("Date"))
            finally:
                response.close()
        except TooLongError as error:
            raise ResponseTooLargeError(str(error)) from None
        except (HTTPError, OSError) as error:
            kind = WorkerUnreachableError if open_connections else NotConnectedError
            reason = error.__cause__ or error.__context__ or error  # urllib3's messages contain its own objects
            raise kind(str(reason) or type(reason).__name__) from error


def _pool(
    url: str, tls: Callable[[], ssl.SSLContext], answer_s: float, connected: Callable[[socket.socket], None]
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

    class TimedConnection(kind):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            self.sock.settimeout(answer_s)  # for sending, too
            connected(self.sock)

    pool.ConnectionCls = TimedConnection
    return pool  # type: ignore[no-any-return]
