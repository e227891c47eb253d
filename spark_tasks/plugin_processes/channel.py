"""A connection from a process that belongs to a connector or task to the worker, for what its code tells the worker or
asks it at any time and on any thread: log lines, metrics, and what only connectors say (callbacks.py).

The process connects to a Unix socket that the worker creates for it, in a folder that only the same user may enter, and
proves that it knows a token. Both socket and folder are removed then. A message is a pickled tuple of its kind and its
value.
"""

from __future__ import annotations

import hmac
import logging
import os
import pickle
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from spark_tasks.errors import ConnectError, plugin_code
from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.plugin_processes.relayed_log import log_here
from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.spark.executor import Outcome, pickled_outcomes, value_of
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.batches import outcome_of
from spark_tasks.spark.residents.listener import SUN_PATH

_logger = logging.getLogger(__name__)

MAX_BYTES: Final = 64 << 20  # of a message
MAX_PER_SECOND: Final = 1000  # messages; who sends more has to wait
_TOKEN_BYTES: Final = 32
_GREETING_S: Final = 10.0

Answer = Callable[[str, Any], Outcome | None]
"""Handles a message of this kind with this value. Returns the response, None if the kind has none."""


class Address(NamedTuple):
    """What a process needs to connect."""

    path: str
    token: bytes


def unknown_message(kind: str, _value: Any) -> Outcome | None:
    """The Answer of whoever is asked nothing."""
    raise ConnectError(f"a message of the kind {kind!r}")


class Channel:
    """The worker's side, for one process."""

    def __init__(self, about: str | tuple[str, int], metrics: PluginMetrics, answer: Answer = unknown_message,
                 ended: Callable[[], None] = lambda: None) -> None:
        """`about`: the connector or task, of the process's log lines. `answer` handles all messages but log lines and
        metrics. `ended` is called when the process has closed the connection, and not after `close`; both on a thread
        of the channel. Raises OSError.
        """
        self._about = about
        self._metrics = metrics
        self._answer = answer
        self._ended = ended
        self._closed = False
        self._second, self._handled = 0, 0
        self._folder, self._listener = _listen()
        self.address = Address(str(self._folder / "s"), secrets.token_bytes(_TOKEN_BYTES))
        name = about if isinstance(about, str) else f"{about[0]}-{about[1]}"
        threading.Thread(target=self._serve, name=f"channel-{name}", daemon=True).start()

    def close(self) -> None:
        """The process is being ended: only its last log lines and metrics are still taken. Does not wait."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # for a process that has not connected

    def _serve(self) -> None:
        with suppress(OSError):  # it is closed, or the process has ended
            try:
                connection = self._accept()
            finally:
                self._listener.close()
                shutil.rmtree(self._folder, ignore_errors=True)
            with connection:
                while True:
                    self._handle(connection, _received(connection))
        if not self._closed:
            self._ended()

    def _accept(self) -> socket.socket:
        while True:
            connection, _ = self._listener.accept()
            close_on_fork(connection)
            with suppress(OSError):
                connection.settimeout(_GREETING_S)
                if hmac.compare_digest(wire.exactly(connection, _TOKEN_BYTES), self.address.token):
                    connection.settimeout(None)
                    return connection
            connection.close()

    def _handle(self, connection: socket.socket, message: bytes | bytearray) -> None:
        self._limit()
        try:
            with plugin_code():
                response = self._respond(*pickle.loads(message))
        except Exception as error:  # noqa: BLE001 - its values are a plugin's, and so are its errors
            _logger.warning("The plugin's process has sent something that cannot be read: %r", error,
                            extra={"heeler_about": self._about})
            return
        if response is not None:
            wire.send(connection, pickled_outcomes([response]))

    def _limit(self) -> None:
        """Waits if the process says too much in this second. It waits then, too, since its messages are not read."""
        now = time.monotonic()
        if int(now) != self._second:
            self._second, self._handled = int(now), 0
        self._handled += 1
        if self._handled > MAX_PER_SECOND:
            time.sleep(self._second + 1 - now)

    def _respond(self, kind: str, value: Any) -> Outcome | None:
        match kind:
            case "log":
                log_here(value, self._about)
            case "metrics":
                self._metrics.merge(value)
            case _:
                return None if self._closed else self._answer(kind, value)
        return None


def _received(connection: socket.socket) -> bytearray:
    """The next message. Others may follow it at once, so not more than that may be read."""
    (size,) = wire.HEAD.unpack(wire.exactly(connection, wire.HEAD.size))
    if size > MAX_BYTES:
        raise wire.ConnectionLostError(f"a message of {size} bytes")
    return wire.exactly(connection, size)


def _listen() -> tuple[Path, socket.socket]:
    folder = Path(tempfile.mkdtemp(prefix="heeler-plugin-"))  # only this user may enter it
    if len(os.fsencode(folder / "s")) > SUN_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="heeler-plugin-", dir="/tmp"))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    close_on_fork(listener)
    try:
        listener.bind(str(folder / "s"))
        listener.listen()
    except OSError:
        listener.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder, listener


class ChannelToWorker:
    """The process's side. Thread-safe; methods raise OSError when the worker has ended, or has closed the channel."""

    def __init__(self, address: Address) -> None:
        self._lock = threading.Lock()  # for sending
        self._asking = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        close_on_fork(self._socket)  # else the end of this process would not be noticed
        self._socket.connect(address.path)
        self._socket.sendall(address.token)

    def send(self, kind: str, value: Any) -> None:
        """Sends a message that has no response."""
        message = pickle.dumps((kind, value))
        with self._lock:
            wire.send(self._socket, message)

    def ask(self, kind: str) -> Any:
        """Sends a message, and returns the value of its response or raises its error."""
        with self._asking:  # others may send meanwhile
            self.send(kind, None)
            answer = wire.receive(self._socket)
        return value_of(outcome_of(answer, kind))
