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


def test_no_job_starts_without_waiting_batches_or_free_slots() -> None:
    assert next_job([], 4) == []
    assert next_job([Waiting(0, 0.0)], 0) == []


def test_batches_have_jobs_of_their_own_while_there_are_slots() -> None:
    assert next_job([Waiting(n, 0.0) for n in range(4)], 4) == [0]


def test_small_batches_share_jobs_evenly_among_free_slots() -> None:
    assert next_job([Waiting(n, 0.0) for n in range(8)], 4) == [0, 1]
    assert next_job([Waiting(n, 0.0) for n in range(9)], 4) == [0, 1, 2]


def test_a_big_batch_has_its_own_job_and_is_skipped_by_shared_jobs() -> None:
    waiting = [Waiting(0, 0.0), Waiting(1, 1.0), Waiting(2, 0.0)]
    assert next_job(waiting, 1) == [0, 2]
    assert next_job(waiting[1:], 1) == [1]


def test_a_task_that_failed_a_shared_job_no_longer_shares_jobs() -> None:
    assert next_job([Waiting(0, 0.0, alone=True), Waiting(1, 0.0)], 1) == [0]


@given(SUBMISSIONS, st.integers(1, 8))
def test_every_job_is_valid_and_every_batch_runs(waiting: list[Waiting], slots: int) -> None:
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
def test_spread_contains_every_split_once(splits: int, slots: int, shared: bool) -> None:
    layout = spread(splits, slots, shared=shared)
    assert sorted(n for part in layout for n in part) == list(range(splits))
    assert all(layout)
    if shared:
        assert len(layout) <= slots
