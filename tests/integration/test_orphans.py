"""Nothing that a plugin has started in an executor process goes on without it, or without the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from spark_tasks.spark.context import ExecutorEndedError
from spark_tasks.spark.environment import python_path
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.spark.residents.settings import ExecutorSettings
from tests.rigs.splits import Answer, LeaveProcesses
from tests.rigs.support import wait_until
from tests.rigs.workers import existing, wait_gone

pytestmark = pytest.mark.integration

START_S = 120.0
SETTINGS = ExecutorSettings(max_processes=4, running=4, spark_delay_s=600.0)

# A worker, as far as its executor processes notice: splits run in them, and hang.
WORKER = """
import itertools, os, re, sys, time
from pathlib import Path
import psutil
from spark_tasks.spark.environment import keep_environment
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.spark.residents.forked_parent import fork_parent
from spark_tasks.spark.residents.local_parent import serve
from spark_tasks.spark.residents.settings import ExecutorSettings
from tests.rigs.splits import Describe, LeaveProcesses
from tests.rigs.support import wait_until

def hang(name, file):
    how = "unleashed" if "killed" in sys.argv else "hang"  # without any connection, the worker kills it soon
    engine.submit(f"{name}-0", [LeaveProcesses(str(file), how)])
    wait_until(lambda: file.exists() and file.read_text().endswith("\\n"), 120)
    return int(file.read_text().split()[0])

def hang_in_a_process_of_the_fork_server(file):
    wait_until(on_spark, 120)
    daemon = psutil.Process(parent())
    wait_until(lambda: [one for one in daemon.children() if os.getsid(one.pid) == one.pid], 60, "a fork server")
    daemon.suspend()
    others = (file.with_name(f"hangs-{n}") for n in itertools.count())
    found, found_pid = next((other, pid) for other in others
                            if psutil.Process(pid := hang(other.name, other)).ppid() != daemon.pid)
    daemon.resume()
    if "killed" in sys.argv:
        server = psutil.Process(found_pid).parent()
        daemon.kill()
        server.kill()
        wait_until(lambda: knows(found_pid, server.pid), 120, "the next fork server to know it")
    found.rename(file)

def knows(pid, former):
    # Whether another fork server than the former one has a handle of the process.
    for process in psutil.Process().children(recursive=True):
        if process.name() == "heeler-forks" and process.pid != former:
            for file in Path(f"/proc/{process.pid}/fdinfo").iterdir():
                if re.search(rf"^Pid:\\s+{pid}$", file.read_text(), re.MULTILINE):
                    return True
    return False

def on_spark():
    return "spark_tasks.spark.daemon" in psutil.Process(parent()).cmdline()

def parent():
    (found,) = engine.submit("a-0", [Describe()]).result(60)
    return found["parent"]

keep_environment()
if "forked" in sys.argv and fork_parent():
    serve()
spark = {"spark", "fork server", "killed"} & {*sys.argv}
delay = 0.0 if spark else 600.0
engine = ResidentEngine({}, ExecutorSettings(max_processes=4, running=4, spark_delay_s=delay))
engine.start()
if spark:
    engine.await_spark()
if {"fork server", "killed"} & {*sys.argv}:
    hang_in_a_process_of_the_fork_server(Path(sys.argv[1]))
else:
    hang("a", Path(sys.argv[1]))
if not (forked := os.fork()):  # a plugin does this in the worker
    time.sleep(600)
Path(sys.argv[3]).write_text(f"{forked}\\n")
time.sleep(600)
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[], list[psutil.Process]]]:
    """What a LeaveProcesses has started, and its process, which is the first one. Whatever is left is killed."""
    found: list[psutil.Process] = []

    def processes() -> list[psutil.Process]:
        file = tmp_path / "pids"
        text = wait_until(lambda: file.exists() and file.read_text().endswith("\n") and file.read_text(), START_S)
        found.extend(existing(text))
        return found

    yield processes
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.parametrize("how", ["exit", "SIGSEGV", "SIGKILL"])
def test_they_end_with_their_executor_process(
    tmp_path: Path, started: Callable[[], list[psutil.Process]], how: str
) -> None:
    engine = ResidentEngine({}, SETTINGS)
    engine.start()
    try:
        with pytest.raises(ExecutorEndedError):
            engine.submit("a-0", [LeaveProcesses(str(tmp_path / "pids"), how)]).result(START_S)
        wait_gone(started())
        assert engine.submit("a-0", [Answer(1)]).result(START_S) == [1]
    finally:
        engine.close()


@pytest.mark.parametrize("parent", ["program", "forked", "spark", "fork server", "killed"])
def test_they_end_with_the_worker_however_that_ends(
    tmp_path: Path, started: Callable[[], list[psutil.Process]], parent: str
) -> None:
    """Also if the plugin has closed all descriptors and holds the GIL, so that its process notices nothing, and
    although a process that was forked by a plugin in the worker outlives it. "killed": Spark's daemon, and then the
    fork server that has forked the process.
    """
    forked = tmp_path / "forked"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path / "pids"), parent, str(forked)], cwd=tmp_path,
                              env={**os.environ, "PYTHONPATH": python_path()})
    with worker:
        try:
            processes = started()
            assert all(one.is_running() for one in processes[1:])
            above = processes[0].parents()
            parents = above[:[one.pid for one in above].index(worker.pid)] if worker.pid in map(pid, above) else []
            other = wait_until(lambda: forked.exists() and forked.read_text().endswith("\n") and forked.read_text())
            worker.kill()
            worker.wait()
            wait_gone([*processes, *parents])
            os.kill(int(other), 0)
        finally:
            worker.kill()
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(forked.read_text() if forked.exists() else ""), signal.SIGKILL)


def pid(process: psutil.Process) -> int:
    return process.pid
