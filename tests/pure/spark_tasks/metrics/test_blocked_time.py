"""Sleep and locks block a thread; work does not, nor does waiting for a CPU."""

from __future__ import annotations

import os
import threading
import time

import psutil
import pytest

from spark_tasks.metrics import blocked_time
from spark_tasks.metrics.blocked_time import Statistics, blocked_clock, statistics

pytestmark = pytest.mark.integration  # seconds of the machine's own time


def blocked_by(work: object) -> float:
    before = blocked_clock()
    work()  # type: ignore[operator]
    return blocked_clock() - before


def spin() -> None:
    until = time.thread_time() + 0.04
    while time.thread_time() < until:
        pass


def blocked_by_work() -> float:
    """The least of several times, since the host of a virtual machine may take the CPU away, which nobody counts."""
    return min(blocked_by(spin) for _ in range(5))


@pytest.mark.parametrize("known", [True, False], ids=["linux", "other"])
def test_a_thread_that_sleeps_is_blocked(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not known:
        monkeypatch.setattr(blocked_time, "statistics", Statistics("/nonexistent"))
    assert blocked_by(lambda: time.sleep(0.1)) > 0.08


def test_a_thread_that_works_is_not_blocked() -> None:
    """Also while other threads of other processes take the CPU."""
    assert blocked_by_work() < 0.02


def test_a_thread_that_waits_for_another_one_is_blocked() -> None:
    other = threading.Thread(target=time.sleep, args=(0.1,))
    other.start()
    assert blocked_by(other.join) > 0.05


def test_each_thread_has_its_own_time_and_leaves_no_file_open() -> None:
    before, spans = psutil.Process().num_fds(), []

    def sleep() -> None:
        spans.append(blocked_by(lambda: time.sleep(0.1)))

    threads = [threading.Thread(target=sleep) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert blocked_by_work() < 0.02
    for thread in threads:
        thread.join()
    assert min(spans) > 0.08
    assert psutil.Process().num_fds() <= before + 1  # that of this thread


def test_a_forked_process_measures_its_own_thread() -> None:
    blocked_clock()
    child = os.fork()
    if not child:
        os._exit(0 if blocked_by(lambda: time.sleep(0.2)) > 0.15 and blocked_by_work() < 0.02 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_reading_that_was_interrupted_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread had the CPU between the two clocks: it must not count as blocked time, nor reduce it."""
    read, pauses = statistics.read, [0.3, 0.0]

    def slow() -> bytes:
        if pauses:
            time.sleep(pauses.pop(0))
        return read()

    monkeypatch.setattr(statistics, "read", slow)
    before = blocked_clock()
    assert not pauses
    assert blocked_clock() - before < 0.1
