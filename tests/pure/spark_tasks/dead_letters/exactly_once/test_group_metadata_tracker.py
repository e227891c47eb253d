"""Which records have a letter, if letters do not name their records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from spark_tasks.dead_letters.exactly_once.group_metadata_tracker import GroupMetadataTracker
from spark_tasks.dead_letters.exactly_once.letter_offsets import LetterOffsets
from spark_tasks.dead_letters.exactly_once.plans import GroupMetadataPlan
from spark_tasks.errors import RetriableError
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.transactional_offsets import GroupGeneration
from tests.rigs.sink_group import MemberInMemory

A, B = ("t", 0), ("t", 1)
NONE = LetterOffsets()


def letters(*offsets: int) -> LetterOffsets:
    return NONE.with_more(offsets)


class Rig:
    def __init__(self) -> None:
        self.group: Any = MemberInMemory()
        self.flushed = 0
        self.tracker = GroupMetadataTracker("g", can_commit=True)
        self.tracker.activate("c-0")

    def look_up(self, positions: Mapping[TopicPartition, int]) -> None:
        self.tracker.look_up(lambda: positions, self.group, self._flush, 1)

    def _flush(self) -> None:
        self.flushed += 1

    def resume(self, partition: TopicPartition) -> int:
        plan = self.tracker.plan(partition)
        assert isinstance(plan, GroupMetadataPlan)
        return plan.resume


def test_a_new_partition_begins_with_none_which_is_committed_at_its_position() -> None:
    rig = Rig()
    assert not rig.tracker.is_ready(A)
    rig.look_up({A: 10, B: 0})
    assert rig.group.stored == {A: (10, NONE.metadata()), B: (0, NONE.metadata())}
    assert rig.tracker.plan(B) == GroupMetadataPlan("g-letters-t-1", GroupGeneration("g", 3, "member"), 0)
    assert rig.tracker.is_ready(A)


def test_offsets_are_read_and_committed_only_for_partitions_that_are_new() -> None:
    """Each batch waited for a commit, and each partition for a request of its own."""
    rig = Rig()
    for _ in range(2):
        rig.look_up({A: 10, B: 10})
        assert (rig.group.requests, rig.flushed) == (1, 1)


def unsure(rig: Rig) -> bool:
    plan = rig.tracker.plan(A)
    assert isinstance(plan, GroupMetadataPlan)
    return plan.unsure


@pytest.mark.parametrize("again", ["another member has had it", "a batch failed"])
def test_what_the_group_has_is_uncertain_until_a_batch_succeeds(again: str) -> None:
    """A transaction of an earlier attempt may end after it was read. Its letters were forgotten, and written twice."""
    rig = Rig()
    rig.look_up({A: 10})
    assert not unsure(rig), "there has been no attempt"
    rig.tracker.advance(A, 12, 12, None)
    (rig.tracker.reset if again == "another member has had it" else rig.tracker.batch_failed)()
    for _ in range(2):
        rig.look_up({A: 12})
        assert unsure(rig)
    rig.tracker.advance(A, 13, 13, letters(14))  # of an earlier attempt, which was longer
    rig.look_up({A: 13})
    assert not unsure(rig)
    assert rig.tracker.metadata([A]) == {A: letters(14).metadata()}


def test_a_position_that_went_back_in_the_log_begins_with_none() -> None:
    """The log has lost records, of which some had letters; others will have their offsets."""
    rig = Rig()
    rig.look_up({A: 0})
    rig.tracker.advance(A, 20, 10, letters(12, 18))
    rig.look_up({A: 15})
    assert rig.group.stored[A] == (15, NONE.metadata())
    assert rig.tracker.metadata([A]) == {A: NONE.metadata()}


def test_letters_that_are_committed_are_kept_by_another_task() -> None:
    rig = Rig()
    rig.group.stored[A] = (10, letters(11, 14).metadata())
    rig.look_up({A: 12})
    assert rig.group.stored[A] == (10, letters(11, 14).metadata())
    assert rig.resume(A) == 12
    rig.tracker.advance(A, 20, 20, None)
    assert rig.tracker.metadata([A, B]) == {A: NONE.metadata()}


@pytest.mark.parametrize("by", ["its topic was created again", "a reset"])
def test_a_position_that_was_set_back_begins_with_none(by: str) -> None:
    rig = Rig()
    rig.look_up({A: 0})
    rig.tracker.advance(A, 20, 10, letters(12))
    if by == "a reset":
        rig.group.stored[A] = (5, "")
        rig.tracker.reset()
    rig.look_up({A: 5})
    assert rig.group.stored[A] == (5, NONE.metadata())
    assert rig.resume(A) == 5
    assert rig.tracker.metadata([A]) == {A: NONE.metadata()}


def test_letters_of_records_that_the_sink_may_read_again_are_kept() -> None:
    rig = Rig()
    rig.look_up({A: 0})
    rig.tracker.advance(A, 10, None, letters(*range(10)))
    assert rig.tracker.metadata([A]) == {A: letters(*range(10)).metadata()}, "it has none of these records"
    rig.tracker.advance(A, 20, 18, letters(*range(10), 12, 18, 19))
    assert rig.tracker.metadata([A]) == {A: letters(18, 19).metadata()}
    assert rig.resume(A) == 18
    rig.group.stored[A] = (20, letters(18, 19).metadata())
    rig.tracker.batch_failed()
    rig.look_up({A: 18})
    assert rig.group.stored[A] == (20, letters(18, 19).metadata()), "the sink resumes there, which is no reset"
    rig.tracker.advance(A, 25, 25, None)
    assert rig.tracker.metadata([A]) == {A: NONE.metadata()}


def test_after_a_failure_they_are_read_again() -> None:
    """A part of the batch may have committed letters."""
    rig = Rig()
    rig.look_up({A: 0})
    rig.group.stored[A] = (0, letters(3).metadata())
    rig.tracker.batch_failed()
    rig.look_up({A: 0})
    rig.tracker.advance(A, 2, 2, None)
    assert rig.tracker.metadata([A]) == {A: letters(3).metadata()}


def test_no_batch_begins_during_a_rebalance() -> None:
    rig = Rig()
    rig.group.current = None
    with pytest.raises(RetriableError, match="rebalances"):
        rig.look_up({A: 0})
    assert rig.group.stored == {}


def test_without_a_queue_or_offsets_of_the_sink_nothing_is_kept() -> None:
    rig = Rig()
    rig.tracker = GroupMetadataTracker("g", can_commit=True)
    rig.look_up({A: 0})
    rig.tracker.advance(A, 5, 5, None)
    assert (rig.tracker.plan(A), rig.tracker.metadata([A]), rig.group.stored, rig.flushed) == (None, {}, {}, 0)
    assert rig.tracker.is_ready(A)


def test_nothing_is_kept_if_the_group_is_in_another_cluster(caplog: pytest.LogCaptureFixture) -> None:
    tracker = GroupMetadataTracker("g", can_commit=False)
    tracker.activate("c-0")
    assert (tracker.active, tracker.is_ready(A), tracker.plan(A)) == (False, True, None)
    assert "has other bootstrap.servers than the consumer of c-0" in caplog.text
