"""How an executor process has ended, in words."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Final

from spark_tasks.process.process_state import exit_code, has_ended, is_suspended

_WHY: Final = {
    signal.SIGKILL: ": perhaps the system had too little memory, as the kernel's log then says",
    signal.SIGSEGV: ": a crash in native code",
    signal.SIGBUS: ": a crash in native code",
    signal.SIGABRT: ": native code has given up",
}


def ending(pid: int, within_s: float, error: object) -> str:
    """What has become of a process whose connection has ended with this error: what follows after "the executor process
    of a task". Waits at most this time for its end. `pid` is 0 if it is on another machine.
    """
    if not pid:
        return f"ended: {error}"
    if not has_ended(pid, within_s):
        if is_suspended(pid):
            return "is suspended (SIGSTOP), and is ended"
        return f"has lost its connection to the worker, which a plugin may have closed, and is ended: {error}"
    code = exit_code(pid)
    return f"ended: {error}" if code is None else in_words(code)


def in_words(code: int) -> str:
    """An exit code, or the negative number of a signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    name, why = "", ""
    with suppress(ValueError):  # a real-time signal
        found = signal.Signals(-code)
        name, why = f" ({found.name})", _WHY.get(found, "")
    return f"was killed by signal {-code}{name}{why}"
