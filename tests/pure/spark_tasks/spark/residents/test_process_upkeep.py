"""Which executor processes are ended or replaced, with threads in their place."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from spark_tasks.spark.context import SparkLostError
from spark_tasks.spark.residents import monitor, process_upkeep
from spark_tasks.spark.residents.settings import ExecutorSettings
from tests.rigs.executors import MAX_PROCESSES, Rig, gates
from tests.rigs.splits import Answer
from tests.rigs.support import wait_until

SETTINGS = ExecutorSettings(max_processes=4, running=2)


@pytest.fixture
def monitored(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(monitor, "TICK_S", 0.02)
    made = rig.monitor(SETTINGS)
    yield rig
    made.close()


def test_suspended_processes_are_replaced(monitored: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle ones at once, those with a split after a while. Its batch is repeated by its task."""
    rig = monitored
    monkeypatch.setattr(process_upkeep, "SUSPENDED_S", math.inf)
    held = rig.gate("h-0", "held")
    rig.idle(1)
    before = {one.number for one in rig.processes.idle}
    monkeypatch.setattr(process_upkeep, "is_suspended", lambda _pid: True)
    wait_until(lambda: before.isdisjoint(rig.processes.residents), what="idle processes to be replaced")
    assert not held.done()
    monkeypatch.setattr(process_upkeep, "SUSPENDED_S", 0.1)
    with pytest.raises(SparkLostError):
        held.result(10)
    monkeypatch.setattr(process_upkeep, "is_suspended", lambda _pid: False)
    assert rig.submit("a-0", Answer(1)).result(20) == [1]
    gates["held"].set()


def test_processes_end_that_only_several_connectors_with_one_each_still_use(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, after a burst, each connector would keep a process for itself."""
    monkeypatch.setattr(monitor, "TICK_S", 0.02)
    with rig.lock:
        rig.pool.manager.grow(MAX_PROCESSES)
    rig.idle(MAX_PROCESSES)
    settings = ExecutorSettings(max_processes=MAX_PROCESSES, running=2, idle_s=0.4)
    made = rig.monitor(settings)

    def fewer() -> bool:
        for connector in "abcd":
            assert rig.submit(f"{connector}-0", Answer(1)).result(20) == [1]
        return len(rig.processes.residents) == 1 + settings.spare + 1

    wait_until(fewer, longest_pause=0.02)
    made.close()
