"""Another user of the machine, who tries every listener of a worker and prints everything that it got.

Run as root: `python stranger.py PORTS SOCKETS FOLDERS PIDS`, each a list with colons. First it becomes the user nobody.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - nothing can be imported any more by who may not read the interpreter's folder
import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

SECONDS = 2.0
BLOCKS = 60  # broadcast variables to request
NOBODY = 65534
TRIES = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "Py4J": b"c\no0\ngetClass\ne\n",
    "nothing": b"",
    "a Python worker": struct.pack(">i", 5) + b"guess",
}


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">qb", 9 + len(body), kind) + body


def received(sock: socket.socket) -> bytes:
    """What arrives until there is silence."""
    found = b""
    with suppress(OSError):
        while more := sock.recv(1 << 20):
            found += more
    return found


def exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = sock.recv(size - len(found))
        if not more:
            raise OSError("the end")
        found += more
    return found


def message(sock: socket.socket) -> bytes:
    (size,) = struct.unpack(">q", exactly(sock, 8))
    return exactly(sock, min(size - 8, 1 << 26))


def spark_block(port: int, name: str) -> bytes:
    """Requests blocks like an executor of Spark: OpenBlocks, then each chunk of the returned stream."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as sock:
        inner = b"\0" + text("app") + text("0") + struct.pack(">i", 1) + text(name)
        sock.sendall(frame(3, struct.pack(">qi", 7, len(inner)) + inner))
        answer = message(sock)
        if answer[0] != 4:  # no RpcResponse
            return b""
        _, stream, chunks = struct.unpack_from(">bqi", answer, 13)
        for chunk in range(chunks):
            sock.sendall(frame(0, struct.pack(">qi", stream, chunk)))
        return b"".join(message(sock) for _ in range(chunks))


def show(what: str, found: bytes) -> None:
    sys.stdout.buffer.write(f"\n== {what}: {len(found)}\n".encode() + found)


def main(ports: list[str], sockets: list[str], folders: list[str], pids: list[str]) -> None:
    for port in map(int, ports):
        with suppress(OSError):  # a port that is not Spark's sends nothing, or ends the connection
            for number in range(BLOCKS):
                found = spark_block(port, f"broadcast_{number}_piece0")
                show(f"port {port} gave a block", found) if found else None
        for what, sent in TRIES.items():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), SECONDS) as sock:
                sock.settimeout(SECONDS / 4)
                sock.sendall(sent)
                show(f"port {port} answered {what}", received(sock))
    for path in sockets:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as unix:
            unix.settimeout(SECONDS / 4)
            unix.connect(path)
            show(f"socket {path} let me in", received(unix))
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    show(f"file {root}/{name}", Path(root, name).read_bytes()[: 1 << 24])
    for pid in pids:
        for name in ("cmdline", "environ", "maps"):
            with suppress(OSError):
                show(f"process {pid} {name}", Path(f"/proc/{pid}/{name}").read_bytes())


if __name__ == "__main__":
    given = [argument.split(":") if argument else [] for argument in sys.argv[1:]]
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    main(*given)
