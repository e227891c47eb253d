"""tasks.auto: how many tasks a lag requires."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.config.auto_tasks import as_put, stored
from spark_tasks.config.definition import ConfigError
from spark_tasks.config.scaling import Bounds, Scale, advance, unknown

BOUNDS = st.builds(lambda min_tasks, more, lag, period: Bounds(min_tasks, min_tasks + more, lag, period),
                   st.integers(1, 5), st.integers(0, 20), st.integers(1, 1000), st.integers(1000, 5000))
LAGS = st.integers(0, 50_000)


def run(bounds: Bounds, scale: Scale, lags: list[int], partitions: int = 1000, step_ms: int = 1000) -> list[Scale]:
    """One measurement each step."""
    found = []
    for n, lag in enumerate(lags):
        scale = advance(scale, bounds, lag, partitions, n * step_ms)
        found.append(scale)
    return found


@given(BOUNDS, st.integers(1, 25), st.lists(LAGS, max_size=30), st.integers(0, 30))
def test_the_number_of_tasks_stays_within_bounds_and_partitions(bounds, tasks, lags, partitions):
    for scale in run(bounds, Scale(bounds.clamped(tasks)), lags, partitions):
        assert bounds.min_tasks <= scale.tasks <= max(bounds.min_tasks, min(bounds.max_tasks, partitions))


@given(BOUNDS, st.integers(1, 25), LAGS)
def test_a_constant_lag_never_makes_the_number_of_tasks_oscillate(bounds, tasks, lag):
    counts = [scale.tasks for scale in run(bounds, Scale(bounds.clamped(tasks)), [lag] * 80)]
    assert counts in (sorted(counts), sorted(counts, reverse=True))
    assert counts[-1] == counts[-10], "it comes to rest"
    enough = -(-lag // bounds.lag)
    assert counts[-1] >= min(bounds.max_tasks, enough), "and none has too much, where there may be more"


@given(BOUNDS, st.integers(1, 25), st.lists(LAGS, min_size=1, max_size=30))
def test_the_number_of_tasks_changes_only_after_a_whole_period(bounds, tasks, lags):
    start = bounds.clamped(tasks)
    found = run(bounds, Scale(start), lags, step_ms=500)
    changes = [n for n, (a, b) in enumerate(zip([start, *(s.tasks for s in found)], [s.tasks for s in found],
                                                strict=False)) if a != b]
    assert all(n * 500 >= bounds.period_ms for n in changes[:1])
    assert all((b - a) * 500 >= bounds.period_ms for a, b in pairwise(changes))


@given(BOUNDS, st.integers(1, 25))
def test_without_lag_the_number_of_tasks_falls_to_the_minimum(bounds, tasks):
    assert run(bounds, Scale(bounds.clamped(tasks)), [0] * 80)[-1].tasks == bounds.min_tasks


def test_a_backlog_adds_no_more_tasks_than_it_needs():
    bounds = Bounds(1, 8, 100, 1000)
    assert [s.tasks for s in run(bounds, Scale(1), [1000] * 8)] == [1, 2, 2, 4, 4, 8, 8, 8]
    assert [s.tasks for s in run(bounds, Scale(2), [250] * 4)] == [2, 3, 3, 3]
    assert [s.tasks for s in run(bounds, Scale(8), [100] * 6)] == [8, 4, 4, 2, 2, 2], "half of what it may be at most"


def test_after_an_unknown_lag_the_period_starts_again():
    bounds = Bounds(1, 8, 100, 1000)
    scale = unknown(advance(Scale(1), bounds, 1000, 8, 0))
    assert advance(scale, bounds, 1000, 8, 1500).tasks == 1


def test_the_number_of_tasks_falls_to_the_number_of_partitions():
    assert advance(Scale(8), Bounds(1, 8, 100, 1000), 10**9, 3, 0).tasks == 3


def test_bounds_are_read_from_the_configuration():
    assert Bounds.of({"tasks.max": "4"}) is None
    assert Bounds.of({"tasks.auto": "false", "tasks.auto.lag": "5"}) is None
    assert Bounds.of({"tasks.auto": "true", "tasks.max": "4"}) == Bounds(1, 4, 100_000, 60_000)
    assert Bounds.of(stored({"tasks.max": "auto", "tasks.auto.max": "4", "tasks.auto.min": "2"})) == Bounds(
        2, 4, 100_000, 60_000)
    assert Bounds.of({"tasks.auto": "true", "tasks.max": "2", "tasks.auto.min": "3"}) == Bounds(2, 2, 100_000, 60_000)
    with pytest.raises(ConfigError):
        Bounds.of({"tasks.auto": "true", "tasks.auto.period.ms": "999"})


@given(st.dictionaries(st.sampled_from(["tasks.max", "tasks.auto.max", "tasks.auto", "x"]),
                       st.sampled_from(["auto", "1", "8", "true", "${file:a:b}"])))
def test_tasks_max_auto_is_shown_as_put_and_stored_as_a_number(config):
    """Except that a number together with an equal tasks.auto.max means, and is shown as, auto."""
    kept = stored(config)
    shown = as_put(kept)
    twin = "tasks.auto.max" in config and config["tasks.auto.max"] == config.get("tasks.max")
    assert shown == ({**config, "tasks.max": "auto"} if twin else config)
    assert (kept.get("tasks.max") == "auto") <= ("tasks.auto.max" not in config or config["tasks.auto.max"] == "auto")
    assert stored(shown) == kept
