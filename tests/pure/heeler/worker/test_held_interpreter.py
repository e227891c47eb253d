"""What a process writes while native code holds its interpreter."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import logging, os, re, signal, sys, threading, time
from heeler.worker.held_interpreter import HeldInterpreter

def of_a_plugin():
    while len(logged) < 3:  # longer and longer, until it was noticed
        lengths.append(lengths[-1] + 1)
        re.match("(a+)+$", "a" * lengths[-1] + "b")

class Log(logging.Handler):
    def emit(self, record):
        print(record.getMessage(), flush=True)
        logged.append(record)

logged, lengths = [], [15]
logging.getLogger().addHandler(Log())
with HeldInterpreter(0.05) as held:
    {what}
"""
HOLDS = """threading.Thread(target=of_a_plugin).start()
    while len(logged) < 3:
        time.sleep(0.001)
        held.beat()"""
SUSPENDED = """held.beat()
    os.kill(os.getpid(), signal.SIGSTOP)
    held.beat()"""
ASKED = "signal.raise_signal(signal.SIGQUIT)"


def start(what: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM.format(what=what)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output_of(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return output


@pytest.mark.integration  # a process of its own
def test_the_stacks_show_which_native_code_holds_the_interpreter() -> None:
    output = output_of(start(HOLDS))
    assert "in match" in output
    assert "in of_a_plugin" in output
    assert "The worker stood still for " in output


def test_a_process_that_was_suspended_writes_nothing() -> None:
    process = start(SUSPENDED)
    while open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()[0] != "T":  # noqa: SIM115, PTH123
        assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):  # for longer than the limit
        process.wait(0.1)
    process.send_signal(signal.SIGCONT)
    assert output_of(process) == ""


def test_sigquit_shows_all_threads_as_in_a_jvm() -> None:
    assert "most recent call first" in output_of(start(ASKED))
