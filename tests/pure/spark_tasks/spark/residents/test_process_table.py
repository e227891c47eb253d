"""How executor processes leave, with threads in their place."""

from __future__ import annotations

import pytest

from tests.rigs.executors import Rig
from tests.rigs.support import wait_until


def test_a_dead_idle_process_is_detected_and_replaced(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.idle(1)
    (resident,) = rig.processes.idle
    assert resident.line is not None
    resident.line.shut_down()
    with rig.lock:
        rig.processes.kill_dead_idle()
        rig.pool.dispatch()
    rig.idle(1)
    assert rig.processes.idle != [resident]
    line = "lost its connection to the worker (a plugin may have closed it) and has been killed"
    assert caplog.messages == [f"An idle executor process {line}"]


def test_a_process_that_is_killed_leaves_no_file_with_its_stacks(rig: Rig) -> None:
    batch = rig.gate("a-0", "hangs")
    with rig.lock:
        (number,) = [number for number, one in rig.processes.residents.items() if one.item is not None]
    stacks = rig.listener.folder / str(number)
    stacks.touch()  # as a process does
    rig.pool.cancel(batch)
    wait_until(lambda: not stacks.exists())
