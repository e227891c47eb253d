"""The executor's side of reading the stacks of an executor process: a file to which it writes them on a signal, also
while a split holds the GIL. stack_reader.py is the worker's side.
"""

from __future__ import annotations

import faulthandler
import signal
from pathlib import Path
from typing import Self

from spark_tasks.spark.residents.wire import Ticket
from spark_tasks.spark.stacks import STACK_SIGNAL


class StackFile:
    """In this block, the worker can ask for the stacks of this process (if it can send it a signal)."""

    def __init__(self, ticket: Ticket) -> None:
        self._path = Path(ticket.stacks) / str(ticket.number) if ticket.stacks else None

    def __enter__(self) -> Self:
        if self._path is not None:
            self._file = self._path.open("w")
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)  # what `unregister` restores: a late signal must not end it
            faulthandler.register(STACK_SIGNAL, self._file, all_threads=True)
        return self

    def renew(self) -> None:
        """Handles the signal again if a plugin has put its own handler or the default in place."""
        if self._path is not None:
            faulthandler.unregister(STACK_SIGNAL)
            faulthandler.register(STACK_SIGNAL, self._file, all_threads=True)

    def __exit__(self, *_error: object) -> None:
        if self._path is not None:
            faulthandler.unregister(STACK_SIGNAL)
            self._file.close()
            self._path.unlink(missing_ok=True)
