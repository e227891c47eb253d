"""Processes that plugins start end with their executor process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from spark_tasks.process.descendants import has_children, kill_descendants
from spark_tasks.process.process_state import start_time_of
from tests.rigs.open_files import without_files
from tests.rigs.support import wait_until

# A thread starts a process, which starts another one; their ids are written to a file.
NESTED = """
import pathlib, subprocess, sys, threading, time
start = "import subprocess, sys; one = subprocess.Popen(['sleep', '600']); print(one.pid, flush=True); one.wait()"
def run():
    child = subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, text=True)
    pathlib.Path(sys.argv[1]).write_text(f"{child.pid} {child.stdout.readline().strip()}")
    time.sleep(600)
threading.Thread(target=run).start()
"""


def test_children_of_children_are_killed_and_nothing_else(tmp_path: Path) -> None:
    ids = tmp_path / "ids"
    plugin, other = subprocess.Popen([sys.executable, "-c", NESTED, str(ids)]), subprocess.Popen(["sleep", "600"])
    with plugin, other:
        try:
            child, grandchild = wait_until(lambda: ids.exists() and len(ids.read_text().split()) == 2 and [
                int(pid) for pid in ids.read_text().split()])
            assert kill_descendants(plugin.pid)
            wait_until(lambda: start_time_of(child) is None and start_time_of(grandchild) is None)
            assert plugin.poll() is None
            assert other.poll() is None
            assert not kill_descendants(plugin.pid)
        finally:
            plugin.kill()
            other.kill()


def test_a_process_may_have_children_while_no_files_can_be_opened() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            assert has_children(os.getpid())
            assert not has_children(process.pid)
            with without_files():
                assert has_children(process.pid)
        finally:
            process.kill()
    assert not has_children(process.pid), "it has ended"
