"""Reaps zombies: children that have ended and that nobody has waited for.

An executor process adopts the daemons that a plugin starts (reaper.py), and so has to wait for them when they have
ended: each would stay a zombie, and after some thousands the system would have no process id left. It cannot tell them
from children that the plugin has started itself, whose exit code the plugin may still ask for. So it reaps
children only when MAX_ZOMBIES have ended, and only those that ended at least SCAN_S ago.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

from spark_tasks.process.descendants import children
from spark_tasks.process.process_state import start_time_of

MAX_ZOMBIES: Final = 100
SCAN_S: Final = 5.0


class Zombies:
    """Those of this process."""

    def __init__(self) -> None:
        self._ended: frozenset[int] = frozenset()
        self._scanned = 0.0

    def reap(self) -> None:
        """If MAX_ZOMBIES children have ended, waits for those that had ended at the last scan, at least SCAN_S ago. To
        be called often: it takes a microsecond if none has ended.
        """
        try:
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return
        except ChildProcessError:  # there are none
            return
        now = time.monotonic()
        if now - self._scanned < SCAN_S:
            return
        self._scanned = now
        ended = frozenset(pid for pid in children(os.getpid()) if _has_ended(pid))
        if len(ended) >= MAX_ZOMBIES:
            for pid in ended & self._ended:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        self._ended = ended


def _has_ended(pid: int) -> bool:
    try:
        return start_time_of(pid) is None
    except OSError:  # too many open files
        return False


zombies: Final = Zombies()
