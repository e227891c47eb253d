"""How a worker and its executor processes talk: frames, and a handshake in which both sides prove who they are.

A frame: 8 bytes length, then the payload. One way it is a pickled split, the other way the pickled list of its Outcome;
a frame of length 0 tells a resident to go. Each resident has two connections, the work and the leash (link.py).
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
from dataclasses import dataclass

HEAD = struct.Struct(">Q")
HELLO = struct.Struct(">Q?Q32s32s")  # resident, leash?, pid, proof, challenge
CHALLENGE_BYTES = 32
GREETING_S = 10.0  # for each step of the handshake
_CHUNK = 1 << 20
_SMALL = 1 << 16
# A host that no longer responds is detected after a minute by TCP keep-alive.
_KEEP_ALIVE = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4))


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a resident needs to join. `token`: good for its two connections, once. `path`: the worker's Unix socket;
    empty: TLS to `host` and `port`, whose certificate has to be `certificate` (PEM). `slow_s`: a split that takes
    longer shows its stack in the executor's log; 0: the worker asks for it, in a file of the folder `stacks`.
    """

    number: int
    token: bytes
    path: str = ""
    host: str = ""
    port: int = 0
    certificate: str = ""
    stacks: str = ""
    slow_s: float = 0.0

    def __repr__(self) -> str:
        return f"Ticket({self.number}, {self.path or f'{self.host}:{self.port}'})"  # the token is a secret


@dataclass(frozen=True, slots=True)
class Hello:
    """What a resident says of itself; only the proof can be checked."""

    number: int
    leash: bool
    pid: int


class ConnectionLostError(ConnectionError):
    """The other side has closed the connection, perhaps in the middle of a frame."""


def exactly(sock: socket.socket, size: int) -> bytes:
    """That many bytes. Raises ConnectionLostError where the connection ends before."""
    data = bytearray()
    while len(data) < size:
        more = sock.recv(min(size - len(data), _CHUNK))
        if not more:
            raise ConnectionLostError(f"the connection ended {size - len(data)} bytes early")
        data += more
    return bytes(data)


def send(sock: socket.socket, payload: bytes) -> None:
    """One frame."""
    if len(payload) < _CHUNK:
        sock.sendall(HEAD.pack(len(payload)) + payload)
    else:
        sock.sendall(HEAD.pack(len(payload)))
        sock.sendall(payload)


def receive(sock: socket.socket) -> bytes:
    """The payload of the next frame, as `exactly`. The other side sends no more than that before it has an answer: a
    small frame comes with one system call, each of which gives the interpreter away.
    """
    data = sock.recv(_SMALL)
    if len(data) < HEAD.size:
        if not data:
            raise ConnectionLostError("the connection ended")
        data += exactly(sock, HEAD.size - len(data))
    (size,) = HEAD.unpack_from(data)
    left = HEAD.size + size - len(data)
    if left < 0:
        raise ConnectionLostError(f"{-left} bytes more than a frame")
    return data[HEAD.size :] + exactly(sock, left) if left else data[HEAD.size :]


def _proof(token: bytes, side: bytes, hello: Hello, challenge: bytes) -> bytes:
    """What only a holder of the token can answer to the challenge, for this connection."""
    return hmac.digest(token, side + HELLO.pack(hello.number, hello.leash, hello.pid, b"", challenge), "sha256")


def greet(sock: socket.socket, ticket: Ticket, *, leash: bool) -> None:
    """The resident's half of the handshake. Raises ConnectionError where the other side is not its worker."""
    hello, mine = Hello(ticket.number, leash, os.getpid()), os.urandom(CHALLENGE_BYTES)
    answer = _proof(ticket.token, b"resident", hello, exactly(sock, CHALLENGE_BYTES))
    sock.sendall(HELLO.pack(hello.number, leash, hello.pid, answer, mine))
    if not hmac.compare_digest(exactly(sock, 32), _proof(ticket.token, b"worker", hello, mine)):
        raise ConnectionError("what answers at the worker's address does not know this process")


class Greeting:
    """The worker's half: `hear`, look up the token, `check` it, send the proof."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._mine = os.urandom(CHALLENGE_BYTES)

    def hear(self) -> Hello:
        """Challenge the other side."""
        self._sock.sendall(self._mine)
        number, leash, pid, self._answer, self._theirs = HELLO.unpack(exactly(self._sock, HELLO.size))
        self._hello = Hello(number, leash, pid)
        return self._hello

    def check(self, token: bytes) -> bytes:
        """What proves to the other side that we hold the token. Raises ConnectionError where that does not."""
        if not hmac.compare_digest(self._answer, _proof(token, b"resident", self._hello, self._mine)):
            raise ConnectionError("a wrong token")
        return _proof(token, b"worker", self._hello, self._theirs)


def tune(sock: socket.socket) -> None:
    """For a TCP connection: small frames at once, and a dead peer is noticed."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        if hasattr(socket, name):  # not everywhere
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
