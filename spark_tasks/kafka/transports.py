"""Connections' transports: kafka-python's, with fewer system calls, and no data lost at the end of a connection."""

from __future__ import annotations

import socket
import ssl
import sys
import time
from contextlib import suppress
from typing import Any, Final

import kafka.errors as protocol
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

_RECEIVE_BYTES: Final = 256 * 1024
_MAX_RECEIVE_BYTES: Final = 4 * 1024 * 1024
_LENGTH_BYTES: Final = 4
_MAX_JOINED_BYTES: Final = 64 * 1024


class TcpTransport(KafkaTCPTransport):  # type: ignore[misc]
    """Reads large chunks and writes all waiting buffers at once, since each system call releases the GIL. The library
    reads 4 KiB at a time. Before each write it asks the selector whether the socket is writable, which it nearly always
    is.

    A broker sends a response in as many pieces as it has partitions. So the loop is woken for the first piece, and then
    when the rest has arrived (SO_RCVLOWAT).
    """

    _enough = 1  # bytes with which the kernel reports the socket as readable

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._frames = UnfinishedFrame()

    async def _write_to_sock(self) -> None:
        if len(self._write_buffer) > 1 and sum(map(len, self._write_buffer)) <= _MAX_JOINED_BYTES:
            waiting = b"".join(self._write_buffer)
            self._write_buffer.clear()
            self._write_buffer.append(waiting)
        if self._write_buffer and not self._closed:
            sent, error = self._sock_send()
            if error is not None:
                self._writing = False
                self.abort(error=error)
                return
            if sent:
                self.last_write = time.monotonic()
        await super()._write_to_sock()  # writes the rest and handles a close

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        pieces: list[bytes] = []
        size = 0
        while size < _MAX_RECEIVE_BYTES:
            try:
                piece = self._sock.recv(_RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                return _data_first(b"".join(pieces), protocol.KafkaConnectionError(error))
            if not piece:
                return _data_first(b"".join(pieces), protocol.KafkaConnectionError("socket disconnected"))
            pieces.append(piece)
            size += len(piece)
            if len(piece) < _RECEIVE_BYTES:
                break
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._wait_for(self._frames.after(data))
        return data, None

    def _wait_for(self, rest: int) -> None:
        enough = min(max(rest, 1), _RECEIVE_BYTES)
        if enough != self._enough and sys.platform == "linux":
            self._enough = enough
            with suppress(OSError):  # it is closed; the next read finds out
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, enough)


class UnfinishedFrame:
    """How much of a stream's last frame is missing. A frame is 4 bytes of length and as many bytes."""

    __slots__ = ("_head", "_missing")

    def __init__(self) -> None:
        self._head = b""
        self._missing = 0

    def after(self, data: bytes) -> int:
        """Adds received bytes. Returns how many are missing, as far as that is known; 0 at the end of a frame."""
        data, at = self._head + data, self._missing
        while (left := len(data) - at) >= _LENGTH_BYTES:
            at += _LENGTH_BYTES + int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        self._head = data[at:]
        self._missing = max(-left, 0)
        return self._missing


class TlsTransport(KafkaSSLTransport):  # type: ignore[misc]
    """Returns data that arrives just before the connection is closed, and the broker's reason for closing it."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        return _data_first(*super()._sock_recv())

    def _sock_send(self) -> tuple[int, Exception | None]:
        sent, error = super()._sock_send()
        return sent, error if error is None else self._alert() or error

    def _alert(self) -> Exception | None:
        """Reads the alert that the broker sent before it closed the connection. With TLS 1.3, a broker refuses a
        certificate after the client's handshake has ended, so the first request may find the connection closed.
        """
        try:
            self._sock.recv(1)  # after the failed write, responses are of no use
        except ssl.SSLError as error:
            reason: Exception = protocol.KafkaConnectionError(error)
            return reason
        except OSError:
            return None
        return None


def _data_first(data: bytes, error: Exception | None) -> tuple[bytes, Exception | None]:
    """Returns data without an error that came with it; the next read gets the error again. The library drops such data,
    and with it the reason why a broker rejects a login before it closes the connection.
    """
    return data, None if data else error
