"""What is known of a process by its number."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from spark_tasks.spark.residents.process_state import cpu_use, has_ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say")


def test_a_process_has_ended_when_nothing_of_it_runs() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not has_ended(process.pid, 0.01)
        process.kill()
        assert has_ended(process.pid, 20), "nobody has waited for it yet"
        assert process.wait() != 0
    assert has_ended(process.pid, 20)


def test_what_a_process_has_used() -> None:
    own = cpu_use(os.getpid())
    assert own is not None
    assert own.seconds > 0
