"""The worker's side of reading the stacks of an executor process, which writes them to a file (stack_file.py)."""

from __future__ import annotations

from pathlib import Path

from spark_tasks.process.process_state import why_signal_is_ignored
from spark_tasks.spark.residents.process import Resident
from spark_tasks.spark.stacks import STACK_SIGNAL, request_stacks


def read_stacks(resident: Resident, folder: Path) -> tuple[str, str]:
    """What there is to say of where a process is, and its stacks if they are available. `folder`: that of the files.
    Takes up to two seconds.
    """
    line = resident.line
    if line is None or not line.pid:
        return "The log of its Spark executor shows the stack", ""
    try:
        with (folder / str(resident.number)).open(errors="replace") as file:
            stacks = request_stacks(line.pid, file, lambda: not line.ended)
    except OSError:
        return "Its process has just ended", ""
    if stacks is None:
        return "Its split has just ended", ""
    if not stacks:
        return f"Its process {line.pid} writes no stack: {why_signal_is_ignored(line.pid, STACK_SIGNAL)}", ""
    return f"The stack of its process {line.pid}:", stacks
