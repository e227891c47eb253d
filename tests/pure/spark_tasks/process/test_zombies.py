"""Children that have ended and that nobody waits for do not become more and more."""

from __future__ import annotations

import os
import subprocess

import pytest

from spark_tasks.process import zombies
from spark_tasks.process.process_state import start_time_of
from spark_tasks.process.zombies import Zombies
from tests.rigs.support import wait_until


def ended(code: int) -> int:
    """A process that ends with this code, and that nobody has waited for."""
    pid = os.fork()
    if not pid:
        os._exit(code)
    wait_until(lambda: start_time_of(pid) is None)
    return pid


def test_exit_codes_of_a_few_are_kept_for_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zombies, "SCAN_S", 0.0)
    children = Zombies()
    children.reap()
    with subprocess.Popen(["sh", "-c", "exit 7"]) as child:
        wait_until(lambda: start_time_of(child.pid) is None)
        for _ in range(3):
            children.reap()
        assert child.wait(1) == 7


def test_many_are_waited_for_but_none_that_has_just_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zombies, "SCAN_S", 0.0)
    monkeypatch.setattr(zombies, "MAX_ZOMBIES", 3)
    children = Zombies()
    old = [ended(0), ended(0)]
    children.reap()
    new = ended(5)
    children.reap()
    for pid in old:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    assert os.waitstatus_to_exitcode(os.waitpid(new, 0)[1]) == 5


def test_it_scans_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zombies, "MAX_ZOMBIES", 1)
    children, one = Zombies(), ended(0)
    for _ in range(3):
        children.reap()
    assert os.waitpid(one, 0)[0] == one
