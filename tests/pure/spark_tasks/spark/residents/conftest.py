"""A pool of executor processes that are threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from tests.rigs.executors import MAX_PROCESSES, Processes, Rig, Threads, begun, gates
from tests.rigs.support import wait_until


def rig_with(launcher: Threads, max_processes: int = MAX_PROCESSES) -> Iterator[Rig]:
    gates.clear()
    begun.clear()
    rig = Rig(max_processes)
    rig.pool.use(launcher)
    yield rig
    for gate in gates.values():
        gate.set()
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    yield from rig_with(Threads())


@pytest.fixture
def large() -> Iterator[Rig]:
    """With more processes."""
    yield from rig_with(Threads(), 16)


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def real(processes: Processes) -> Iterator[Rig]:
    """With real processes."""
    yield from rig_with(processes)
    wait_until(processes.ended, 30)
