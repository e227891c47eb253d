"""Describes how an executor process has ended: its exit code or signal, and what that means."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Final

from spark_tasks.process.process_state import exit_code, has_ended, is_suspended

ENDING_S = 0.2  # how long a process may take to end after its connections have
_WHY: Final = {
    signal.SIGKILL: ": perhaps the system was out of memory, which the kernel's log would say",
    signal.SIGSEGV: ": a crash in native code",
    signal.SIGBUS: ": a crash in native code",
    signal.SIGABRT: ": native code called abort()",
}


def describe_end(pid: int, within_s: float, error: object = None) -> str:
    """What has become of a process whose connection has ended, with this error if it ran a split: what follows after
    "the executor process of a task". Waits at most this time for its end. The caller then kills it if it still runs.
    `pid` is 0 if it is on another machine.
    """
    why = "" if error is None else f": {error}"
    if not pid:
        return f"ended{why}"
    if not has_ended(pid, within_s):
        if is_suspended(pid):
            return "was suspended (SIGSTOP) and has been killed"
        return f"lost its connection to the worker (a plugin may have closed it) and has been killed{why}"
    code = exit_code(pid)
    return f"ended{why}" if code is None else describe_exit_code(code)


def describe_exit_code(code: int) -> str:
    """An exit code, or the negative number of a signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    name, why = "", ""
    with suppress(ValueError):  # a real-time signal
        found = signal.Signals(-code)
        name, why = f" ({found.name})", _WHY.get(found, "")
    return f"was killed by signal {-code}{name}{why}"
