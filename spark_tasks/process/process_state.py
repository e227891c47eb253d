"""The state of a process on this machine, from Linux."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_STEP_S = 0.005
_EXIT = 49  # the place of exit_code, field 52, after the name
_ENDED = "ZX"  # a zombie, or dead

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuUse:
    """The CPU seconds that a process has used, and whether its main thread is running or ready to run."""

    seconds: float
    runnable: bool


def cpu_use(pid: int) -> CpuUse | None:
    """None on other systems. Zero if the process has ended."""
    if sys.platform != "linux":
        return None
    try:
        fields = _fields(Path(f"/proc/{pid}/stat"))
    except OSError:
        return CpuUse(0.0, runnable=False)
    return CpuUse((int(fields[11]) + int(fields[12])) / _TICKS_PER_S, fields[0] == "R")


def ready_s(pid: int) -> float:
    """How many seconds the main thread of the process has waited for a CPU since its start. 0.0 if it has ended, on
    other systems and on kernels without these statistics.
    """
    try:  # ns on a CPU, ns of waiting for one, turns
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) * 1e-9
    except (OSError, IndexError):
        return 0.0


def is_suspended(pid: int) -> bool:
    """Whether a signal has stopped the process. False on other systems, and for one that a debugger looks at."""
    if sys.platform != "linux":
        return False
    try:
        return _fields(Path(f"/proc/{pid}/stat"))[0] == "T"
    except OSError:
        return False


def start_time_of(pid: int) -> str | None:
    """When the process was started, as the kernel counts: another process with this number has another start. None if
    it has ended, and on other systems. Raises OSError if that cannot be read now: this process may have too many open
    files.
    """
    try:
        fields = _fields(Path(f"/proc/{pid}/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in _ENDED else fields[19]


def count_threads() -> int:
    """The number of this process's threads. 0 on other systems, and if it cannot be read."""
    try:
        return int(_fields(Path("/proc/self/stat"))[17])
    except OSError:
        return 0


def group_and_session(pid: int) -> tuple[int, int]:
    """The process group and the session of a process, also of one that has ended and that nobody has waited for. Zeros
    if there is none, and on other systems.
    """
    try:
        fields = _fields(Path(f"/proc/{pid}/stat"))
    except OSError:
        return 0, 0
    return int(fields[2]), int(fields[3])


def process_name(pid: int) -> str:
    """The name of a process, of at most 15 bytes, which it keeps when it has ended and nobody has waited for it. Empty
    if there is none, and on other systems.
    """
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").removesuffix("\n")
    except OSError:
        return ""


def has_ended(pid: int, within_s: float) -> bool:
    """Whether all threads of the process end within this time. False on other systems, and if that cannot be read."""
    deadline = time.monotonic() + within_s
    while sys.platform == "linux":
        try:  # of each thread: the first one may be a zombie while another one is still in a system call
            states = [_fields(thread / "stat")[0] for thread in Path(f"/proc/{pid}/task").iterdir()]
        except OSError:
            states = [] if not Path(f"/proc/{pid}").exists() else ["?"]  # a thread has ended, or no file can be opened
        if all(state in _ENDED for state in states):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP_S)
    return False


def exit_code(pid: int) -> int | None:
    """How a process has ended that nobody has waited for: its exit code, or the negative number of the signal that has
    killed it. None if it has not ended, if somebody has waited for it, and on other systems.
    """
    try:
        fields = _fields(Path(f"/proc/{pid}/stat"))
    except OSError:
        return None
    return os.waitstatus_to_exitcode(int(fields[_EXIT])) if fields[0] in _ENDED and len(fields) > _EXIT else None


def handles_signal(pid: int, number: int) -> bool:
    """Whether the process has a handler for this signal, which is not blocked. True on other systems."""
    masks = _signals(pid)
    return not masks or (_has(masks["SigCgt"], number) and not _has(masks["SigBlk"], number))


def why_signal_is_ignored(pid: int, number: int) -> str:
    """Why a process does not react to a signal for which heeler has a handler there."""
    name = signal.Signals(number).name
    try:
        state = _fields(Path(f"/proc/{pid}/stat"))[0]
    except OSError:
        return "it may be suspended" if sys.platform != "linux" else "it has ended"
    masks = _signals(pid)
    if state in "Tt":
        return "it is suspended (SIGSTOP)" if state == "T" else "a debugger has stopped it"
    for mask, does in (("SigIgn", "ignores"), ("SigBlk", "has blocked")):
        if masks and _has(masks[mask], number):
            return f"a plugin {does} {name}, the signal that asks for it"
    if masks and not _has(masks["SigCgt"], number):
        return f"a plugin has removed the handler of {name}, the signal that asks for it"
    if state == "D":
        return "it waits in the kernel, for a disk or a file system"
    return f"the machine may be too busy, or a plugin has replaced the handler of {name}, the signal that asks for it"


def _signals(pid: int) -> dict[str, int]:
    """The masks of signals of a process's main thread. Empty if it has ended, and on other systems."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    parts = [line.partition(":") for line in lines if line.startswith("Sig")]
    return {name: int(text, 16) for name, _, text in parts if name != "SigQ"}


def _has(mask: int, number: int) -> bool:
    return bool(mask >> (number - 1) & 1)


def _fields(stat: Path) -> list[str]:
    """The fields after the process's name, which may contain spaces and parentheses. The first one is the state."""
    return stat.read_text().rpartition(")")[2].split()
