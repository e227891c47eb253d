"""The checks of executor processes, with threads in the place of processes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from threading import Event

import pytest

from spark_tasks.process.process_state import CpuUse
from spark_tasks.spark.residents import fairness, monitor, process, process_manager
from spark_tasks.spark.residents.settings import ExecutorSettings
from spark_tasks.spark.residents.wire import Ticket
from tests.rigs.executors import RUNNING, Gate, Rig, Suspended, Threads, begun, gates
from tests.rigs.splits import Answer
from tests.rigs.support import wait_until

SETTINGS = ExecutorSettings(max_processes=4, running=2)


@pytest.fixture
def monitored(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(monitor, "TICK_S", 0.02)
    monkeypatch.setattr(monitor, "STARTING_S", 0.0)
    made = rig.monitor(SETTINGS)
    yield rig
    made.close()


def test_splits_that_use_the_cpu_for_long_do_not_keep_others_from_running(
    monitored: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = monitored
    monkeypatch.setattr(process, "LONG_S", math.inf)
    monkeypatch.setattr(monitor, "cpu_use", lambda _pid: CpuUse(time.process_time(), runnable=True))
    endless = [rig.gate(f"e-{n}", f"endless-{n}") for n in range(SETTINGS.running)]
    waits = rig.submit("a-0", Answer(1))
    assert not rig.settled(waits)
    monkeypatch.setattr(process, "LONG_S", 0.1)
    assert waits.result(10) == [1], "while the others still run"
    for n, future in enumerate(endless):
        gates[f"endless-{n}"].set()
        assert future.result(20) == [f"endless-{n}"]


def test_splits_that_turn_out_to_be_long_do_not_keep_brief_ones_from_running(
    monitored: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = monitored
    monkeypatch.setattr(process, "LONG_S", math.inf)
    monkeypatch.setattr(fairness, "LINGERING_S", math.inf)
    monkeypatch.setattr(fairness, "BRIEF_S", math.inf)
    monkeypatch.setattr(monitor, "cpu_use", lambda _pid: CpuUse(time.monotonic(), runnable=True))
    names = [f"t{n}" for n in range(SETTINGS.running)]
    for name in [*names, "a"]:
        assert rig.submit(f"{name}-0", Answer(1)).result(20) == [1]
    turned = [rig.gate(f"{name}-0", name) for name in names]
    waits = rig.submit("a-0", Answer(2))
    assert not rig.settled(waits)
    monkeypatch.setattr(fairness, "BRIEF_S", 0.1)
    assert waits.result(10) == [2], "while the others still run"
    for name, future in zip(names, turned, strict=True):
        gates[name].set()
        assert future.result(20) == [name]


def test_connectors_that_hang_leave_the_last_processes_to_others(
    large: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are. Those others have shown before that their splits do not hang."""
    monkeypatch.setattr(monitor, "TICK_S", 0.02)
    monkeypatch.setattr(fairness, "LINGERING_S", 0.1)
    monkeypatch.setattr(monitor, "cpu_use", lambda _pid: None)
    settings = ExecutorSettings(max_processes=16, running=RUNNING)
    for name in ("a", "turns"):
        assert large.submit(f"{name}-0", Answer(1)).result(20) == [1]
    made = large.monitor(settings)
    turned = large.gate("turns-0", "turned")
    hung = {f"h{n}": large.submit(f"h{n}-0", Gate(f"h{n}")) for n in range(20) if gates.setdefault(f"h{n}", Event())}
    most = settings.max_lingering(16)
    assert most == 14
    wait_until(lambda: len(begun) == most)
    for number in range(5):
        assert large.submit("a-0", Answer(number)).result(20) == [number]
    late = large.submit("turns-1", Answer(3))
    assert (len(begun), large.settled(late)) == (most, False), "it hangs, too"
    for gate in gates.values():
        gate.set()
    assert (turned.result(20), late.result(20)) == (["turned"], [3])
    assert [future.result(20) for future in hung.values()] == [[name] for name in hung]
    made.close()


class Lost(Threads):
    """Its processes do not join until it has been asked why."""

    asked_why = False

    def __init__(self) -> None:
        super().__init__()
        self._lost: set[int] = set()

    def launch(self, ticket: Ticket) -> None:
        if self.asked_why:
            super().launch(ticket)
        else:
            self._lost.add(ticket.number)

    def failure(self, number: int) -> str | None:
        self.asked_why = True
        return "it was killed" if number in self._lost else None


def test_processes_of_a_stand_in_are_replaced_while_spark_is_suspended(
    monitored: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = monitored
    monkeypatch.setattr(process_manager, "LATE_S", 0.0)
    suspended, stand_in = Suspended(), Lost()
    with rig.lock:
        rig.processes.kill(list(rig.processes.idle))
    rig.pool.use(None)
    rig.pool.use(suspended, stand_in)
    wait_until(lambda: suspended.tickets)
    assert rig.submit("a-0", Answer(1)).result(20) == [1]
    suspended.resumed.set()
