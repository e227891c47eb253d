"""Which submissions share a Spark job."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.spark.jobs import BIG_SECONDS, MAX_SHARING, Waiting, next_job, spread

SUBMISSIONS = st.lists(
    st.builds(
        Waiting, key=st.just(0), seconds=st.sampled_from([0.0, 0.02, 0.5]),
        alone=st.booleans(),
    ),
    max_size=80,
).map(lambda found: [Waiting(key, w.seconds, w.alone) for key, w in enumerate(found)])


def test_nothing_waits_or_no_slot_is_free() -> None:
    assert next_job([], 4) == []
    assert next_job([Waiting(0, 0.0)], 0) == []


def test_one_job_each_while_there_are_slots() -> None:
    assert next_job([Waiting(n, 0.0) for n in range(4)], 4) == [0]


def test_small_ones_are_spread_over_the_free_slots() -> None:
    assert next_job([Waiting(n, 0.0) for n in range(8)], 4) == [0, 1]
    assert next_job([Waiting(n, 0.0) for n in range(9)], 4) == [0, 1, 2]


def test_a_big_one_has_a_job_of_its_own_and_small_ones_pass_it() -> None:
    waiting = [Waiting(0, 0.0), Waiting(1, 1.0), Waiting(2, 0.0)]
    assert next_job(waiting, 1) == [0, 2]
    assert next_job(waiting[1:], 1) == [1]


def test_a_task_that_failed_a_shared_job_no_longer_shares_jobs() -> None:
    assert next_job([Waiting(0, 0.0, alone=True), Waiting(1, 0.0)], 1) == [0]


@given(SUBMISSIONS, st.integers(1, 8))
def test_every_job_is_sound_and_all_get_their_turn(waiting: list[Waiting], slots: int) -> None:
    left = list(waiting)
    while left:
        job = next_job(left, slots)
        taken = [w for w in left if w.key in job]
        assert job[0] == left[0].key, "the first one waits no longer"
        assert len(set(job)) == len(job) == len(taken) <= MAX_SHARING
        if len(taken) > 1:
            assert all(w.may_share for w in taken)
            assert sum(w.seconds for w in taken) <= BIG_SECONDS
        left = [w for w in left if w.key not in job]


@given(st.integers(1, 200), st.integers(1, 16), st.booleans())
def test_spread_has_every_split_once(splits: int, slots: int, shared: bool) -> None:
    layout = spread(splits, slots, shared=shared)
    assert sorted(n for part in layout for n in part) == list(range(splits))
    assert all(layout)
    if shared:
        assert len(layout) <= slots
