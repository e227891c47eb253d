"""numba is imported with the first call of a kernel."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration  # a process of its own


def test_a_worker_that_runs_no_kernel_does_not_import_numba() -> None:
    program = """
import sys
import spark_tasks.runners
before = "numba" in sys.modules
import pyarrow
from spark_tasks.kafka.records.partitioner import Partitioner
Partitioner(2).assign(pyarrow.record_batch({"key": pyarrow.array([b"key"]), "value": pyarrow.array([b""])}))
print(before, "numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False True\n", "")
