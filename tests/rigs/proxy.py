"""A proxy between clients and a broker that holds back one client's requests, or the responses to them, for a while."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self


class Proxy:
    """Forwards to a port of this machine; a context manager. `held` is the id of the client that gets no responses."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._server]
        self._changed = threading.Condition()
        self._held = ""

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def hold(self, client_id: str) -> None:
        """Hold back everything of this client from now on, and nothing of others. "" holds back everybody's."""
        with self._changed:
            self._held = client_id
            self._changed.notify_all()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold("")
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._server.accept()[0]
                self._sockets.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        self._sockets.append(broker)
        # Size, API, version and correlation id come before the client id; a first request is never larger than this.
        first = client.recv(4096, socket.MSG_PEEK)
        name = first[14:14 + struct.unpack(">h", first[12:14])[0]].decode() if len(first) > 14 else ""
        threading.Thread(target=self._pump, args=(broker, client, name), daemon=True).start()
        self._pump(client, broker, name)

    def _pump(self, source: socket.socket, target: socket.socket, name: str) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                with self._changed:
                    self._changed.wait_for(lambda: self._held != name or not name)
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
