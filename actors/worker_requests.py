"""A request to another worker's REST API, over its own connection."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from spark_tasks.process.bounded_read import TooLongError, read_bounded

LONGEST_ANSWER = 64 * 1024 * 1024  # bytes; ten thousand connectors with their statuses and configurations


class WorkerUnreachableError(ConnectionError):
    """Another worker is unreachable, closes the connection, does not respond in time, or its response is too large."""


def exchange(
    method: str, url: str, body: bytes | None, headers: Mapping[str, str], *, tls: Callable[[], ssl.SSLContext],
    connect_s: float, answer_s: float, connected: Callable[[socket.socket], None] = lambda _: None,
) -> tuple[int, bytes]:
    """Send a request; returns the status and the body of the response, without following redirects or retrying.

    `url` includes path and query. `tls` creates the context for https, and is called only if one is needed. `connect_s`
    limits the time for connecting, `answer_s` each wait for bytes afterwards. `connected` is called with the socket;
    shutting it down ends the request. Raises ValueError if the URL is not the address of a worker,
    WorkerUnreachableError, and what `tls` raises.
    """
    timeout = urllib3.Timeout(connect=connect_s, read=answer_s)
    with _pool(url, tls, answer_s, connected) as pool:
        path = "/" + url.split("//", 1)[-1].partition("/")[2]
        try:
            response = pool.urlopen(method, path, body, headers, retries=False, redirect=False, timeout=timeout,
                                    preload_content=False, decode_content=False)
            try:
                return response.status, read_bounded(response.read1, LONGEST_ANSWER)
            finally:
                response.close()
        except TooLongError as error:
            raise WorkerUnreachableError(str(error)) from None
        except (HTTPError, OSError) as error:
            reason = error.__cause__ or error.__context__ or error  # urllib3's messages contain its own objects
            raise WorkerUnreachableError(str(reason) or type(reason).__name__) from error


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
