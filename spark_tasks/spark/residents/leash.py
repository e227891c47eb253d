"""The leash of an executor process: a connection through which its worker can end it, whatever it is doing.

When a byte arrives on it or it is closed, the kernel kills the process at once (F_SETSIG), even if a split sleeps in C
or holds the global interpreter lock (GIL). This is specific to Linux. On other systems a thread watches the leash; it
cannot run while a split holds the GIL. If a plugin has closed the leash, the worker kills the process; if the worker
has been killed itself, the watchdog notices that (watchdog.py).
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import threading
from contextlib import suppress

from spark_tasks.process.readable import is_readable


class Leash:
    """At its end, this process gets a signal."""

    def __init__(self, connection: socket.socket, number: signal.Signals) -> None:
        self._connection = connection
        self._signal = number
        self._tied = False

    def tie(self) -> None:
        """From now on, the signal is sent, also if the leash has ended already."""
        self._tied = True
        if sys.platform != "linux":
            threading.Thread(target=self._watch, name="leash", daemon=True).start()
            return
        fcntl.fcntl(self._connection, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self._connection, fcntl.F_SETSIG, self._signal)
        fcntl.fcntl(self._connection, fcntl.F_SETFL, fcntl.fcntl(self._connection, fcntl.F_GETFL) | os.O_ASYNC)
        if is_readable(self._connection):  # a byte arrived before F_SETSIG was set
            os.kill(os.getpid(), self._signal)

    def untie(self) -> None:
        """The worker has released this process: the leash may now be closed, and Spark may use the process again."""
        self._tied = False
        if sys.platform == "linux":
            fcntl.fcntl(self._connection, fcntl.F_SETFL, fcntl.fcntl(self._connection, fcntl.F_GETFL) & ~os.O_ASYNC)

    def fileno(self) -> int:
        """The descriptor of the connection."""
        return self._connection.fileno()

    def _watch(self) -> None:
        with suppress(OSError):
            self._connection.recv(1)
        if self._tied:
            os.kill(os.getpid(), self._signal)
