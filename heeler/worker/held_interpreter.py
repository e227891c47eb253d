"""Shows which native code holds the global interpreter lock (GIL), so that nothing else in the worker runs: no REST
request, no heartbeat, no log line, no signal handler. A plugin's regular expression that backtracks without end is an
example.
"""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
import time
from typing import Self

_logger = logging.getLogger(__name__)

HELD_S = 10.0  # CPU seconds of the process within which the main thread has to run
_ALONE, _ALL = signal.SIGVTALRM, signal.SIGPROF  # of the timers below


class HeldInterpreter:
    """While it is entered, writes stacks to the process's standard output when the GIL has been held for `limit_s`,
    and again after each further `limit_s`: first the stack of the thread that holds it, if the kernel delivers the
    signal to that thread (Linux since 6.4), then those of up to a hundred threads. Two timers of the kernel do that,
    whose signals have native handlers. They count CPU time: a worker that is suspended or gets no CPU writes nothing.

    SIGQUIT writes the stacks of all threads at any time, as in a JVM.
    """

    def __init__(self, limit_s: float = HELD_S) -> None:
        self._limit_s = limit_s
        self._cpu_s = 0.0

    def __enter__(self) -> Self:
        for name, everyone in ((_ALONE, False), (_ALL, True), (signal.SIGQUIT, True)):
            faulthandler.register(name, sys.__stdout__ or 1, all_threads=everyone)
        self._cpu_s = time.process_time()
        return self

    def beat(self) -> None:
        """The main thread runs. To be called several times a second."""
        signal.setitimer(signal.ITIMER_VIRTUAL, self._limit_s, self._limit_s)
        signal.setitimer(signal.ITIMER_PROF, self._limit_s, self._limit_s)
        before, self._cpu_s = self._cpu_s, time.process_time()
        if self._cpu_s - before > self._limit_s:
            _logger.warning(
                "The worker stood still for %.0f s: native code, probably of a plugin, held Python's global "
                "interpreter lock (GIL). The stacks above show where; the first one is usually that of this code",
                self._cpu_s - before)

    def __exit__(self, *_: object) -> None:
        for timer, name in ((signal.ITIMER_VIRTUAL, _ALONE), (signal.ITIMER_PROF, _ALL)):
            signal.setitimer(timer, 0)
            faulthandler.unregister(name)
        faulthandler.unregister(signal.SIGQUIT)
