"""What Linux says of a process on this machine."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_STEP_S = 0.005
_ENDED = "ZX"  # a zombie, or dead

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU seconds of a process so far, and whether its main thread would use more now."""

    seconds: float
    runnable: bool


def cpu_use(pid: int) -> CpuUse | None:
    """None where the system does not say. A process that has ended has used none."""
    if sys.platform != "linux":
        return None
    try:
        fields = _fields(Path(f"/proc/{pid}/stat"))
    except OSError:
        return CpuUse(0.0, runnable=False)
    return CpuUse((int(fields[11]) + int(fields[12])) / _TICKS_PER_S, fields[0] == "R")


def has_ended(pid: int, within_s: float) -> bool:
    """Whether no thread of the process runs any more; waits for that. False where the system does not say."""
    deadline = time.monotonic() + within_s
    while sys.platform == "linux":
        try:  # of each thread: the first one may be a zombie while another one is still in a system call
            states = [_fields(thread / "stat")[0] for thread in Path(f"/proc/{pid}/task").iterdir()]
        except (FileNotFoundError, ProcessLookupError):
            states = [] if not Path(f"/proc/{pid}").exists() else ["?"]  # one thread has ended meanwhile: look again
        if all(state in _ENDED for state in states):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP_S)
    return False


def _fields(stat: Path) -> list[str]:
    """Those after the name, which may have spaces and parentheses: the state is the first."""
    return stat.read_text().rpartition(")")[2].split()
