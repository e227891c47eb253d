"""The policy of errors.restart.*: when the next restart may be, and how many a period has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.config.restart_policy import WORKER, RestartPolicy, settings
from spark_tasks.errors import ConfigError

TIMES = st.lists(st.integers(0, 10**9), max_size=30).map(sorted)


@given(TIMES, st.integers(1, 10), st.integers(1, 10**8), st.integers(0, 10**6), st.integers(0, 10**6))
def test_no_period_has_more_restarts_than_the_limit(
    times: list[int], limit: int, period: int, first: int, longest: int
) -> None:
    policy = RestartPolicy(failed=True, limit=limit, period_ms=period, first_ms=first, longest_ms=longest)
    done: list[int] = []
    for at in times:
        then = policy.next_ms(done, at)
        assert then >= at
        if done and then < done[-1]:
            then = done[-1]
        done = [*policy.counted_restarts(done, then), then]
        assert len([t for t in done if t > then - period]) <= limit


def test_an_invalid_restart_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"errors\.restart\.limit"):
        settings(WORKER.parse({}), {"errors.restart.limit": "0"})
