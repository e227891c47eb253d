"""The worker's own parent of executor processes ends with the worker, and so do its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.rigs.support import wait_until
from tests.rigs.workers import existing, wait_gone

# A worker whose parent of processes hangs in an import: as soon as it is started, or when it has a process that notices
# nothing.
WORKER = """
import pickle, sys, time
from pathlib import Path
from spark_tasks.spark.environment import OPTIONAL, python_path
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.listener import ExecutorListener
from spark_tasks.spark.residents.local_launcher import LocalLauncher
from tests.rigs.splits import LeaveProcesses
from tests.rigs.support import wait_until

lines, file = {}, Path(sys.argv[1])
listener = ExecutorListener(lines.__setitem__)
launcher = LocalLauncher(python_path(), 4)
launcher.launch(listener.expect(1))
if "later" in sys.argv:
    wait_until(lambda: 1 in lines, 60)
    wire.send(lines[1].work, pickle.dumps(LeaveProcesses(str(file), "hang")))
    wait_until(lambda: file.exists() and file.read_text().endswith("\\n"), 60)
    OPTIONAL["sys"] = ("hanging",)
    launcher.launch(listener.expect(2))
time.sleep(600)
"""
HANGING = """
import ctypes, os
from pathlib import Path
file = Path(os.environ["IMPORTING"])
file.with_suffix(".new").write_text(str(os.getpid()))
file.with_suffix(".new").rename(file)
while True:
    ctypes.PyDLL(None).sleep(60)  # no other thread can run
"""


@pytest.mark.integration  # processes of its own
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing can be done")
@pytest.mark.parametrize("when", ["start", "later"])
def test_a_parent_that_hangs_in_an_import_ends_with_the_worker(tmp_path: Path, when: str) -> None:
    """Although it holds the GIL, with its processes, although they have no connections any more."""
    importing, pids = tmp_path / "importing", tmp_path / "pids"
    (tmp_path / "hanging.py").write_text(HANGING)
    preloaded = {"HEELER_PRELOAD": "hanging"} if when == "start" else {}
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path)), "IMPORTING": str(importing),
           "TMPDIR": str(tmp_path), **preloaded}
    found = list[psutil.Process]()
    with subprocess.Popen([sys.executable, "-c", WORKER, str(pids), when], env=env) as worker:
        try:
            wait_until(importing.exists, 120)
            found += existing(importing.read_text()) + existing(pids.read_text() if pids.exists() else "")
            assert len(found) > (4 if when == "later" else 0)
            worker.kill()
            wait_gone(found)
        finally:
            for process in (worker, *found):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
