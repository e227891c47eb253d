"""Batch sizes, pauses and retries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.spark.context import ExecutorEndedError, SparkLostError
from spark_tasks.tasks.pace import (
    FIRST_RECORDS,
    LONG_IDLE_AFTER_MS,
    LONG_IDLE_MS,
    LONGEST_IDLE_MS,
    MAX_SPLIT_BYTES,
    MAX_SPLIT_RECORDS,
    MIN_SPLIT_RECORDS,
    POLL_MS,
    SHORTEST_IDLE_MS,
    SPLIT_POLL_MS,
    TARGET_SECONDS,
    IdleTasks,
    Idling,
    SplitSize,
)
from spark_tasks.tasks.retries import LONGEST_WAIT_MS, LOST_WAIT_MS, MAX_LOST_JOBS, Retries


def after_batches(rate: float, record_bytes: int, batches: int) -> SplitSize:
    size = SplitSize()
    for _ in range(batches):
        size = size.after(size.records, size.records * record_bytes, size.records / rate)
    return size


def test_splits_converge_to_the_target_time() -> None:
    for rate in (20_000, 1_000_000):
        size = after_batches(rate, 80, 5)
        assert abs(size.records / rate - TARGET_SECONDS) < 0.1


def test_large_records_are_bounded_by_bytes() -> None:
    size = after_batches(1_000_000, 10_000, 5)
    assert size.records * 10_000 <= MAX_SPLIT_BYTES


def test_small_splits_do_not_change_the_estimate() -> None:
    assert SplitSize().after(3, 300, 0.5) == SplitSize()
    assert SplitSize().after(2_000, 160_000, 0.001).records == FIRST_RECORDS


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**10), st.floats(0, 100)), max_size=20))
def test_sizes_stay_within_bounds(batches: list[tuple[int, int, float]]) -> None:
    size = SplitSize()
    for records, total, seconds in batches:
        size = size.after(records, total, seconds)
        assert MIN_SPLIT_RECORDS <= size.records <= MAX_SPLIT_RECORDS
        assert abs(size.seconds(size.records) - TARGET_SECONDS) < 1e-6


@given(st.integers(1, 10**7), st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 100)), max_size=10))
def test_the_size_never_exceeds_the_upper_limit(max_records: int, batches: list[tuple[int, float]]) -> None:
    size = SplitSize.at_most(max_records)
    for records, seconds in [*batches, (max_records, 0.0)]:
        assert 1 <= size.records <= max_records
        size = size.after(records, records * 80, seconds)
    assert size.records <= max_records


def test_idle_pauses_grow_and_grow_further_after_a_minute() -> None:
    idling, pauses, asleep = Idling(), [], 0
    while asleep < 2 * LONG_IDLE_AFTER_MS:
        pauses.append(idling.idle_ms)
        asleep += idling.idle_ms
        idling = idling.next()
    assert pauses[0] == SHORTEST_IDLE_MS
    assert pauses == sorted(pauses)
    assert LONGEST_IDLE_MS in pauses
    assert pauses[-1] == LONG_IDLE_MS


def test_a_thousand_idle_tasks_poll_no_more_often_than_fifty() -> None:
    idle = IdleTasks()
    for number in range(50):
        idle.add(f"few-{number}")
    assert idle.shared_pause_ms == LONGEST_IDLE_MS
    for number in range(950):
        idle.add(f"many-{number}")
    idling, asleep = Idling(), 0
    while asleep < LONG_IDLE_AFTER_MS:
        assert idling.idle_ms <= SHORTEST_IDLE_MS + 2 + asleep / 8, "a record waits no longer for it"
        asleep += idling.idle_ms
        idling = idling.next(idle.shared_pause_ms)
    assert idling.idle_ms == 1000 * POLL_MS
    idle.add("few-0")
    idle.discard("few-0")
    idle.discard("few-0")
    assert idle.shared_pause_ms == 999 * POLL_MS
    assert idle.add("few-1", in_split=True) == LONG_IDLE_MS
    assert idle.shared_pause_ms == 998 * POLL_MS + SPLIT_POLL_MS, "which costs more"


def test_tasks_that_poll_in_splits_share_their_polls_although_they_have_just_had_records() -> None:
    idle = IdleTasks()
    pauses = [idle.add(f"t-{number}", in_split=True) for number in range(1, 61)]
    assert pauses[:3] == [SPLIT_POLL_MS, 2 * SPLIT_POLL_MS, 3 * SPLIT_POLL_MS]
    assert max(pauses) == LONG_IDLE_MS
    assert idle.add("planned on the worker") == 0


def test_an_idle_pause_is_at_most_a_fraction_of_the_idle_time() -> None:
    idling, asleep = Idling(), 0
    while idling.idle_ms < LONGEST_IDLE_MS:
        assert idling.idle_ms <= SHORTEST_IDLE_MS + 2 + asleep / 8
        asleep += idling.idle_ms
        idling = idling.next()


def test_only_retriable_errors_are_retried_without_limit() -> None:
    assert Retries().after(ConnectError("no")) is None
    assert Retries().after(ValueError("no")) is None
    retries, waits = Retries(), []
    for _ in range(50):
        following = retries.after(RetriableError("again"))
        assert following is not None
        retries = following
        waits.append(retries.wait_ms)
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT_MS


def test_a_batch_whose_process_is_known_to_have_ended_is_repeated_at_once() -> None:
    ended = Retries().after(ExecutorEndedError("killed"))
    assert ended is not None
    assert ended.wait_ms < LOST_WAIT_MS
    unsure = ended.after(SparkLostError("not heard of any more"))
    assert unsure is not None
    assert unsure.wait_ms >= LOST_WAIT_MS
    assert unsure.lost_jobs == 2


def test_a_task_that_takes_spark_down_again_and_again_fails() -> None:
    retries: Retries | None = Retries()
    for _ in range(MAX_LOST_JOBS):
        assert retries is not None
        retries = retries.after(SparkLostError("killed"))
        assert retries is not None
        assert retries.wait_ms >= LOST_WAIT_MS
    assert retries is not None
    assert retries.after(SparkLostError("killed")) is None
    assert retries.after(RetriableError("busy")) is not None
