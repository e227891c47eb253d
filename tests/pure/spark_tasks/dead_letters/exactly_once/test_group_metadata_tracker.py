"""Which records have a letter, if letters do not name their records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from spark_tasks.dead_letters.exactly_once.group_metadata_sender import LettersInGroup
from spark_tasks.dead_letters.exactly_once.group_metadata_tracker import LettersKept
from spark_tasks.dead_letters.exactly_once.letter_offsets import WrittenLetters
from spark_tasks.errors import RetriableError
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.transactional_offsets import GroupGeneration
from tests.rigs.sink_group import MemberInMemory

A, B = ("t", 0), ("t", 1)
NONE = WrittenLetters()


def letters(*offsets: int) -> WrittenLetters:
    return NONE.with_more(offsets)


class Rig:
    def __init__(self) -> None:
        self.group: Any = MemberInMemory()
        self.flushed = 0
        self.kept = LettersKept("g", can_commit=True)
        self.kept.activate("c-0")

    def complete(self, positions: Mapping[TopicPartition, int]) -> None:
        self.kept.complete(lambda: positions, self.group, self._flush, 1)

    def _flush(self) -> None:
        self.flushed += 1

    def resume(self, partition: TopicPartition) -> int:
        how = self.kept.of(partition)
        assert isinstance(how, LettersInGroup)
        return how.resume


def test_a_new_partition_begins_with_none_which_is_committed_at_its_position() -> None:
    rig = Rig()
    assert not rig.kept.knows(A)
    rig.complete({A: 10, B: 0})
    assert rig.group.stored == {A: (10, NONE.text()), B: (0, NONE.text())}
    assert rig.kept.of(B) == LettersInGroup("g-letters-t-1", GroupGeneration("g", 3, "member"), 0)
    assert rig.kept.knows(A)


def test_offsets_are_read_and_committed_only_for_partitions_that_are_new() -> None:
    """Each batch waited for a commit, and each partition for a request of its own."""
    rig = Rig()
    for _ in range(2):
        rig.complete({A: 10, B: 10})
        assert (rig.group.requests, rig.flushed) == (1, 1)


def unsure(rig: Rig) -> bool:
    how = rig.kept.of(A)
    assert isinstance(how, LettersInGroup)
    return how.unsure


@pytest.mark.parametrize("again", ["another member has had it", "a batch failed"])
def test_what_the_group_has_is_uncertain_until_a_batch_succeeds(again: str) -> None:
    """A transaction of an earlier attempt may end after it was read. Its letters were forgotten, and written twice."""
    rig = Rig()
    rig.complete({A: 10})
    assert not unsure(rig), "there has been no attempt"
    rig.kept.advance(A, 12, 12, None)
    (rig.kept.forget if again == "another member has had it" else rig.kept.failed)()
    for _ in range(2):
        rig.complete({A: 12})
        assert unsure(rig)
    rig.kept.advance(A, 13, 13, letters(14))  # of an earlier attempt, which was longer
    rig.complete({A: 13})
    assert not unsure(rig)
    assert rig.kept.metadata([A]) == {A: letters(14).text()}


def test_a_position_that_went_back_in_the_log_begins_with_none() -> None:
    """The log has lost records, of which some had letters; others will have their offsets."""
    rig = Rig()
    rig.complete({A: 0})
    rig.kept.advance(A, 20, 10, letters(12, 18))
    rig.complete({A: 15})
    assert rig.group.stored[A] == (15, NONE.text())
    assert rig.kept.metadata([A]) == {A: NONE.text()}


def test_letters_that_are_committed_are_kept_by_another_task() -> None:
    rig = Rig()
    rig.group.stored[A] = (10, letters(11, 14).text())
    rig.complete({A: 12})
    assert rig.group.stored[A] == (10, letters(11, 14).text())
    assert rig.resume(A) == 12
    rig.kept.advance(A, 20, 20, None)
    assert rig.kept.metadata([A, B]) == {A: NONE.text()}


@pytest.mark.parametrize("by", ["its topic was created again", "a reset"])
def test_a_position_that_was_set_back_begins_with_none(by: str) -> None:
    rig = Rig()
    rig.complete({A: 0})
    rig.kept.advance(A, 20, 10, letters(12))
    if by == "a reset":
        rig.group.stored[A] = (5, "")
        rig.kept.forget()
    rig.complete({A: 5})
    assert rig.group.stored[A] == (5, NONE.text())
    assert rig.resume(A) == 5
    assert rig.kept.metadata([A]) == {A: NONE.text()}


def test_letters_of_records_that_the_sink_may_read_again_are_kept() -> None:
    rig = Rig()
    rig.complete({A: 0})
    rig.kept.advance(A, 10, None, letters(*range(10)))
    assert rig.kept.metadata([A]) == {A: letters(*range(10)).text()}, "it has none of these records"
    rig.kept.advance(A, 20, 18, letters(*range(10), 12, 18, 19))
    assert rig.kept.metadata([A]) == {A: letters(18, 19).text()}
    assert rig.resume(A) == 18
    rig.group.stored[A] = (20, letters(18, 19).text())
    rig.kept.failed()
    rig.complete({A: 18})
    assert rig.group.stored[A] == (20, letters(18, 19).text()), "the sink resumes there, which is no reset"
    rig.kept.advance(A, 25, 25, None)
    assert rig.kept.metadata([A]) == {A: NONE.text()}


def test_after_a_failure_they_are_read_again() -> None:
    """A part of the batch may have committed letters."""
    rig = Rig()
    rig.complete({A: 0})
    rig.group.stored[A] = (0, letters(3).text())
    rig.kept.failed()
    rig.complete({A: 0})
    rig.kept.advance(A, 2, 2, None)
    assert rig.kept.metadata([A]) == {A: letters(3).text()}


def test_no_batch_begins_during_a_rebalance() -> None:
    rig = Rig()
    rig.group.current = None
    with pytest.raises(RetriableError, match="rebalances"):
        rig.complete({A: 0})
    assert rig.group.stored == {}


def test_without_a_queue_or_offsets_of_the_sink_nothing_is_kept() -> None:
    rig = Rig()
    rig.kept = LettersKept("g", can_commit=True)
    rig.complete({A: 0})
    rig.kept.advance(A, 5, 5, None)
    assert (rig.kept.of(A), rig.kept.metadata([A]), rig.group.stored, rig.flushed) == (None, {}, {}, 0)
    assert rig.kept.knows(A)


def test_nothing_is_kept_if_the_group_is_in_another_cluster(caplog: pytest.LogCaptureFixture) -> None:
    kept = LettersKept("g", can_commit=False)
    kept.activate("c-0")
    assert (kept.active, kept.knows(A), kept.of(A)) == (False, True, None)
    assert "has other bootstrap.servers than the consumer of c-0" in caplog.text
