"""Waits for children that nobody else waits for.

An executor process adopts the daemons that a plugin starts (reaper.py), and so has to wait for them when they have
ended: each would stay a zombie, and after some thousands the system would have no process id left. It cannot tell them
from children that the plugin has started itself, whose exit code the plugin may still ask for. So it waits for children
only when MANY have ended, and only for those that ended at least LOOK_S ago.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

from spark_tasks.process.descendants import children
from spark_tasks.process.process_state import start_of

MANY: Final = 100
LOOK_S: Final = 5.0


class ForgottenChildren:
    """Those of this process."""

    def __init__(self) -> None:
        self._ended: frozenset[int] = frozenset()
        self._looked = 0.0

    def reap(self) -> None:
        """If MANY children have ended, waits for those that had ended at the last look, at least LOOK_S ago. To be
        called often: it takes a microsecond if none has ended.
        """
        try:
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return
        except ChildProcessError:  # there are none
            return
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        ended = frozenset(pid for pid in children(os.getpid()) if _has_ended(pid))
        if len(ended) >= MANY:
            for pid in ended & self._ended:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        self._ended = ended


def _has_ended(pid: int) -> bool:
    try:
        return start_of(pid) is None
    except OSError:  # too many open files
        return False


forgotten_children: Final = ForgottenChildren()
