"""The metrics of an engine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """A snapshot. `up`: whether Spark is running. `slots`: how many splits can run at the same time. `batches`: the
    number of batches submitted since the start; `waiting` and `running`: those in flight. `pid`: that of Spark's JVM.
    """

    up: bool = False
    slots: int = 0
    batches: int = 0
    waiting: int = 0
    running: int = 0
    pid: int | None = None


def memory_of(pid: int) -> dict[str, int]:
    """Returns the resident memory of Spark's JVM ("jvm") and of its Python processes ("python") in bytes, without those
    that the system does not report (it does on Linux).
    """
    bytes_by_process = {"jvm": 0, "python": 0}
    page = os.sysconf("SC_PAGE_SIZE")
    for kind, pids in (("jvm", [pid]), ("python", list(_descendants(pid)))):
        for one in pids:
            with suppress(OSError, ValueError, IndexError):  # the process has just ended
                bytes_by_process[kind] += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * page
    return {kind: size for kind, size in bytes_by_process.items() if size}


def _descendants(pid: int) -> Iterable[int]:
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # the process has just ended
                for child in map(int, (thread / "children").read_text().split()):
                    yield child
                    yield from _descendants(child)
