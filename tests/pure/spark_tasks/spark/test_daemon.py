"""What Spark's Python daemon does once for all workers that it forks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import importlib, os, sys, time, zipfile, zipimport
from pathlib import Path

def put(name, text):
    with zipfile.ZipFile(folder / "some.zip", "a") as archive:
        archive.writestr(f"{name}.py", text)

folder = Path(sys.argv[1])
put("first", "x = 1")
os.utime(folder / "some.zip", (1, 1))
sys.path.insert(0, str(folder / "some.zip"))
import first
reads, read = [], zipimport._read_directory
zipimport._read_directory = lambda archive: reads.append(archive) or read(archive)
from spark_tasks.spark.daemon import keep_archives
keep_archives()
importlib.invalidate_caches()
print(len(reads))
put("second", "x = 2")
importlib.invalidate_caches()
import second
print(len(reads))
sys.path.insert(0, str(folder / "late"))
with zipfile.ZipFile(folder / "late", "w") as archive:
    archive.writestr("third.py", "x = 3")
importlib.invalidate_caches()
import third
os.remove(folder / "late")
importlib.invalidate_caches()
print(first.x, second.x, third.x)
"""


def test_zip_files_on_the_path_are_read_again_only_when_they_have_changed(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "."})
    assert (done.stdout.split("\n")[:3], done.stderr) == (["0", "1", "1 2 3"], "")


OPTIONAL = """
import importlib, os, sys, threading
from spark_tasks.spark.environment import ENVIRONMENT, OPTIONAL, needed
os.environ.update(ENVIRONMENT)
from spark_tasks.spark.daemon import import_all
print(needed())
import_all(name for names in OPTIONAL.values() for name in names)
print(needed() == ",".join(name for names in OPTIONAL.values() for name in names))
print(threading.active_count(), len(os.listdir("/proc/self/task")))
"""


@pytest.mark.integration  # imports all there is, in a process of its own
def test_optional_modules_can_be_imported_before_a_fork():
    """No module starts a thread, and each is one that such a connector imports."""
    command = [sys.executable, "-c", OPTIONAL]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "."})
    assert (done.stdout.split("\n")[:3], done.stderr) == (["", "True", "1 1"], "")
