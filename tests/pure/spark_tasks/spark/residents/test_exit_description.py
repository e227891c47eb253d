"""What is said of executor processes that have ended."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from spark_tasks.spark.context import ExecutorEndedError
from tests.rigs.executors import Rig
from tests.rigs.splits import Answer, EndProcess, KillWorker


@pytest.mark.integration  # processes of their own
@pytest.mark.parametrize(("split", "how"), [
    (EndProcess("exit"), "ended with exit code 0"),
    (EndProcess("abort"), r"was killed by signal 6 \(SIGABRT\): native code called abort\(\)"),
    (KillWorker(), r"was killed by signal 9 \(SIGKILL\): perhaps the system was out of memory"),
])
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_error_and_the_log_say_how_a_process_has_ended(
    real: Rig, split: Any, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ExecutorEndedError, match=f"^the executor process of a-0 {how}"):
        real.submit("a-0", Answer(1, 20.0), split).result(30)  # the other one is killed by the worker
    assert re.search(f"The executor process of a-0 {how}", caplog.text)
