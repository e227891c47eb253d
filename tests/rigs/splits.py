"""Splits for tests of the engine; executors import them by this name."""

from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import locale
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from spark_tasks.errors import DataError
from spark_tasks.spark.warm import warm_up
from tests.rigs.support import wait_until


@dataclass(frozen=True)
class Answer:
    """Returns its number, after a while."""

    number: int
    seconds: float = 0.0

    def run(self) -> int:
        time.sleep(self.seconds)
        return self.number


@dataclass(frozen=True)
class Fail:
    text: str

    def run(self) -> None:
        raise DataError(self.text)


@dataclass(frozen=True)
class Poison:
    """Its result can be pickled, but not unpickled."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        return int, ("no number",)


@dataclass(frozen=True)
class AnswerPoison:
    def run(self) -> Poison:
        return Poison()


@dataclass(frozen=True)
class EndGroup:
    """Ends its process, and all of its group."""

    def run(self) -> None:
        os.kill(0, signal.SIGTERM)


def interrupt() -> None:
    raise KeyboardInterrupt


@dataclass(frozen=True)
class Trap:
    """Unpickling it raises what is not an Exception."""

    def __reduce__(self) -> tuple[object, ...]:
        return interrupt, ()


@dataclass(frozen=True)
class AnswerTrap:
    def run(self) -> Trap:
        return Trap()


@dataclass(frozen=True)
class Hang:
    """Creates the file and sleeps."""

    started: str

    def run(self) -> None:
        Path(self.started).touch()
        time.sleep(60)


@dataclass(frozen=True)
class Meet:
    """Returns when this many of them run at the same time."""

    folder: str
    count: int

    def run(self) -> int:
        (Path(self.folder) / str(os.getpid())).touch()
        wait_until(lambda: len(list(Path(self.folder).iterdir())) >= self.count)
        return len(list(Path(self.folder).iterdir()))


@dataclass(frozen=True)
class KillWorker:
    def run(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Describe:
    """Describes the Python worker."""

    def run(self) -> dict[str, object]:
        return {
            "pid": os.getpid(), "parent": os.getppid(), "executable": sys.executable,
            "hot": "numba" in sys.modules and "spark_tasks.sinks.split" in sys.modules,
            "daemon": Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode().split("\0"),
            "daemon_threads": len(list(Path(f"/proc/{os.getppid()}/task").iterdir())),
            "threads": threading.active_count(),
        }


@dataclass(frozen=True)
class Surroundings:
    """What code finds in its process."""

    def run(self) -> dict[str, object]:
        return {
            "parent": os.getppid(), "group": os.getpgrp() == os.getpid(), "folder": str(Path.cwd()),
            "arguments": sys.argv, "pandas": importlib.import_module("pandas").__name__,
            "environment": dict(os.environ), "path": list(dict.fromkeys(sys.path)),
            "signals": [(n, signal.getsignal(n)) for n in signal.valid_signals() if n != signal.SIGUSR2],
            "files": len(list(Path("/proc/self/fd").iterdir())),
            "most files": resource.getrlimit(resource.RLIMIT_NOFILE),
            "streams": [(one.encoding, one.errors, one.write_through, type(one.buffer).__name__)
                        for one in (sys.stdout, sys.stderr)],
            "same streams": (sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__),
            "loggers": {name: one.level for name, one in logging.root.manager.loggerDict.items()
                        if isinstance(one, logging.Logger) and one.level},
            "handlers": len(logging.root.handlers), "title": Path("/proc/self/cmdline").read_bytes().strip(b"\0"),
        }


@dataclass(frozen=True)
class Say:
    """Writes the text in every possible way."""

    text: str

    def run(self) -> None:
        print(f"printed {self.text}")  # noqa: T201 - as plugins do
        sys.stderr.write(f"written {self.text}\n")
        logging.getLogger("some.plugin").warning("warned of %s", self.text)


@dataclass(frozen=True)
class EndProcess:
    """Ends its process. `how`: exit, or abort (a crash in C)."""

    how: str

    def run(self) -> None:
        if self.how == "exit":
            os._exit(0)
        os.abort()


@dataclass(frozen=True)
class LeaveProcesses:
    """Starts processes, of which one has a session of its own, one is a daemon and one was forked, and writes the ids
    of its own process and of them to the file. Then it ends its process: `how` is exit, or a signal that it sends
    itself; or "hang", without descriptors, or "unleashed", without the leash only.
    """

    file: str
    how: str

    def run(self) -> None:
        daemon = subprocess.check_output(["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"])
        if not (forked := os.fork()):
            time.sleep(600)
            os._exit(0)
        pids = [os.getpid(), subprocess.Popen(["sleep", "600"]).pid, int(daemon), forked,
                subprocess.Popen(["sleep", "600"], start_new_session=True).pid]
        Path(self.file).write_text(" ".join(map(str, pids)) + "\n")
        if self.how in {"hang", "unleashed"}:
            for number in [int(file.name) for file in Path("/proc/self/fd").iterdir()]:
                with suppress(OSError):
                    if number > 2 and (self.how == "hang" or fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ASYNC):
                        os.close(number)
            while True:
                ctypes.PyDLL(None).sleep(60)  # no other thread can run
        if self.how == "exit":
            os._exit(3)
        os.kill(os.getpid(), signal.Signals[self.how])


@dataclass(frozen=True)
class HoldInterpreter:
    """Sleeps in C for a minute, so that no other thread of its process can run; the file contains its process's id."""

    started: str

    def run(self) -> None:
        Path(self.started).write_text(str(os.getpid()))
        left = 60
        while left:  # a signal interrupts it
            left = ctypes.PyDLL(None).sleep(left)


@dataclass(frozen=True)
class ForgetAlarm:
    """Forgets an alarm, and the signal for stacks is not handled any more."""

    def run(self) -> int:
        signal.alarm(1)
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)
        return os.getpid()


@dataclass(frozen=True)
class HangWithSignal:
    """Changes the handler of the signal for stacks, and sleeps."""

    action: str
    seconds: float = 60.0

    def run(self) -> None:
        signal.signal(signal.SIGUSR2, signal.Handlers[self.action])
        time.sleep(self.seconds)


@dataclass(frozen=True)
class ImportModule:
    """Imports the module of a file, once in a process, as plugins are; without a file, none. Returns what all code in
    the process sees: its zone, locale, default timeout and umask; and the process.
    """

    file: str = ""

    def run(self) -> tuple[object, ...]:
        if self.file and self.file not in sys.modules:
            spec = importlib.util.spec_from_file_location(self.file, self.file)
            assert spec is not None
            assert spec.loader is not None
            module = sys.modules[self.file] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        umask = os.umask(0o077)
        os.umask(umask)
        return time.tzname, locale.setlocale(locale.LC_CTYPE), socket.getdefaulttimeout(), umask, os.getpid()


@dataclass(frozen=True)
class ImportUsual:
    """Uses what most plugins import, and heeler's own pipelines and connectors. Returns its process."""

    def run(self) -> int:
        frame = importlib.import_module("pandas").DataFrame({"a": [1]})
        for name in ("pyarrow.parquet", "pyarrow.dataset", "datafusion", "requests",
                     "confluent_kafka.schema_registry", "spark_tasks.connectors.files.connector",
                     "spark_tasks.connectors.parquet.writer", "spark_tasks.connectors.file_stream.connectors"):
            importlib.import_module(name)
        pa.Table.from_pandas(frame).to_pandas()
        warm_up()
        return os.getpid()


@dataclass(frozen=True)
class LeaveBehind:
    """Returns its process, in which a thread goes on: one that uses the CPU, or a timer; or many that sleep."""

    kind: str

    def run(self) -> int:
        if self.kind == "timer":
            threading.Timer(60.0, os._exit, (1,)).start()
        elif self.kind == "threads":
            for _ in range(200 + 8 * (os.cpu_count() or 1)):
                threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        else:
            threading.Thread(target=_loop, daemon=True).start()
        return os.getpid()


@dataclass(frozen=True)
class LoopOnOneCpu:
    """Loops, always on the same CPU."""

    def run(self) -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        _loop()


def _loop() -> None:
    while True:
        pass


@dataclass(frozen=True)
class OomScore:
    """How much rather than others the kernel ends its process if memory is full."""

    def run(self) -> int:
        return int(Path("/proc/self/oom_score_adj").read_text())


@dataclass(frozen=True)
class CloseDescriptors:
    """Closes all its process's descriptors, as a library does that makes a daemon of its process, and goes on."""

    def run(self) -> None:
        os.closerange(3, 1024)
        time.sleep(60)


@dataclass(frozen=True)
class IsImported:
    """Whether its process has already imported the module."""

    name: str

    def run(self) -> bool:
        return self.name in sys.modules


@dataclass(frozen=True)
class Note:
    """Writes its number to a file, and returns the process that it ran in."""

    number: int
    file: str

    def run(self) -> str:
        with Path(self.file).open("a") as file:
            file.write(f"{self.number}\n")
        command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode()
        return "spark" if "spark_tasks.spark.daemon" in command else "local"
