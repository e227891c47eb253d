"""Files that processes forked from this one must not keep open. A process that a plugin forks on the worker may outlive
it: the port of a listener would remain in use, and Spark's JVM would not notice that the worker has ended.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from typing import Protocol


class File(Protocol):
    """A socket, or one end of a pipe."""

    def close(self) -> None:
        """Closes it in this process only."""


_files: weakref.WeakSet[File] = weakref.WeakSet()


def keep_from_children(file: File) -> None:
    """Closes this file in each process that is forked from now on."""
    _files.add(file)


def _close_after_fork() -> None:
    for file in tuple(_files):
        with suppress(OSError, ValueError):  # it is closed already
            file.close()
    _files.clear()


os.register_at_fork(after_in_child=_close_after_fork)
