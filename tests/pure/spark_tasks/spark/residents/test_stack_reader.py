"""The stacks of executor processes, requested from outside. They are processes of their own."""

from __future__ import annotations

import sys

import pytest

from tests.rigs.executors import Rig
from tests.rigs.splits import Answer, HangWithSignal
from tests.rigs.support import wait_until


@pytest.mark.integration  # processes of their own
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize(("action", "why"), [("SIG_IGN", "ignores"), ("SIG_DFL", "has removed the handler of")])
def test_a_process_that_does_not_handle_the_signal_for_stacks_is_not_called_suspended(
    real: Rig, action: str, why: str
) -> None:
    batch = real.submit("a-0", HangWithSignal(action))
    reports = real.reports()
    try:
        said = f"writes no stack: a plugin {why} SIGUSR2, the signal that asks for it"
        # Before, it may still start, or be about to handle the signal.
        wait_until(lambda: (reports.where(batch) or "").endswith(said), 60)
        assert not batch.done(), "the signal would have killed it"
    finally:
        real.pool.cancel(batch)


@pytest.mark.integration  # processes of their own
@pytest.mark.parametrize("action", ["SIG_IGN", "SIG_DFL"])
def test_the_signal_for_stacks_is_handled_again_in_the_next_split(
    real: Rig, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(real.pool.manager, "grow", lambda _wanted: None)  # it stays the only process
    assert real.submit("a-0", HangWithSignal(action, seconds=0)).result(30) == [None]
    stuck = real.submit("a-0", Answer(1, 60.0))
    reports = real.reports()
    try:
        wait_until(lambda: "in run" in (reports.where(stuck) or ""))
    finally:
        real.pool.cancel(stuck)
