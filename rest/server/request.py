"""Strict parsing of HTTP requests by RFC 9112, which prevents request smuggling.

cheroot is lenient (a chunk of `0x2` bytes, a Content-Length of `+2`, the last one of two Content-Lengths). If a proxy
in front of the worker read such a request differently, the body of one client's request could be taken for another
request. So the head is checked against the grammar, and the body is read to its end before the application sees the
request: nothing is left on the connection that could be taken for the next request.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping
from typing import Any

from cheroot import errors
from cheroot.server import HTTPRequest, comma_separated_headers  # type: ignore[attr-defined]
from typing_extensions import override

from rest.errors import error_body

MAX_HEAD_BYTES = 64 << 10  # request line and headers; Kafka Connect's server takes 8 kB
_MAX_TRAILER_BYTES = 8 << 10
_PIECE = 64 << 10
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)\r\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_TARGET = re.compile(rb"[\x21-\x7e\x80-\xff]+")
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?#]+)(.*)")  # as clients send it to a proxy, and some proxies pass it on
_ONCE = frozenset({b"Content-Length", b"Host"})


class _TooLargeError(Exception):
    """A body that is larger than allowed."""


class StrictRequest(HTTPRequest):
    """An HTTP request. A malformed one gets an error response like any other error, and its connection is closed."""

    named_host: bytes | None = None
    """The host in an absolute target."""

    @override
    def simple_response(self, status: Any, msg: str = "") -> None:
        """Sends an error of the server itself, after which the connection is closed."""
        code = int(str(status)[:3])
        body = error_body(code, msg or str(status))
        self.close_connection = self.conn.refused = True
        head = (f"{self.server.protocol} {status}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n")
        with contextlib.suppress(OSError):  # the client may have disconnected already
            self.conn.wfile.write(head.encode("latin-1") + body)

    @override
    def read_request_line(self) -> bool:
        """Reads method, target and version; False if an error was sent. An absolute target becomes its path."""
        self.proxy_mode = True  # or cheroot would refuse absolute targets
        try:
            if not super().read_request_line():  # type: ignore[no-untyped-call]
                return False
        except ValueError as error:  # urllib refuses more targets than cheroot expects
            self.simple_response("400 Bad Request", f"Malformed Request-URI: {error}")
            return False
        if self.request_protocol not in (b"HTTP/1.0", b"HTTP/1.1") or _TARGET.fullmatch(self.uri) is None:
            self.simple_response("400 Bad Request", "Malformed Request-Line")
            return False
        if self.method == b"CONNECT":
            self.simple_response("405 Method Not Allowed")
            return False
        if (absolute := _ABSOLUTE.fullmatch(self.uri)) is not None:
            self.named_host, path = absolute.groups()
            self.uri = path if path.startswith(b"/") else b"/" + path
        elif not self.uri.startswith(b"/") and self.method != b"OPTIONS":
            self.simple_response("400 Bad Request", "Malformed Request-URI")
            return False
        return True

    @override
    def read_request_headers(self) -> bool:
        """Reads all headers; False if an error was sent."""
        try:
            read: bool = super().read_request_headers()  # type: ignore[no-untyped-call]
        except errors.MaxSizeExceeded:
            self.simple_response("431 Request Header Fields Too Large",
                                 f"The request's headers have more than {MAX_HEAD_BYTES} bytes")
            return False
        return read

    @override
    def header_reader(self, rfile: Any, headers: dict[bytes, bytes]) -> None:
        """Parses headers. Raises ValueError for malformed ones, and if they do not define where the body ends."""
        while (line := rfile.readline()) != b"\r\n":
            field = _FIELD.fullmatch(line)
            if field is None:
                raise ValueError("Malformed header")
            name, value = field[1].title(), field[2].strip(b" \t")
            if b"_" in name:  # in WSGI it would have the same name as the header with a dash
                continue
            if name in _ONCE and name in headers:
                raise ValueError(f"More than one {name.decode()} header")
            if name in comma_separated_headers and headers.get(name):
                value = headers[name] + b", " + value
            headers[name] = value
        for name, word in ((b"Connection", b"close"), (b"Expect", b"100-continue")):
            if word in _items(headers.get(name, b"")):
                headers[name] = word  # cheroot does not recognize other ways to write it
        self._check_body(headers)
        if self.named_host is not None and headers.setdefault(b"Host", self.named_host) != self.named_host:
            raise ValueError("Authority!=Host")  # as Kafka Connect's server says

    def _check_body(self, headers: Mapping[bytes, bytes]) -> None:
        length, coding = headers.get(b"Content-Length"), headers.get(b"Transfer-Encoding")
        if length is not None and re.fullmatch(rb"[0-9]{1,18}", length) is None:
            raise ValueError("Malformed Content-Length header")
        if b"Host" not in headers and self.request_protocol == b"HTTP/1.1":
            raise ValueError("No Host header")
        if coding is None:
            return
        if length is not None:
            raise ValueError("Both a Content-Length and a Transfer-Encoding header")
        codings = _items(coding)
        if self.request_protocol == b"HTTP/1.0" or codings.count(b"chunked") != 1 or codings[-1] != b"chunked":
            raise ValueError("Malformed Transfer-Encoding header")

    @override
    def respond(self) -> None:
        """Reads the body, and has the application respond."""
        self.conn.body_follows()
        try:
            body = self._read_body()
        except _TooLargeError:
            self.simple_response("413 Request Entity Too Large", "The request's body has more than "
                                 f"{self.server.max_request_body_size} bytes (heeler.rest.max.body.bytes)")
            return
        except ValueError as error:
            self.simple_response("400 Bad Request", str(error))
            return
        self.conn.request_read()
        self.rfile = io.BytesIO(body)
        self.server.gateway(self).respond()
        if self.ready:
            self.ensure_headers_sent()
        if self.chunked_write:
            self.conn.wfile.write(b"0\r\n\r\n")

    @override
    def write(self, chunk: bytes) -> None:
        """Writes a part of the response's body, unless the method is HEAD: the client would take it for the next
        response.
        """
        if self.method != b"HEAD":
            super().write(chunk)

    def _read_body(self) -> bytes:
        if not self.chunked_read:
            return self._read(int(self.inheaders.get(b"Content-Length", 0)))
        body = bytearray()
        while (size := self._chunk_size()) > 0:
            if len(body) + size > self.server.max_request_body_size:
                raise _TooLargeError
            body += self._read(size)
            if self.conn.rfile.read(2) != b"\r\n":
                raise ValueError("A chunk is longer than its size")
        trailers = 0
        while (line := self._line(_MAX_TRAILER_BYTES)) != b"\r\n":
            trailers += len(line)
            if _FIELD.fullmatch(line) is None or trailers > _MAX_TRAILER_BYTES:
                raise ValueError("Malformed trailer")
        return bytes(body)

    def _chunk_size(self) -> int:
        match = _CHUNK.fullmatch(self._line(1024))
        if match is None:
            raise ValueError("Malformed chunk size")
        return int(match[1], 16)

    def _line(self, limit: int) -> bytes:
        line: bytes = self.conn.rfile.readline(limit)
        return line

    def _read(self, size: int) -> bytes:
        """Reads a number of bytes in pieces: memory is allocated for received bytes, not for announced ones."""
        body = bytearray()
        while len(body) < size:
            piece = self.conn.rfile.read(min(size - len(body), _PIECE))
            if not piece:
                raise ValueError("The body is shorter than its length")
            body += piece
        return bytes(body)


def _items(value: bytes) -> list[bytes]:
    """The items of a header that is a list of words."""
    return [part.strip(b" \t").lower() for part in value.split(b",")]
