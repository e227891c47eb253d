"""Which process is at the other end of a Unix socket, as the kernel says (SO_PEERCRED). Linux only."""

from __future__ import annotations

import socket
import struct
import sys
from typing import NamedTuple

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class PeerCredentials(NamedTuple):
    """The process that connected or listened, and its user."""

    pid: int
    uid: int


def peer_credentials(sock: socket.socket) -> PeerCredentials | None:
    """None for other sockets, and on other systems. Raises OSError."""
    if sys.platform != "linux" or sock.family != socket.AF_UNIX:
        return None
    pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return PeerCredentials(pid, uid)
