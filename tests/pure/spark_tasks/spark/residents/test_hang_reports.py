"""What is reported of splits that hang, with threads in the place of processes."""

from __future__ import annotations

import pytest

from spark_tasks.spark import stacks
from spark_tasks.spark.residents import monitor
from spark_tasks.spark.residents.settings import ExecutorSettings
from tests.rigs.executors import Rig, Suspended, gates
from tests.rigs.support import wait_until

SETTINGS = ExecutorSettings(max_processes=4, running=2, slow_s=0.05)


def test_splits_that_hang_are_reported_while_spark_is_suspended(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "TICK_S", 0.02)
    monkeypatch.setattr(monitor, "STARTING_S", 0.0)
    monkeypatch.setattr(stacks, "STACK_S", 0.0)
    reports: list[str] = []
    made = rig.monitor(SETTINGS, lambda task, _text: reports.append(task))
    suspended = Suspended()
    rig.pool.use(suspended)
    wait_until(lambda: suspended.tickets)
    held = rig.gate("h-0", "held")
    before = len(reports)
    wait_until(lambda: "h-0" in reports[before:])
    wait_until(lambda: reports.count("h-0") > 1, what="it to be reported again")
    gates["held"].set()
    assert held.result(20) == ["held"]
    suspended.resumed.set()
    made.close()
