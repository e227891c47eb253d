"""What a forked process leaves behind ends when it does, however it ends, and not before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from spark_tasks.process.process_state import start_time_of
from tests.rigs.support import wait_until
from tests.rigs.workers import wait_gone

# Forks a process that starts others. An executor: a child, one in a session of its own, one that is a daemon at once,
# and one that was forked. It ends itself when it is told to. A fork server: an executor process, which has a child. The
# parent ends with the end of its input, and waits for what is left.
PARENT = """
import os, select, signal, subprocess, sys, time
from pathlib import Path
from spark_tasks.process.reaper import Reaper

def fork_server():
    reaper = Reaper()
    with reaper.as_fork_server():
        if not reaper.fork():
            os.setpgid(0, 0)
            tell(os.getppid(), os.getpid(), subprocess.Popen(["sleep", "600"], process_group=0).pid)
            time.sleep(600)
        time.sleep(600)

def leader():
    os.setsid()
    tell(os.getpid(), subprocess.Popen(["sleep", "600"], process_group=0).pid)
    time.sleep(600)

def executor():
    daemon = subprocess.check_output("setsid sleep 600 >/dev/null 2>&1 & echo $!", shell=True, text=True)
    forked = os.fork()
    if not forked:
        time.sleep(600)
    tell(os.getpid(), subprocess.Popen(["sleep", "600"]).pid,
         subprocess.Popen(["sleep", "600"], start_new_session=True).pid, daemon, forked)
    signal.sigwait({signal.SIGUSR1})
    os._exit(3)

def tell(*pids):
    Path(sys.argv[2]).write_text(" ".join(map(str, map(int, pids))) + "\\n")

reaper = Reaper()
reaper.end_with_worker(int(sys.argv[3]))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
if not reaper.fork():
    globals()[sys.argv[1]]()
    os._exit(0)
reaper.register(0, select.POLLIN)
while not reaper.poll():
    pass
os._exit(not reaper.await_all(20))
"""


@contextmanager
def started(
    what: str, folder: Path, master: int | None = None
) -> Iterator[tuple[psutil.Popen, list[psutil.Process]]]:
    """The parent, and the process that it has forked with those below it."""
    told = folder / "told"
    parent = psutil.Popen([sys.executable, "-c", PARENT, what, str(told), str(master or os.getpid())],
                          stdin=subprocess.PIPE)
    found: list[psutil.Process] = []
    with parent:
        try:
            pids = wait_until(lambda: told.exists() and told.read_text().endswith("\n") and told.read_text().split())
            found = [psutil.Process(int(pid)) for pid in pids]
            yield parent, found
            assert parent.stdin is not None
            parent.stdin.close()
            assert parent.wait(30) == 0
        finally:
            for process in (parent, *found):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("how", [signal.SIGUSR1, signal.SIGSEGV, signal.SIGKILL])
def test_processes_end_with_the_one_that_has_started_them(tmp_path: Path, how: signal.Signals) -> None:
    with started("executor", tmp_path) as (parent, (executor, *below)):
        assert all(map(alive, below)), "also the daemon: it goes on as long as its executor process does"
        executor.send_signal(how)
        wait_gone(below)
        assert alive(parent)


def test_leftovers_of_a_process_with_a_session_of_its_own_are_no_executor_processes(tmp_path: Path) -> None:
    with started("leader", tmp_path) as (parent, (executor, child)):
        executor.kill()
        wait_gone([child])
        assert alive(parent)


@pytest.mark.parametrize("what", ["executor", "leader"])
def test_all_end_when_the_master_does(tmp_path: Path, what: str) -> None:
    with subprocess.Popen(["sleep", "600"]) as master, started(what, tmp_path, master.pid) as (_, processes):
        master.kill()
        wait_gone(processes)


def test_executor_processes_of_a_fork_server_outlive_it(tmp_path: Path) -> None:
    with started("fork_server", tmp_path) as (parent, (server, executor, child)):
        server.kill()
        wait_until(lambda: executor.parent() == parent)
        wait_until(lambda: not server.is_running(), what="the parent has looked at what is left")
        assert alive(executor)
        assert alive(child)
        executor.kill()
        wait_gone([executor, child])


@pytest.mark.parametrize("at_once", [False, True])
def test_executor_processes_of_a_fork_server_that_has_ended_end_with_the_others(tmp_path: Path, at_once: bool) -> None:
    """Also if the parent sees both ends at the same time."""
    with (subprocess.Popen(["sleep", "600"]) as master,
          started("fork_server", tmp_path, master.pid) as (parent, (server, *processes))):
        if at_once:
            parent.suspend()
        server.kill()
        wait_until(lambda: processes[0].parent() == parent)
        master.kill()
        parent.resume()
        wait_gone(processes)


def test_a_fork_server_is_its_own_masters(tmp_path: Path) -> None:
    with (subprocess.Popen(["sleep", "600"]) as master,
          started("fork_server", tmp_path, master.pid) as (parent, (server, executor, _))):
        master.kill()
        assert parent.stdin is not None
        parent.stdin.close()
        assert parent.wait(30) == 0
        assert alive(server)
        assert alive(executor)


# A fork server that is told of a process that it has not forked.
GUARD = """
import select, sys
from spark_tasks.process.reaper import Reaper

reaper = Reaper()
reaper.end_with_worker(int(sys.argv[1]))
reaper.guard(int(sys.argv[2]), sys.argv[3])
reaper.register(0, select.POLLIN)
print("ready", flush=True)
while not reaper.poll():
    pass
"""


@contextmanager
def guarded_with_a_child() -> Iterator[tuple[subprocess.Popen[bytes], psutil.Process]]:
    """A process that the fork server has not forked, and its child. It does not end by itself if its child does."""
    command = ["sh", "-c", "sleep 600 & echo $!; read line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as guarded:
        assert guarded.stdout is not None
        child = psutil.Process(int(guarded.stdout.readline()))
        try:
            yield guarded, child
        finally:
            for process in (guarded, child):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


@pytest.mark.parametrize("known", [True, False])
def test_a_process_that_another_parent_has_forked_ends_when_the_master_does(known: bool) -> None:
    """With what it has started; but not a later one with the same number."""
    with subprocess.Popen(["sleep", "600"]) as master, guarded_with_a_child() as (guarded, child):
        start = start_time_of(guarded.pid) if known else "1"
        with subprocess.Popen([sys.executable, "-c", GUARD, str(master.pid), str(guarded.pid), str(start)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as guard:
            assert guard.stdin is not None
            assert guard.stdout is not None
            try:
                assert guard.stdout.readline() == b"ready\n"
                master.kill()
                if known:
                    wait_gone([child])
                    assert guarded.wait(30) == -signal.SIGKILL
                guard.stdin.close()
                assert guard.wait(30) == 0
                assert alive(child) is not known
            finally:
                for process in (master, guard):
                    process.kill()


def check_killed_by(program: str) -> None:
    """The program kills the process whose number and start it is given, with the child, and ends without an error."""
    with guarded_with_a_child() as (guarded, child):
        done = subprocess.run([sys.executable, "-c", program, str(guarded.pid), str(start_time_of(guarded.pid))],
                              capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert guarded.wait(30) == -signal.SIGKILL
        wait_gone([child])


# A fork server that is told of a process after its master has ended, and then waits for the end of all.
LATE = """
import subprocess, sys
from spark_tasks.process.reaper import Reaper

reaper = Reaper()
master = subprocess.Popen(["sleep", "600"])
reaper.end_with_worker(master.pid)
master.kill()
reaper.poll(30_000)
reaper.guard(int(sys.argv[1]), sys.argv[2])
sys.exit(not reaper.await_all(10))
"""


def test_a_process_that_is_known_only_after_the_end_of_the_master_ends_too() -> None:
    """The message about it may still be in the connection."""
    check_killed_by(LATE)


# A fork server with many open files.
CROWDED = """
import os, resource, subprocess, sys
from spark_tasks.process.reaper import Reaper

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 0 else min(hard, 4096), hard))
while os.dup(0) < 1100:
    pass
reaper = Reaper()
master = subprocess.Popen(["sleep", "600"])
reaper.end_with_worker(master.pid)
reaper.guard(int(sys.argv[1]), sys.argv[2])
master.kill()
sys.exit(not reaper.await_all(30))
"""


def test_a_process_with_many_open_files_kills_others() -> None:
    check_killed_by(CROWDED)


# A system that does not tell when a process ends. Its first process ends, and one that is forked later does not.
ELSEWHERE = """
import os, signal, time
del os.pidfd_open
from spark_tasks.process.reaper import Reaper

reaper = Reaper()
if not reaper.fork():
    os._exit(0)
assert reaper.await_all(30)
if not reaper.fork():
    time.sleep(600)
    os._exit(0)
assert not reaper.await_all(0.1)
reaper.kill()
assert reaper.await_all(30)
"""


def test_waiting_has_a_limit_where_nothing_is_adopted() -> None:
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_process_that_has_ended_can_be_read_for_a_while(tmp_path: Path) -> None:
    with started("executor", tmp_path) as (_, (executor, *below)):
        executor.send_signal(signal.SIGUSR1)
        wait_gone(below)
        assert executor.status() == psutil.STATUS_ZOMBIE
        wait_until(lambda: not executor.is_running())
