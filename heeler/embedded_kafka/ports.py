"""Ports of this machine, and whether a Kafka broker responds on one."""

from __future__ import annotations

import errno
import socket
import struct
from random import SystemRandom

from heeler.errors import SetupError

_METADATA = 3
_VERSION = 4  # of the Metadata request: known to every broker since 0.11


# Below the ephemeral ports of operating systems: a port that is free now is still free when its user has started.
PORTS = range(20_000, 32_000)
_given: list[socket.socket] = []  # UDP sockets with the numbers of ports: other processes do not give these out either


def free_port(host: str = "127.0.0.1") -> int:
    """A free port, a different one each time, also in other processes while this one lives. Raises OSError if the host
    is not an address of this machine.
    """
    random = SystemRandom()
    for _ in PORTS:
        port = random.choice(PORTS)
        given = socket.socket(type=socket.SOCK_DGRAM)
        try:
            given.bind((host, port))
            socket.create_server((host, port)).close()
        except OSError as error:
            given.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            _given.append(given)
            return port
    raise SetupError(f"No free port was found on {host} from {PORTS.start} to {PORTS.stop - 1}.")


def require_free(host: str, port: int) -> None:
    """Raises SetupError if this process cannot listen on the port."""
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        why = "is in use by another program" if error.errno == errno.EADDRINUSE else f"cannot be used: {error}"
        raise SetupError(f"Port {port} on {host} {why}. Choose another port, or stop that program.") from None


def serves_kafka(host: str, port: int, timeout: float = 2.0) -> bool:
    """Whether a broker responds to a Metadata request and lists itself as alive; an open port alone is not enough."""
    body = struct.pack(">hhih6si?", _METADATA, _VERSION, 1, 6, b"heeler", 0, False)  # no topics, create none
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            response = _exactly(connection, size)
    except (OSError, EOFError, UnicodeError, OverflowError):  # the last two: no such host or port can exist
        return False
    # correlation id, throttle time, number of brokers, …
    return len(response) >= 12 and struct.unpack_from(">iii", response)[2] > 0


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
