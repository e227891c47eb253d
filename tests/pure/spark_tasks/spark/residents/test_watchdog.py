"""An executor process ends with its worker, or before it. They are processes of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys

import psutil
import pytest

from tests.rigs.executors import Rig
from tests.rigs.splits import OomScore
from tests.rigs.support import wait_until

WORKER = """
import pickle, sys
from queue import SimpleQueue
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.listener import ExecutorListener
from tests.rigs.executors import Processes
from tests.rigs.splits import CloseDescriptors
arrived = SimpleQueue()
listener = ExecutorListener(lambda _, line: arrived.put(line))
Processes().launch(listener.expect(1))
line = arrived.get()
wire.send(line.work, pickle.dumps(CloseDescriptors()))
print(line.pid, listener.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.integration  # processes of their own
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_process_whose_plugin_has_closed_its_connections_does_not_outlive_a_killed_worker() -> None:
    with subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        pid, folder = worker.stdout.readline().split()
        process = psutil.Process(int(pid))
        wait_until(lambda: process.num_fds() <= 3, what="closed descriptors")
        worker.kill()
    shutil.rmtree(folder)
    wait_until(lambda: not process.is_running(), 30, what="its end")


@pytest.mark.integration  # processes of their own
def test_the_kernel_ends_an_executor_process_before_the_worker(real: Rig) -> None:
    assert real.submit("a-0", OomScore()).result(30)[0] > OomScore().run()
