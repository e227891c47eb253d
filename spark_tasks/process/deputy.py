"""A deputy of a parent of executor processes: while the parent imports a module, which may hang with the GIL, this
process, which the parent has forked, waits for the end of the worker in its place. ADR 0053.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.descendants import kill_descendants

_WORKER_S: Final = 1.0  # how long after its connections a worker that was killed may take to end


def fork_deputy(
    files: ExitStack, worker: int, leash: int, prepare: Callable[[], None], kill: Callable[[], None]
) -> int:
    """Forks a deputy, which calls `prepare`, and ends when `files` are closed. Returns its process id.

    When the worker ends, whose pidfd is `worker`, it kills this process with all its descendants, and calls `kill`. It
    only kills this process if no more than the connection with the descriptor `leash` has ended; -1: there is none.
    Raises OSError.
    """
    over, block = os.pipe()
    files.callback(os.close, over)
    close_on_fork(files.enter_context(os.fdopen(block, "wb", buffering=0)))  # so that no other process has it
    if leash >= 0:
        leash = os.dup(leash)  # as the connection is closed in a process that is forked
        files.callback(os.close, leash)
    parent, deputy = os.getpid(), os.fork()
    if not deputy:
        try:
            prepare()
            _wait(parent, over, worker, leash, kill)
        finally:
            os._exit(0)
    return deputy


def _wait(parent: int, over: int, worker: int, leash: int, kill: Callable[[], None]) -> None:
    """`over` can be read when the deputy is no longer needed, or its parent has ended."""
    ready = _first_of(None, over, worker, leash)
    if not ready & {over, worker}:  # the worker is about to end; or it lives, and the import may still end
        ready = _first_of(_WORKER_S, over, worker)
    if worker in ready:
        if os.getppid() == parent:
            kill_descendants(parent, spared=os.getpid())
        kill()
    if over not in ready and os.getppid() == parent:
        os.kill(parent, signal.SIGKILL)


def _first_of(timeout_s: float | None, *files: int) -> set[int]:
    """Waits until some of these can be read, and returns which; -1 stands for none."""
    poll = select.poll()
    for file in files:
        if file >= 0:
            poll.register(file, select.POLLIN)
    return {file for file, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
