"""Which process the OOM killer ends first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_tasks.process.oom_score import raise_oom_score

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux")


def test_a_process_of_a_worker_ends_before_it() -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    score = Path(f"/proc/{process.pid}/oom_score_adj")
    found = []
    for _ in range(5):
        raise_oom_score(process.pid)
        found.append(int(score.read_text()))
    process.communicate()
    assert found[0] == min(own + 300, 1000)
    assert found[-1] == 1000
    raise_oom_score(process.pid)  # it has ended
