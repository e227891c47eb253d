"""Settings of the engines under test, and what they report."""

from __future__ import annotations

import pytest

from spark_tasks.spark.residents.settings import ExecutorSettings

START_S = 120.0  # on a busy machine
MAX_PROCESSES = 6  # processes of the resident engine
SETTINGS = ExecutorSettings(max_processes=MAX_PROCESSES, running=4, slow_s=2.0, spark_delay_s=0.0)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the engine has reported to an operator."""
    return [r.getMessage() for r in caplog.records if r.levelname == "ERROR"
            and r.name == "spark_tasks.spark.lifecycle"]
