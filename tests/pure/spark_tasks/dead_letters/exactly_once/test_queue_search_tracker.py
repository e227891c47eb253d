"""Where in the queue the letters of a task's next records can begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once import queue_search_tracker
from spark_tasks.dead_letters.exactly_once.plans import QueueSearchResult
from spark_tasks.dead_letters.exactly_once.queue_search_tracker import QueueSearchTracker, metadata, parsed
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import TopicPartition
from tests.rigs.sink_group import MemberInMemory

A, B = ("t", 0), ("t", 1)


class Rig:
    def __init__(self) -> None:
        self.group: Any = MemberInMemory()
        self.flushed = 0
        self.tracker = QueueSearchTracker(ErrorHandling(), "g")
        self.tracker.activate("c-0")

    def look_up(self, positions: Mapping[TopicPartition, int]) -> None:
        self.tracker.look_up(lambda: positions, self.group, self._flush, 1)

    def _flush(self) -> None:
        self.flushed += 1

    def since(self, partition: TopicPartition) -> Any:
        plan = self.tracker.plan(partition)
        return None if plan is None else plan.since


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ends of the queue from now on."""
    now = [4, 0]
    monkeypatch.setattr(queue_search_tracker, "queue_ends", lambda _handling: tuple(now))
    return now


def test_a_new_partition_gets_a_mark_which_is_committed_at_its_position(ends: list[int]) -> None:
    rig = Rig()
    rig.look_up({A: 10, B: 0})
    assert rig.group.requests == 1, "of all partitions together"
    ends[0] = 9
    rig.look_up({A: 10, B: 0})
    assert rig.group.stored == {A: (10, "heeler-letters:4,0"), B: (0, "heeler-letters:4,0")}
    assert (rig.since(A), rig.flushed) == ((4, 0), 1)
    assert rig.tracker.plan(B).transactional_id == "g-letters-t-1"  # type: ignore[union-attr]


def test_a_committed_mark_is_used_by_another_task(ends: list[int]) -> None:
    rig = Rig()
    rig.group.stored[A] = (10, "heeler-letters:2")
    rig.look_up({A: 12})
    assert rig.since(A) == (2,), "the sink is ahead of the group"
    assert rig.group.stored == {A: (10, "heeler-letters:2")}
    assert ends == [4, 0]


@pytest.mark.usefixtures("ends")
def test_a_position_that_was_set_back_gets_a_new_mark() -> None:
    """The partition was created again, or its offsets were reset, which leaves no mark."""
    rig = Rig()
    rig.group.stored |= {A: (10, "heeler-letters:2"), B: (10, "")}
    rig.look_up({A: 10, B: 10})
    assert (rig.since(A), rig.since(B)) == ((2,), (4, 0))
    rig.look_up({A: 3, B: 10})
    assert rig.since(A) == (4, 0)
    assert rig.group.stored == {A: (3, "heeler-letters:4,0"), B: (10, "heeler-letters:4,0")}
    rig.tracker.advance(A, 20, 20, None)
    rig.look_up({A: 19, B: 10})
    assert rig.group.stored[A] == (19, "heeler-letters:4,0")


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize(("written_to", "search", "since"), [
    (99, QueueSearchResult((7,), -1), (7,)),  # the letter of 99 was written after the search
    (99, QueueSearchResult((7,), 99), (2,)),  # an earlier attempt has written it
    (None, QueueSearchResult((7,), -1), (2,)),  # all records were refused, or perhaps all from some offset on
])
def test_a_sink_resumes_before_the_last_refused_records(
    written_to: int | None, search: QueueSearchResult, since: tuple[int, ...]
) -> None:
    """Their letters are found after a retriable error, and by another task."""
    for forget in (False, True):
        rig = Rig()
        rig.group.stored[A] = (50, "heeler-letters:2")
        rig.look_up({A: 50})
        rig.tracker.advance(A, 100, written_to, search)
        assert rig.since(A) == (7,), "no record from 100 on had a letter then"
        rig.group.commit({A: 100}, 1, rig.tracker.metadata([A])[A])
        if forget:
            rig.tracker.reset()
        else:
            rig.tracker.batch_failed()
        rig.look_up({A: written_to or 50})
        assert rig.since(A) == since
        assert rig.flushed == 0, "there is no new mark"


@pytest.mark.usefixtures("ends")
def test_a_position_that_went_back_in_the_log_gets_a_new_mark() -> None:
    """The log has lost records, of which some had letters; others will have their offsets."""
    rig = Rig()
    rig.group.stored[A] = (0, "heeler-letters:2")
    rig.look_up({A: 0})
    rig.tracker.batch_failed()
    rig.look_up({A: 0})
    rig.tracker.advance(A, 20, 10, QueueSearchResult((3,), 18))
    rig.look_up({A: 15})
    assert rig.group.stored[A] == (15, "heeler-letters:4,0")
    assert rig.since(A) == (4, 0)


@pytest.mark.usefixtures("ends")
def test_a_mark_waits_for_the_letters_of_a_longer_attempt() -> None:
    rig = Rig()
    rig.group.stored[A] = (0, "heeler-letters:2")
    rig.look_up({A: 0})
    rig.tracker.advance(A, 500, 500, QueueSearchResult((7,), 900))
    assert rig.since(A) == (2,)
    assert rig.tracker.metadata([A]) == {A: "heeler-letters:2"}
    rig.tracker.advance(A, 1000, 1000, QueueSearchResult((8,), 900))
    assert rig.since(A) == (8,)
    assert rig.tracker.metadata([A]) == {A: "heeler-letters:8"}


@pytest.mark.usefixtures("ends")
def test_a_mark_advances_with_letters_and_is_committed_with_offsets() -> None:
    rig = Rig()
    rig.look_up({A: 0})
    rig.tracker.advance(A, 5, 5, QueueSearchResult((7, 1), 4))
    rig.tracker.advance(A, 9, 9, None)
    rig.tracker.advance(B, 9, 9, QueueSearchResult((8, 1), -1))
    assert rig.since(A) == (7, 1)
    assert rig.tracker.metadata([A, B]) == {A: "heeler-letters:7,1"}
    rig.tracker.reset()
    rig.group.stored[A] = (9, "heeler-letters:3")
    rig.look_up({A: 9})
    assert rig.since(A) == (3,), "as another member may have committed it"


def test_without_a_queue_or_offsets_of_the_sink_there_are_no_marks() -> None:
    rig = Rig()
    rig.tracker = QueueSearchTracker(ErrorHandling(), "g")
    rig.look_up({A: 0})
    assert (rig.tracker.plan(A), rig.tracker.metadata([A]), rig.group.stored) == (None, {}, {})


@given(st.lists(st.integers(0, 10**18 - 1), min_size=1, max_size=50).map(tuple))
def test_metadata_is_read_as_it_was_written(ends: tuple[int, ...]) -> None:
    assert parsed(metadata(ends)) == ends


@pytest.mark.parametrize("text", ["", "heeler-letters:", "heeler-letters:1,", "heeler-letters:-1", "heeler-replay:1",
                                  "heeler-letters:1,x", f"heeler-letters:{10**18}"])
def test_metadata_of_others_is_no_mark(text: str) -> None:
    assert parsed(text) is None


def test_a_queue_with_too_many_partitions() -> None:
    with pytest.raises(ConnectError, match="has 3000 partitions: too many"):
        metadata((1,) * 3000)
