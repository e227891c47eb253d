"""The state and CPU use of a process, by its pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_tasks.process.process_state import (
    cpu_use,
    exit_code,
    handles_signal,
    has_ended,
    is_suspended,
    ready_s,
    start_time_of,
    why_signal_is_ignored,
)
from tests.rigs.open_files import without_files
from tests.rigs.support import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say")


def test_a_killed_process_has_ended_before_it_is_reaped() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not has_ended(process.pid, 0.01)
        process.kill()
        assert has_ended(process.pid, 20), "nobody has waited for it yet"
        assert process.wait() != 0
    assert has_ended(process.pid, 20)


def test_a_process_runs_as_long_as_one_of_its_threads() -> None:
    """Its first thread has ended here, so the system reports a zombie."""
    ends_alone = ("import ctypes, threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); "
                  "print(flush=True); ctypes.CDLL(None).pthread_exit(None)")
    with subprocess.Popen([sys.executable, "-c", ends_alone], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(lambda: " Z " in Path(f"/proc/{process.pid}/stat").read_text(), what="its first thread to end")
        assert not has_ended(process.pid, 0.05)
        process.kill()
        assert has_ended(process.pid, 20)


def test_waiting_for_a_cpu_is_told_from_sleeping() -> None:
    """Two loops share a CPU here, and a third process sleeps on it."""
    here = f"import os, time; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}}); print(flush=True)\n"
    programs = ["while True: pass", "while True: pass", "time.sleep(60)"]
    processes = [subprocess.Popen([sys.executable, "-c", here + one], stdout=subprocess.PIPE) for one in programs]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        wait_until(lambda: is_sleeping(processes[2].pid))
        before = [ready_s(process.pid) for process in processes]
        wait_until(lambda: ready_s(processes[0].pid) - before[0] > 0.2)
        assert ready_s(processes[2].pid) - before[2] < 0.1
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert ready_s(processes[0].pid) == 0.0


def is_sleeping(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_it_is_told_how_a_process_has_ended_until_it_is_waited_for() -> None:
    for command, code in (("exit 3", 3), ("kill -SEGV $$", -signal.SIGSEGV)):
        with subprocess.Popen(["sh", "-c", command]) as process:
            assert has_ended(process.pid, 20)
            assert exit_code(process.pid) == code
        assert exit_code(process.pid) is None
    assert exit_code(os.getpid()) is None


@pytest.mark.parametrize(("prepare", "why"), [
    ("signal.signal(signal.SIGUSR2, signal.SIG_IGN)", "a plugin ignores SIGUSR2"),
    ("signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})", "a plugin has blocked SIGUSR2"),
    ("", "a plugin has removed the handler of SIGUSR2"),
    ("signal.signal(signal.SIGUSR2, print)", "or a plugin has replaced the handler of SIGUSR2"),
])
def test_it_is_told_why_a_process_does_not_react_to_a_signal(prepare: str, why: str) -> None:
    program = f"import signal, time\n{prepare}\nprint(flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            assert handles_signal(process.pid, signal.SIGUSR2) == ("print)" in prepare)
            assert why in why_signal_is_ignored(process.pid, signal.SIGUSR2)
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: is_suspended(process.pid))
            assert why_signal_is_ignored(process.pid, signal.SIGUSR2) == "it is suspended (SIGSTOP)"
        finally:
            process.kill()
    assert why_signal_is_ignored(process.pid, signal.SIGUSR2) == "it has ended"


def test_no_process_has_ended_because_this_one_can_open_no_files() -> None:
    with without_files():
        assert not has_ended(os.getpid(), 0.0)
        with pytest.raises(OSError, match="Too many open files"):
            start_time_of(os.getpid())
    assert start_time_of(os.getpid())


def test_a_suspended_process_is_distinguished() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not is_suspended(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_suspended(process.pid))
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: not is_suspended(process.pid))
        process.kill()
    assert not is_suspended(process.pid), "it has ended"


def test_the_cpu_use_of_a_process_is_measured() -> None:
    own = cpu_use(os.getpid())
    assert own is not None
    assert own.seconds > 0
