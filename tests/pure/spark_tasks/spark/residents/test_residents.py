"""The settings of executor processes, their slots, and their use of the CPU."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from spark_tasks.process.process_state import cpu_use
from spark_tasks.spark.master import SparkMaster
from spark_tasks.spark.residents.settings import ExecutorSettings
from spark_tasks.spark.residents.spark_launcher import SparkLauncher, room
from tests.rigs.support import wait_until


@pytest.mark.parametrize(("slots", "running", "found"), [(1, 4, 1), (3, 4, 3), (4, 4, 3), (8, 4, 6), (69, 4, 65)])
def test_some_slots_are_left_to_spark_jobs_of_plugins(slots, running, found):
    assert room(slots, running) == found


def test_a_launcher_of_a_spark_that_has_ended_starts_no_processes():
    spark: Any = SimpleNamespace(master=SparkMaster.parse("local[8]"), quiet=lambda _: None)
    launcher = SparkLauncher(spark, ExecutorSettings(max_processes=3, running=3))
    assert launcher.max_processes == 6
    launcher.close()
    assert launcher.max_processes == 0


def test_a_connector_leaves_processes_to_others():
    settings = ExecutorSettings(max_processes=8, running=3)
    assert [settings.max_per_connector(processes) for processes in (0, 1, 2, 3, 4, 8, 64)] == [1, 1, 1, 2, 3, 6, 6]


def test_processes_that_use_the_cpu_are_distinguished_from_those_that_wait():
    for program, busy in (("while True: pass", True), ("import time; time.sleep(60)", False)):
        process = subprocess.Popen([sys.executable, "-c", f"print(flush=True)\n{program}"], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()

        def as_expected(pid: int = process.pid, busy: bool = busy) -> bool:
            found = cpu_use(pid)
            return found is not None and found.runnable == busy

        wait_until(as_expected, what=program)
        process.kill()
        process.communicate()
    gone = cpu_use(process.pid)
    assert gone is not None
    assert gone.seconds == 0
