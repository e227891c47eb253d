"""A child that cannot outlive its parent. Real processes: shells that sleep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from heeler.embedded_kafka.guard import GuardedProcess
from tests.rigs.support import wait_until
from tests.rigs.workers import has_ended, wait_gone

pytestmark = pytest.mark.integration  # processes of their own

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def output(tmp_path):
    return tmp_path / "output"


def child_pid(output):
    return int(wait_until(lambda: output.exists() and output.read_text().split("\n")[0], what="the child's pid"))


def test_the_exit_code_and_the_output(output, tmp_path):
    process = GuardedProcess(["sh", "-c", "echo out; echo err >&2; exit 7"], output, remove=tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    assert process.wait(10) == 7
    assert process.exit_code() == 7
    assert output.read_text() == "out\nerr\n"
    process.close()
    process.close()
    assert (tmp_path / "kept").exists()


def test_closing_with_grace_terminates_before_it_kills(output):
    polite = "trap 'echo bye; exit 3' TERM; echo $$; while :; do sleep 0.02; done"
    process = GuardedProcess(["sh", "-c", polite], output)
    child_pid(output)
    process.close(grace=10)
    assert output.read_text().endswith("bye\n")
    assert process.exit_code() == 3


def test_closing_kills_a_process_that_ignores_signals(output):
    process = GuardedProcess(["sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.02; done"], output)
    pid = child_pid(output)
    process.close(grace=0.2)
    assert process.exit_code() == 128 + signal.SIGKILL
    assert not psutil.pid_exists(pid)


def test_a_suspended_child_continues_and_can_be_killed(output):
    process = GuardedProcess(["sh", "-c", "echo $$; exec sleep 60"], output)
    child = psutil.Process(child_pid(output))
    process.signal("STOP")
    wait_until(lambda: child.status() == psutil.STATUS_STOPPED, what="the child to stop")
    process.signal("CONT")
    wait_until(lambda: child.status() == psutil.STATUS_SLEEPING, what="the child to go on")
    process.signal("STOP")
    process.close()
    assert not psutil.pid_exists(child.pid)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_child_and_folder_are_removed_when_the_parent_is_killed(tmp_path, output, how):
    folder, forked = tmp_path / "data", tmp_path / "forked"
    folder.mkdir()
    program = (
        "import os, sys, time; from pathlib import Path; from heeler.embedded_kafka.guard import GuardedProcess\n"
        f"g = GuardedProcess(['sh', '-c', 'echo $$; exec sleep 60'], Path({str(output)!r}), Path({str(folder)!r}))\n"
        f"child = os.fork() or time.sleep(60)  # it outlives this one\n"
        f"Path({str(forked)!r}).write_text(f'{{child}}.')\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as parent:
        pid = child_pid(output)
        other = wait_until(lambda: forked.exists() and forked.read_text().endswith(".") and forked.read_text()[:-1])
        assert folder.exists()
        os.kill(parent.pid, how)
    try:
        wait_until(lambda: not psutil.pid_exists(pid), what="the child's end")
        wait_until(lambda: not folder.exists(), what="the folder's removal")
        wait_until(lambda: not guards_of(folder), what="the guard's end")
        assert psutil.pid_exists(int(other))
    finally:
        os.kill(int(other), signal.SIGKILL)


def test_a_child_whose_guarding_shell_is_killed_is_killed(output):
    process = GuardedProcess(["sh", "-c", "echo $$; exec sleep 60"], output)
    group = [psutil.Process(pid) for pid in members(process, child_pid(output))]
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: all(map(has_ended, group)), 5, "the end of the child and the rest of its guard")
    assert process.wait(10) == 128 + signal.SIGKILL
    process.close()


@pytest.mark.parametrize(("on_term", "code"), [("echo bye; exit 3", 3), ("", 128 + signal.SIGKILL)])
def test_a_child_ends_at_once_if_nobody_reads_the_pipe(output, on_term, code):
    """Otherwise nobody would end it if this process were killed next."""
    process = GuardedProcess(["sh", "-c", f"trap '{on_term}' TERM; echo $$; while :; do sleep 0.02; done"], output)
    child = psutil.Process(child_pid(output))
    (watcher,) = members(process, child.pid) - {child.pid, process.pid}
    reader = psutil.Process(watcher)
    reader.kill()
    wait_gone([reader, child])
    assert process.wait(10) == code
    process.close()


def members(process, child):
    """The processes of a guard: two shells and the child."""
    def found():
        pids = {process.pid} | {p.pid for p in psutil.Process(process.pid).children()}
        return pids if len(pids) == 3 and child in pids else None

    return wait_until(found, what="the guard")


def guards_of(folder):
    return [p.pid for p in psutil.process_iter(["cmdline"]) if str(folder) in (p.info["cmdline"] or ())]
