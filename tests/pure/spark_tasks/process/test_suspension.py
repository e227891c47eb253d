"""A process detects that it was suspended, whichever of its threads runs first afterwards."""

from __future__ import annotations

import pytest

from spark_tasks.process.suspension import Pulse


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pulse(clock: Clock) -> Pulse:
    return Pulse(clock)


def test_a_steady_pulse_has_no_gaps(clock: Clock, pulse: Pulse) -> None:
    for _ in range(20):
        clock.now += 0.3
        pulse.beat()
    assert pulse.longest_gap_since(100) == 0


def test_whoever_asks_first_ends_a_gap_for_all(clock: Clock, pulse: Pulse) -> None:
    clock.now += 30
    assert pulse.longest_gap_since(100) == pulse.longest_gap_since(129.9) == 30
    asked = pulse.beat()
    clock.now += 0.2
    pulse.beat()
    assert pulse.longest_gap_since(asked) == 0


def test_a_gap_counts_for_moments_before_its_end(clock: Clock, pulse: Pulse) -> None:
    clock.now += 30
    pulse.beat()
    clock.now += 0.5
    pulse.beat()
    assert pulse.longest_gap_since(100) == pulse.longest_gap_since(129) == 30
    assert pulse.longest_gap_since(130) == 0
