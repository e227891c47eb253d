"""Sleep and locks block a thread; work does not, nor does waiting for a CPU."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from spark_tasks.metrics import blocked_time
from spark_tasks.metrics.blocked_time import blocked_clock


def blocked_by(work: object) -> float:
    before = blocked_clock()
    work()  # type: ignore[operator]
    return blocked_clock() - before


def spin() -> None:
    until = time.thread_time() + 0.1
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize("known", [True, False], ids=["linux", "other"])
def test_a_thread_that_sleeps_is_blocked(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not known:
        monkeypatch.setattr(blocked_time, "SCHEDSTAT", Path("/nonexistent"))
    assert blocked_by(lambda: time.sleep(0.1)) > 0.08


def test_a_thread_that_works_is_not_blocked() -> None:
    """Also while other threads of other processes take the CPU."""
    assert blocked_by(spin) < 0.05


def test_a_thread_that_waits_for_another_one_is_blocked() -> None:
    other = threading.Thread(target=time.sleep, args=(0.1,))
    other.start()
    assert blocked_by(other.join) > 0.05
