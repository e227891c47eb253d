"""Any history of a cluster ends in the right assignment. HEELER_HISTORIES=10000 runs that many instead of five."""

from __future__ import annotations

import os

import pytest

from actors.herder import config_changes
from tests.rigs.herder.histories import run

HISTORIES = int(os.environ.get("HEELER_HISTORIES", "5"))
CHUNK = 10
FOUND_ONCE = (1401, 1539, 1827, 2851, 3493, 4290, 6352, 6411)  # seeds that failed, before anything healed
FOUND_HEALING = (10, 445, 1072, 5413, 6637, 7239, 9904, 200094)
FOUND_POSTPONING = (58, 106, 112, 138, 258)
FOUND_WEIGHING = (1321, 2090)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few items suffice for a pause between rebalances, of a millisecond each."""
    monkeypatch.setattr(config_changes, "ITEMS_PER_MS", 1)
    monkeypatch.setattr(config_changes, "MIN_PAUSE_MS", 1)


@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_random_histories_end_in_the_right_assignment(first: int) -> None:
    for seed in range(first, min(first + CHUNK, HISTORIES)):
        try:
            run(seed)
        except Exception as error:
            error.add_note(f"seed {seed}: python -c 'from tests.rigs.herder.histories import run; run({seed})'")
            raise


@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_random_histories_with_weights_end_balanced(first: int) -> None:
    for seed in range(first, min(first + CHUNK, HISTORIES)):
        try:
            run(seed, weighs=True)
        except Exception as error:
            error.add_note(f"seed {seed}: python -c 'from tests.rigs.herder.histories import run; "
                           f"run({seed}, weighs=True)'")
            raise


@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_random_histories_with_postponed_rebalances_end_in_the_right_assignment(first: int, pauses: None) -> None:
    for seed in range(first, min(first + CHUNK, HISTORIES)):
        try:
            run(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("seed", FOUND_POSTPONING)
def test_histories_whose_postponed_rebalances_were_lost_end_in_the_right_assignment(seed: int, pauses: None) -> None:
    run(seed)


@pytest.mark.parametrize("seed", FOUND_ONCE)
def test_histories_that_failed_before_end_in_the_right_assignment(seed: int) -> None:
    run(seed, heals=False)


@pytest.mark.parametrize("seed", FOUND_HEALING)
def test_histories_whose_restarts_failed_before_end_in_the_right_assignment(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", FOUND_WEIGHING)
def test_histories_with_weights_that_failed_before_end_balanced(seed: int) -> None:
    run(seed, weighs=True)
