"""The parent of the worker's own executor processes, which run splits before Spark is up.

It imports everything that splits need, and forks a process for each ticket that it reads from standard input. With each
ticket come the names of the modules that the worker's connectors need. At the end of the input it exits; the worker
ends the processes that are still running. It is this module as a program, or forked by the worker (forked_parent.py).
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import Final, NoReturn

from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.reaper import Reaper
from spark_tasks.spark.daemon import preload, refuse_threads
from spark_tasks.spark.environment import ENVIRONMENT, inherited
from spark_tasks.spark.process_output import log_as_the_worker
from spark_tasks.spark.residents.fork_requests import fork_for_each

TITLE: Final = "heeler executor processes"  # in the output of ps


def start_parent(path: str) -> subprocess.Popen[bytes]:
    """Starts this module as a program, with this search path of modules. Raises OSError."""
    parent = subprocess.Popen(  # noqa: S603 - our own command; Ctrl-C must only reach the worker
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment_of(path), process_group=0,
    )
    assert parent.stdin is not None  # noqa: S101 - a pipe was asked for
    close_on_fork(parent.stdin)
    return parent


def environment_of(path: str) -> dict[str, str]:
    """The environment variables of a parent with this search path of modules."""
    # Unbuffered, as Spark's own processes are: no output is lost if a process is killed, or repeated after a fork.
    return {**inherited(), **ENVIRONMENT, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def entitle() -> None:
    """Gives this process its title, on Linux: elsewhere it may crash after a fork."""
    if sys.platform == "linux":
        from setproctitle import setproctitle  # noqa: PLC0415 - only there

        setproctitle(TITLE)


def serve() -> NoReturn:
    """The parent process: preloads, then forks a process for each ticket."""
    entitle()
    log_as_the_worker()
    reaper = Reaper()
    reaper.end_with_worker(os.getppid())
    with reaper.deputized():
        preload()
    refuse_threads()
    assert isinstance(sys.stdin.buffer, io.BufferedReader)  # noqa: S101 - what Python opens
    fork_for_each(sys.stdin.buffer, reaper)
    reaper.await_all()
    os._exit(0)  # nothing that was imported has to be closed


if __name__ == "__main__":
    serve()
