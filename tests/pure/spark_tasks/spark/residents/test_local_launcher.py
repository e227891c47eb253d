"""The worker's own parent of executor processes, with a shell script in its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_tasks.config.masking import process_secrets
from spark_tasks.spark.residents import local_launcher
from spark_tasks.spark.residents.local_launcher import LocalLauncher
from spark_tasks.spark.residents.wire import Ticket
from tests.rigs.support import wait_until

STARTS = """
import os, sys
from spark_tasks.spark.environment import keep_environment
from spark_tasks.spark.residents.local_launcher import LocalLauncher
from spark_tasks.spark.residents.wire import Ticket
keep_environment()
os.environ["NLS_LANG"] = "GERMAN"  # as a plugin's module does when the worker imports it
os.environ["PYSPARK_PYTHON"] = "python4"
sys.executable = sys.argv[1]
launcher = LocalLauncher("", 1)
launcher.launch(Ticket(0, b""))
sys.stdin.read()
launcher.close()
"""


def test_output_of_the_workers_executor_processes_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plugins that run there print what they were given, and only the worker knows what of it is secret."""
    process_secrets().add("c", ["of-the-residents-test"])
    program = tmp_path / "python"
    says = "echo out of-the-residents-test\necho err of-the-residents-test >&2\ncat >/dev/null\n"
    program.write_text(f"#!/bin/sh\n{says}")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    launcher = LocalLauncher("", 1)
    launcher.launch(Ticket(0, b"", "", "", 0, ""))
    said = [""]

    def reported() -> bool:
        said[0] += capsys.readouterr().err
        return said[0] == "out [hidden]\nerr [hidden]\n"

    wait_until(reported, 30, "what it prints")
    launcher.close()


def test_processes_do_not_inherit_what_plugins_set_up_in_the_worker(tmp_path: Path) -> None:
    program, seen = tmp_path / "python", tmp_path / "seen"
    program.write_text(f"#!/bin/sh\nenv >{seen}.new\nmv {seen}.new {seen}\ncat >/dev/null\n")
    program.chmod(0o700)
    with subprocess.Popen([sys.executable, "-c", STARTS, str(program)], stdin=subprocess.PIPE,
                          env={**os.environ, "OF_THE_USER": "yes"}) as worker:
        wait_until(seen.exists, 30)
        worker.communicate()
    found = dict(line.partition("=")[::2] for line in seen.read_text().splitlines())
    assert [found.get(name) for name in ("OF_THE_USER", "PYSPARK_PYTHON", "NLS_LANG")] == ["yes", "python4", None]


def test_a_local_process_that_ended_before_it_joined_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent lives on, and nothing says that it ended; otherwise others would not be started in its place."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\ncat >/dev/null\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    launcher = LocalLauncher("", 1)
    launcher.launch(Ticket(1, b""))
    assert launcher.failure(1) is None
    monkeypatch.setattr(local_launcher, "JOIN_S", 0.0)
    assert launcher.failure(1) == "it did not join within 0 s"
    launcher.close()


def test_a_parent_that_starts_no_processes_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is suspended, or hangs in an import."""
    program, started = tmp_path / "python", tmp_path / "started"
    program.write_text(f"#!/bin/sh\necho >>{started}\ncat >/dev/null\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    launcher = LocalLauncher("", 1)
    for number in (1, 2):
        launcher.launch(Ticket(number, b""))
        wait_until(lambda number=number: started.exists() and started.read_text() == "\n" * number)
        monkeypatch.setattr(local_launcher, "JOIN_S", 0.0)
        assert launcher.failure(number) == "it did not join within 0 s"
        wait_until(lambda number=number: "ended" in str(launcher.failure(number)))
        monkeypatch.setattr(local_launcher, "JOIN_S", 60.0)
    launcher.close()


def test_a_parent_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, pid = tmp_path / "python", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ >{pid}.new\nmv {pid}.new {pid}\nexec sleep 60\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(local_launcher, "JOIN_S", 0.0)
    launcher = LocalLauncher("", 1)
    launcher.launch(Ticket(1, b""))
    wait_until(pid.exists)
    launcher.close()
    wait_until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())


def test_a_parent_whose_output_nobody_can_read_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\ncat >/dev/null\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    read: list[Any] = []

    def pump(stream: Any, _name: str) -> None:
        read.append(stream)
        if len(read) == 1:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(local_launcher, "pump", pump)
    launcher = LocalLauncher("", 1)
    with pytest.raises(RuntimeError):
        launcher.launch(Ticket(1, b""))
    launcher.launch(Ticket(2, b""))
    assert len(read) == 2
    launcher.close()
