"""The ConnectorContext of a connector in a process of its own: what the connector asks of the worker, and tells it, at
any time and on any thread.

The process connects to a Unix socket that the worker creates for it, in a folder that only the same user may enter, and
proves that it knows a token. Both socket and folder are removed then. A message is a pickled tuple of its kind and its
value; only "offsets" has a response.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from typing_extensions import override

from spark_tasks.errors import plugin_code
from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.plugin_processes.plugin_object import process_metrics
from spark_tasks.plugins.api import ConnectorContext
from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.spark.executor import Outcome, failed_outcome, pickled_outcomes, value_of
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.batches import outcome_of
from spark_tasks.spark.residents.listener import SUN_PATH
from spark_tasks.task import SourceOffset, SourcePartition

_logger = logging.getLogger(__name__)

MAX_BYTES: Final = 64 << 20  # of a message
_TOKEN_BYTES: Final = 32
_GREETING_S: Final = 10.0
_METRICS_S: Final = 1.0  # how often a connector's metrics are sent


class Address(NamedTuple):
    """What a process needs to connect."""

    path: str
    token: bytes


class Callbacks:
    """The worker's side, for one process. `ended` is called, on a thread of its own, when the process has closed the
    connection, and not after `close`.
    """

    def __init__(self, name: str, context: ConnectorContext, ended: Callable[[], None]) -> None:
        """`name`: of the connector. Raises OSError."""
        self._name = name
        self._context = context
        self._ended = ended
        self._closed = False
        self._connection: socket.socket | None = None
        self._folder, self._listener = _listen()
        self.address = Address(str(self._folder / "s"), secrets.token_bytes(_TOKEN_BYTES))
        threading.Thread(target=self._serve, name=f"callbacks-{name}", daemon=True).start()

    def close(self) -> None:
        """Ends the connection. Does not wait."""
        self._closed = True
        for sock in (self._listener, self._connection):
            if sock is not None:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with suppress(OSError):  # it is closed, or the process has ended
            try:
                self._connection = self._accept()
            finally:
                self._listener.close()
                shutil.rmtree(self._folder, ignore_errors=True)
            with self._connection as connection:
                while not self._closed:
                    self._handle(connection, wire.receive(connection, MAX_BYTES))
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
        try:
            with plugin_code():
                kind, value = pickle.loads(message)
                response = self._respond(kind, value)
        except Exception as error:  # noqa: BLE001 - its values are a plugin's, and so are its errors
            _logger.warning("The connector has sent something that cannot be read: %r", error,
                            extra={"heeler_about": self._name})
            return
        if response is not None:
            wire.send(connection, pickled_outcomes([response]))

    def _respond(self, kind: str, value: Any) -> Outcome | None:
        match kind:
            case "offsets":
                return self._offsets()
            case "reconfigure":
                self._context.request_task_reconfiguration()
            case "metrics":
                self._context.metrics.merge(value)
            case "failed":
                self._context.raise_error(_error_in(value))
            case _:
                raise TypeError(f"a message of the kind {kind!r}")
        return None

    def _offsets(self) -> Outcome:
        try:
            return Outcome(value=list(self._context.offsets()))
        except Exception as error:  # noqa: BLE001 - the connector gets it
            return failed_outcome(error)


def _listen() -> tuple[Path, socket.socket]:
    folder = Path(tempfile.mkdtemp(prefix="heeler-connector-"))  # only this user may enter it
    if len(os.fsencode(folder / "s")) > SUN_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="heeler-connector-", dir="/tmp"))
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


def _error_in(outcome: Outcome) -> Exception:
    """The error that the connector reports, with its trace."""
    try:
        value_of(outcome)
    except Exception as error:  # noqa: BLE001 - a plugin's
        return error
    raise TypeError("an outcome without an error")


class CallbackContext(ConnectorContext):
    """The process's side. Thread-safe."""

    def __init__(self, address: Address) -> None:
        """Raises OSError."""
        self._lock = threading.Lock()
        self._sends_metrics = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        close_on_fork(self._socket)  # else the end of this process would not be noticed
        self._socket.connect(address.path)
        self._socket.sendall(address.token)

    @property
    @override
    def metrics(self) -> PluginMetrics:
        with self._lock:
            first, self._sends_metrics = not self._sends_metrics, True
        if first:
            threading.Thread(target=self._send_metrics, name="connector-metrics", daemon=True).start()
        return process_metrics

    @override
    def request_task_reconfiguration(self) -> None:
        self._send("reconfigure", None)

    @override
    def raise_error(self, error: Exception) -> None:
        self._send("failed", failed_outcome(error))

    @override
    def offsets(self) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        with self._lock:
            wire.send(self._socket, pickle.dumps(("offsets", None)))
            answer = wire.receive(self._socket)
        offsets: Sequence[tuple[SourcePartition, SourceOffset]] = value_of(outcome_of(answer, "offsets"))
        return offsets

    def _send(self, kind: str, value: Any) -> None:
        with self._lock:
            wire.send(self._socket, pickle.dumps((kind, value)))

    def _send_metrics(self) -> None:
        never = threading.Event()
        with suppress(OSError):  # the worker has ended, or closed the connection
            while not never.wait(_METRICS_S):
                if (figures := process_metrics.take()) is not None:
                    self._send("metrics", figures)
