"""Starts the workers of tests without their imports, which take more than half of the CPU time of a worker's start.

A process that has imported everything forks them. Otherwise they start, run and end as `python -m heeler worker FILE`
does. Tests of the command line, signals and the package start workers as a user does, and so do benchmarks.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from heeler.embedded_kafka.guard import GuardedProcess
from spark_tasks.process.private_files import open_private

_MAX_REQUEST = 1 << 20
_CODE_BYTES = 2


def launcher() -> Callable[..., Any]:
    """What runs the command of a WorkerProcess, in a test or elsewhere."""
    return ForkedWorker if "PYTEST_CURRENT_TEST" in os.environ else GuardedProcess


class ForkedWorker:
    """A worker's process: what WorkerProcess uses of GuardedProcess. `command`: as for that one."""

    def __init__(self, command: list[str], log: Path, env: Mapping[str, str]) -> None:
        commands, self._commands = os.pipe()
        self._ended, ended = os.pipe()
        with open_private(log, "a") as output:
            self.pid = _nursery().fork({"command": command, "env": dict(env), "folder": str(Path.cwd())},
                                       [commands, ended, output.fileno()])
        os.close(commands)
        os.close(ended)
        self._code: int | None = None
        self._lock = threading.Lock()

    def exit_code(self) -> int | None:
        """The worker's exit code: None while it runs, 128 + n if signal n ended it."""
        return self.wait(0)

    def wait(self, seconds: float) -> int | None:
        """Waits for the worker. Returns its exit code, or None if it still runs after this time."""
        deadline = time.monotonic() + seconds
        while True:
            with self._lock:
                code = self._ended_with(min(0.1, max(0.0, deadline - time.monotonic())))
            if code is not None or time.monotonic() >= deadline:
                return code

    def _ended_with(self, seconds: float) -> int | None:
        if self._code is None and _readable(self._ended, seconds):
            self._code = int.from_bytes(os.read(self._ended, _CODE_BYTES) or b"\x89")  # its guard was killed
            os.close(self._ended)
            os.close(self._commands)
        return self._code

    def signal(self, name: str) -> None:
        """Sends the worker a signal by its name without SIG: TERM, STOP, CONT, KILL."""
        with self._lock, suppress(BrokenPipeError):
            if self._ended_with(0) is None:
                os.write(self._commands, f"{name}\n".encode())

    def close(self, grace: float = 0.0) -> None:
        """Ends the worker: TERM and at most `grace` seconds, then KILL. Returns when it has ended. May be repeated."""
        if grace > 0:
            self.signal("TERM")
            self.wait(grace)
        self.signal("KILL")
        assert self.wait(30) is not None


class _Nursery:
    """The client of this process's nursery, which ends with this process."""

    def __init__(self) -> None:
        from spark_tasks.spark.environment import ENVIRONMENT

        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            subprocess.Popen([sys.executable, "-m", __name__], stdin=theirs, env=os.environ | ENVIRONMENT)

    def fork(self, request: Mapping[str, Any], files: list[int]) -> int:
        """The process id of a new worker's guard."""
        with self._lock:
            socket.send_fds(self._requests, [json.dumps(request).encode()], files)
            guard = self._requests.recv(_MAX_REQUEST)
        assert guard, "the nursery has ended; the output of the tests says why"
        return int(guard)


@cache
def _nursery() -> _Nursery:
    return _Nursery()


def _readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


# ------------------------------------------------------------ the other process
def main() -> None:
    """Fork workers until the tests end. In a worker's process, this runs the worker."""
    from heeler.__main__ import run
    from spark_tasks.spark.daemon import import_all, preload, refuse_threads

    import_all(("heeler.cli.main", "heeler.worker.process", "spark_tasks.runners"))
    preload()
    refuse_threads()
    with socket.socket(fileno=os.dup(0)) as requests:
        worker = _fork_for_each(requests)
    if worker is not None:
        _become(worker)
        run()


def _fork_for_each(requests: socket.socket) -> dict[str, Any] | None:
    """Returns a worker's request, in its process, and None at the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, (*files,), _, _ = socket.recv_fds(requests, _MAX_REQUEST, 3)
        if not data:
            return None
        if (guard := os.fork()) == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            os.setsid()
            with Path(os.devnull).open("rb") as nothing:
                os.dup2(nothing.fileno(), 0)  # so that only the nursery has its socket
            commands, ended, output = files
            if (worker := os.fork()) == 0:
                os.close(commands)
                os.close(ended)
                return {**json.loads(data), "output": output}
            _guard(worker, commands, ended)
        for file in files:
            os.close(file)
        requests.send(b"%d" % guard)


def _guard(worker: int, commands: int, ended: int) -> None:
    """Pass signals on until the worker has ended, and kill it if the tests have."""
    pidfd = os.pidfd_open(worker)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(commands, select.POLLIN)
    while pidfd not in (ready := [descriptor for descriptor, _ in poll.poll()]):
        names = os.read(commands, 4096).decode().split() if commands in ready else []
        if not names:
            poll.unregister(commands)
        for name in names or ["KILL"]:
            os.kill(worker, signal.Signals[f"SIG{name}"])
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    with suppress(BrokenPipeError):
        os.write(ended, (code if code >= 0 else 128 - code).to_bytes(_CODE_BYTES))
    os._exit(0)


def _become(worker: Mapping[str, Any]) -> None:
    from setproctitle import getproctitle, setproctitle

    getproctitle()  # before the environment is changed
    os.dup2(worker["output"], 1)
    os.dup2(worker["output"], 2)
    os.close(worker["output"])
    os.chdir(worker["folder"])
    os.environ.clear()
    os.environ.update(worker["env"])
    tempfile.tempdir = None
    sys.argv = worker["command"][2:]
    setproctitle(" ".join(worker["command"]))


if __name__ == "__main__":
    main()
