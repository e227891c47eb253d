"""Closes files in processes forked from this one, which must not keep them open. (O_CLOEXEC closes a file only when
another program is executed.) A process that a plugin forks on the worker may outlive it: the port of a listener would
remain in use, and whoever waits for the end of a pipe or a connection (the JVM of Spark, the parent of executor
processes, the guard of a JVM for plugins, a client of REST) would not notice that the worker has ended.
"""

from __future__ import annotations

import os
import socket
import weakref
from contextlib import suppress
from io import FileIO
from typing import IO, Any

_files: weakref.WeakSet[socket.socket | FileIO] = weakref.WeakSet()


def close_on_fork(file: socket.socket | IO[bytes]) -> None:
    """Closes this socket, or this end of a pipe, in each process that is forked from now on."""
    # Not a buffered file itself: that one's lock may be held during the fork, and its bytes would be written twice.
    raw: Any = file if isinstance(file, socket.socket) else getattr(file, "raw", file)
    _files.add(raw)


def _close_after_fork() -> None:
    for file in tuple(_files):
        with suppress(OSError, ValueError):  # it is closed already
            if isinstance(file, socket.socket):
                os.close(file.detach())  # although it may have files (`makefile`), as long as which it is not closed
            else:
                file.close()
    _files.clear()


os.register_at_fork(after_in_child=_close_after_fork)
