"""The signals that stop a worker. Imports nothing that takes long: the handlers come first.

The kernel drops a signal without a handler if its process is the first one of a container.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable


def end_on_signals() -> threading.Event:
    """Makes the signals of `stop_on_signals` end the process with exit code 0: nothing has to be stopped yet. Returns
    an event that they set, too: a plugin may catch SystemExit.
    """
    signalled = threading.Event()

    def end(_reason: str) -> None:
        signalled.set()
        sys.exit()

    stop_on_signals(end)
    return signalled


def stop_on_signals(stop: Callable[[str], None]) -> None:
    """Calls `stop` with a reason on SIGTERM, Ctrl-C and SIGHUP (unless nohup ignores it)."""
    handled = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handled.append(signal.SIGHUP)
    for name in handled:
        signal.signal(name, lambda number, _frame: stop(f"received {signal.Signals(number).name}"))
