"""The stack of a hanging split, requested from outside a real process."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_tasks.spark.stacks import describe_stacks, stacks_available
from tests.rigs.support import wait_until

CODE = """
import sys, time
from spark_tasks.spark.stacks import stacks_available

def hang():
    print("hangs", flush=True)
    time.sleep(600)

with stacks_available(sys.argv[1], "batch-7"):
    pass
with stacks_available(sys.argv[1], "batch-8"):
    hang()
"""


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", CODE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "hangs\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def test_the_stacks_of_a_batch_can_be_described_repeatedly(hanging: subprocess.Popen[str], tmp_path: Path) -> None:
    for _ in range(2):
        text = describe_stacks(tmp_path, "batch-8")
        assert text is not None
        assert text.startswith(f"The stacks of its process {hanging.pid}:\n")
        assert "in hang" in text
        assert text.count("in hang") == 1
    assert describe_stacks(tmp_path, "batch-7") is None
    assert describe_stacks(tmp_path, "batch-80") is None
    assert hanging.poll() is None


def test_a_suspended_process_is_reported_without_a_stack(
    hanging: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_tasks.spark.stacks.STACK_S", 0.1)
    hanging.send_signal(signal.SIGSTOP)
    assert "it is suspended (SIGSTOP)" in (describe_stacks(tmp_path, "batch-8") or "")
    hanging.send_signal(signal.SIGCONT)


def test_a_process_without_a_handler_gets_no_signal(hanging: subprocess.Popen[str], tmp_path: Path) -> None:
    """It would end it."""
    (tmp_path / f"batch-9.{os.getpid()}").touch()
    with (tmp_path / f"batch-9.{os.getpid()}").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = signal.signal(signal.SIGUSR2, signal.SIG_DFL)
        try:
            assert "has removed the handler of SIGUSR2" in (describe_stacks(tmp_path, "batch-9") or "")
        finally:
            signal.signal(signal.SIGUSR2, before)


def test_the_files_of_a_killed_process_are_removed(hanging: subprocess.Popen[str], tmp_path: Path) -> None:
    hanging.kill()
    hanging.wait()
    (tmp_path / "batch-9.1").write_text("init must not get a signal")
    assert describe_stacks(tmp_path, "batch-8") is None
    assert describe_stacks(tmp_path, "batch-9") is None
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_a_missing_folder_does_not_prevent_the_split() -> None:
    with stacks_available("/nowhere/at/all", "batch-1"):
        ran = True
    assert ran


def test_the_signal_is_ignored_after_the_split(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    try:
        with stacks_available(str(tmp_path), "batch-1"):
            assert len(list(tmp_path.iterdir())) == 1
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
        assert not list(tmp_path.iterdir())
    finally:
        signal.signal(signal.SIGUSR2, before)
