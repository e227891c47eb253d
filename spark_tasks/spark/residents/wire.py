"""The protocol between a worker and its executor processes: frames, and a handshake that authenticates both sides.

A frame is 8 bytes of length and the payload: a pickled split to the process, a pickled list with its Outcome back. A
frame of length 0 asks the process to end. Before the split of another connector than the previous one's, the payload
has a byte (OTHER); the process answers with a frame of length 0 if it must be replaced before it may run that split.
What plugins have set up in the process (set_up.py) is said before the result; if nothing follows, it was the previous
connector, and the split has not run. Each process has two connections: for work, and the leash (leash.py).
"""

from __future__ import annotations

import hmac
import os
import socket
import ssl
import struct
import time
from dataclasses import dataclass

from typing_extensions import override

from spark_tasks.spark.executor import MAX_RESULT_BYTES

HEAD = struct.Struct(">Q")
HELLO = struct.Struct(">Q?Q32s32s")  # number, leash?, pid, proof, challenge
OTHER = b"\0"  # a pickle begins with another byte
_SET_UP = b"\0"  # begins and ends the text with what was set up
_MAX_TEXT = 1000  # bytes of it
CHALLENGE_BYTES = 32
GREETING_S = 10.0  # for the handshake on a connection
_CHUNK = 1 << 20
_SMALL = 1 << 16
# TCP keep-alive detects a host that no longer responds after a minute.
_KEEP_ALIVE = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4))


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a process needs to join. `token`: valid once for each of its two connections. `path`: the worker's Unix
    socket; if empty, TLS to `host` and `port`, whose certificate must be `certificate` (PEM). `slow_s`: the stack of a
    split that takes longer is written to the executor's log; if 0, the worker asks for it, and it is written to a file
    in the folder `stacks`. `max_result_bytes`: of a split.
    """

    number: int
    token: bytes
    path: str = ""
    host: str = ""
    port: int = 0
    certificate: str = ""
    stacks: str = ""
    slow_s: float = 0.0
    max_result_bytes: int = MAX_RESULT_BYTES

    @override
    def __repr__(self) -> str:
        return f"Ticket({self.number}, {self.path or f'{self.host}:{self.port}'})"  # the token is a secret


@dataclass(frozen=True, slots=True)
class Hello:
    """What a process says about itself; only the proof can be checked."""

    number: int
    leash: bool
    pid: int


class ConnectionLostError(ConnectionError):
    """The other side closed the connection, perhaps in the middle of a frame."""


def exactly(
    sock: socket.socket, size: int, begun: bytes | bytearray = b"", deadline: float | None = None
) -> bytearray:
    """Receives a number of bytes, of which `begun` are known. Raises ConnectionLostError if the connection ends
    earlier, TimeoutError after the `deadline` (time.monotonic), however slowly the bytes arrive.
    """
    data = bytearray(begun)
    while len(data) < size:
        if deadline is not None:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
        more = sock.recv(min(size - len(data), _CHUNK))
        if not more:
            raise ConnectionLostError(f"the connection ended {size - len(data)} bytes early")
        data += more
    return data


def begin_to_send(sock: socket.socket, payload: bytes) -> int:
    """Sends as much of a small frame as is possible without waiting. Returns how many bytes `send` may leave out."""
    if len(payload) > _SMALL or isinstance(sock, ssl.SSLSocket):
        return 0
    try:
        return sock.send(HEAD.pack(len(payload)) + payload, socket.MSG_DONTWAIT)
    except OSError:  # full, or the connection has ended, as `send` will find
        return 0


def send(sock: socket.socket, payload: bytes, begun: int = 0, *, before: bytes = b"") -> None:
    """Sends one frame, or the rest of one of which `begun` bytes have been sent. `before`: what precedes the payload
    in the frame; a large payload is not copied for that.
    """
    head = HEAD.pack(len(before) + len(payload)) + before
    if len(payload) < _CHUNK:
        if rest := (head + payload)[begun:]:
            sock.sendall(rest)
    else:
        sock.sendall(head)
        sock.sendall(payload)


def receive(sock: socket.socket, max_bytes: int | None = None) -> bytes | bytearray:
    """Receives the payload of the next frame. Raises ConnectionLostError, also if it has more than `max_bytes`.

    The other side sends nothing else before it has an answer, so a small frame is received with a single system call;
    each call releases the GIL.
    """
    data: bytes | bytearray = sock.recv(_SMALL)
    if len(data) < HEAD.size:
        if not data:
            raise ConnectionLostError("the connection ended")
        data = exactly(sock, HEAD.size, data)
    (size,) = HEAD.unpack_from(data)
    if max_bytes is not None and size > max_bytes:
        raise ConnectionLostError(f"a frame of {size} bytes")
    begun = data[HEAD.size :]
    if len(begun) > size:
        raise ConnectionLostError(f"{len(begun) - size} bytes more than a frame")
    return exactly(sock, size, begun) if len(begun) < size else begun


def before_answer(changes: str) -> bytes:
    """What precedes an answer in its frame: what was set up in the process, if anything was."""
    if not changes:
        return b""
    return _SET_UP + changes.encode(errors="replace").replace(_SET_UP, b"?")[:_MAX_TEXT] + _SET_UP


def parted(payload: bytes | bytearray) -> tuple[str, bytes | bytearray | memoryview]:
    """What was set up in the process, and the rest of an answer."""
    if not payload.startswith(_SET_UP):
        return "", payload
    end = payload.find(_SET_UP, 1, _MAX_TEXT + 2)
    if end < 0:
        return "", b""
    return payload[1:end].decode(errors="replace") or "something", memoryview(payload)[end + 1:]


def _proof(token: bytes, side: bytes, hello: Hello, challenge: bytes | bytearray) -> bytes:
    """The response to the challenge of this connection, which only a holder of the token can compute."""
    return hmac.digest(token, side + HELLO.pack(hello.number, hello.leash, hello.pid, b"", challenge), "sha256")


def greet(sock: socket.socket, ticket: Ticket, *, leash: bool) -> None:
    """The process's half of the handshake. Raises ConnectionError if the other side is not its worker."""
    hello, mine = Hello(ticket.number, leash, os.getpid()), os.urandom(CHALLENGE_BYTES)
    answer = _proof(ticket.token, b"resident", hello, exactly(sock, CHALLENGE_BYTES))
    sock.sendall(HELLO.pack(hello.number, leash, hello.pid, answer, mine))
    if not hmac.compare_digest(exactly(sock, 32), _proof(ticket.token, b"worker", hello, mine)):
        raise ConnectionError("the process at the worker's address does not know the token")


class Greeting:
    """The worker's half of the handshake: `receive_hello`, look up the token, `check` it, send the proof."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline
        self._mine = os.urandom(CHALLENGE_BYTES)

    def receive_hello(self) -> Hello:
        """Sends a challenge, and receives the other side's hello."""
        self._sock.sendall(self._mine)
        number, leash, pid, self._answer, self._theirs = HELLO.unpack(
            exactly(self._sock, HELLO.size, deadline=self._deadline))
        self._hello = Hello(number, leash, pid)
        return self._hello

    def check(self, token: bytes) -> bytes:
        """The proof that we have the token. Raises ConnectionError if the other side does not have it."""
        if not hmac.compare_digest(self._answer, _proof(token, b"resident", self._hello, self._mine)):
            raise ConnectionError("a wrong token")
        return _proof(token, b"worker", self._hello, self._theirs)


def tune(sock: socket.socket) -> None:
    """Sets a TCP connection to send small frames at once, and to detect a dead peer."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        if hasattr(socket, name):  # depends on the system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
