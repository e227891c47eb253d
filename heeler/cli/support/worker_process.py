"""A heeler worker as a child process: the demo and the tests start workers the way a user does."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from heeler.cli.client.rest_client import RestClient
from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.ports import free_port
from heeler.errors import SetupError
from spark_tasks.process.private_files import open_private

_TAIL = 2000  # characters


class WorkerProcess:
    """`heeler worker FILE` in a folder with its properties file and its log. A context manager.

    Without `listeners` in `properties`, the worker gets a free port. `CONNECT_…` variables do not override the
    properties. The process cannot outlive this one. `launch`: what runs the command; tests have another one.
    """

    def __init__(self, folder: Path, properties: Mapping[str, str], name: str = "worker",
                 launch: Callable[..., Any] = GuardedProcess) -> None:
        self.properties = dict(properties)
        port = free_port()
        self.properties.setdefault("listeners", f"http://127.0.0.1:{port}")
        self.properties.setdefault("rest.advertised.host.name", "127.0.0.1")
        self.port = int(self.properties["listeners"].rpartition(":")[2])
        self.file = folder / f"{name}.properties"
        self.log = folder / f"{name}.log"
        self.rest = RestClient("127.0.0.1", self.port)
        self._launch = launch
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def start(self) -> Self:
        """Starts the worker and returns at once."""
        with open_private(self.file, "w") as file:
            file.writelines(f"{k}={v}\n".replace("\\", "\\\\") for k, v in self.properties.items())
        # In the container of another worker, the variables name that worker's cluster.
        env = {name: value for name, value in os.environ.items() if not name.startswith("CONNECT_")}
        self._process = self._launch([sys.executable, "-m", "heeler", "worker", str(self.file)], self.log, env=env)
        return self

    def wait_ready(self, seconds: float = 60) -> Self:
        """Returns when the worker serves requests. Raises SetupError if it ends or is not ready in time."""
        deadline = time.monotonic() + seconds
        while not self.rest.ready():
            if self._process is None or self._process.exit_code() is not None:
                raise SetupError(f"The worker ended; {self.log} ends with:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise SetupError(
                    f"The worker was not ready within {seconds:.0f} s; {self.log} ends with:\n{self.tail()}")
            time.sleep(0.02)
        return self

    @property
    def pid(self) -> int | None:
        """The process id of the guarding shell, whose child the worker is; None before the start and after the end."""
        return self._process.pid if self._process else None

    def tail(self) -> str:
        """The last characters of the worker's log."""
        return self.log.read_text(errors="replace")[-_TAIL:] if self.log.exists() else ""

    def signal(self, name: str) -> None:
        """Sends the worker a signal by its name without SIG: TERM, STOP, CONT, KILL."""
        if self._process is not None:
            self._process.signal(name)

    def exit_code(self) -> int | None:
        """The worker's exit code: None while it runs, 128 + n if signal n ended it."""
        return self._process.exit_code() if self._process else None

    def wait(self, seconds: float) -> int | None:
        """Waits for the worker's end. Returns its exit code, or None if it still runs after this time."""
        return self._process.wait(seconds) if self._process else None

    def kill(self) -> None:
        """Kills the process (kill -9), and waits until it has ended."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def stop(self, grace: float = 30) -> int | None:
        """Stops the worker with SIGTERM, after `grace` seconds with kill -9. Returns its exit code."""
        code = None
        if self._process is not None:
            self._process.close(grace)
            code = self._process.exit_code()
            self._process = None
        return code
