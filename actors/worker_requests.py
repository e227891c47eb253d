"""A request to another worker's REST API, over a connection of its own."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

LONGEST_ANSWER = 64 * 1024 * 1024  # bytes; ten thousand connectors with their statuses and configurations
_CHUNK = 65_536


class WorkerUnreachableError(ConnectionError):
    """Another worker cannot be reached, breaks off, stays silent for too long, or answers with too much."""


def exchange(
    method: str, url: str, body: bytes | None, headers: Mapping[str, str], *, tls: Callable[[], ssl.SSLContext],
    connect_s: float, answer_s: float, connected: Callable[[socket.socket], None] = lambda _: None,
) -> tuple[int, bytes]:
    """Status and body of the answer; redirections are not followed, nothing is repeated.

    `url`: with the path and query to ask for. `tls` makes the context for https; it is not called before one is needed.
    `connect_s` bounds the connecting, `answer_s` each wait for bytes after it. `connected` is told the socket: who
    shuts it down ends the request. Raises ValueError where the URL is not the address of a worker,
    WorkerUnreachableError, and what `tls` raises.
    """
    timeout = urllib3.Timeout(connect=connect_s, read=answer_s)
    with _pool(url, tls, answer_s, connected) as pool:
        path = "/" + url.split("//", 1)[-1].partition("/")[2]
        try:
            response = pool.urlopen(method, path, body, headers, retries=False, redirect=False, timeout=timeout,
                                    preload_content=False, decode_content=False)
            try:
                return response.status, _read(response)
            finally:
                response.close()
        except (HTTPError, OSError) as error:
            reason = error.__cause__ or error.__context__ or error  # urllib3 names its own objects
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
        # Where the context does not compare names, urllib3 would.
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


def _read(response: urllib3.BaseHTTPResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > LONGEST_ANSWER:
            raise WorkerUnreachableError(f"the answer has more than {LONGEST_ANSWER // 2**20} MiB")
    return b"".join(parts)
