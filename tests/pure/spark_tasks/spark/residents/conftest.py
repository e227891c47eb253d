"""A pool of executor processes that are threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from tests.rigs.executors import Rig, Threads, begun, gates


@pytest.fixture
def rig() -> Iterator[Rig]:
    gates.clear()
    begun.clear()
    rig = Rig()
    rig.pool.use(Threads())
    yield rig
    for gate in gates.values():
        gate.set()
    rig.pool.close(CancelledError(), 5)
    rig.listener.close()
