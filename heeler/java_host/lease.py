"""Keeps the host available for a task of a Python connector with Java plugins in its chain: while the task holds a
lease, its executors may send requests to the host.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from typing import Final

from typing_extensions import override

from heeler.java_host.connection import Connection, Event
from heeler.java_host.host import JavaHost
from heeler.java_host.plugin_metrics import ChainFigures
from spark_tasks.errors import ConnectError
from spark_tasks.host_frames import HostGoneError
from spark_tasks.task import TaskContext
from spark_tasks.tasks.leases import Lease

_START_S: Final = 60.0


class HostLease(Lease):
    """A lease that the worker holds, over its own connection."""

    def __init__(self, host: JavaHost, context: TaskContext) -> None:
        self.token = secrets.token_hex(16)
        self._host = host
        self._context = context
        self._connection: Connection | None = None
        self._moves = threading.Event()  # the host of that connection has ended, or is being replaced

    @override
    def folder(self) -> str:
        if self._connection is not None and not self._moves.is_set():
            return self._connection.folder
        self.close()
        moves = self._moves = threading.Event()
        measured = ChainFigures(self._context.metrics.plugins)  # its chains are those of one host

        def take(event: Event) -> None:  # called by the reading thread
            if isinstance(event, HostGoneError) or (isinstance(event, dict) and event.get("op") == "retire"):
                moves.set()
                self._context.wake()
            if isinstance(event, Mapping) and event.get("op") in ("metrics", "chainEnded"):
                measured.take(event)

        connection = self._host.connect(take, name=self._context.id, connector=self._context.connector_name)
        try:
            connection.ask_within(_START_S, "lease", lease=self.token)
        except ConnectError:
            connection.close()
            raise
        self._connection = connection
        return connection.folder

    @override
    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
