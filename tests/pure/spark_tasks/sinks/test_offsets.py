"""A sink task's positions, pending offsets and what it knows of dead letters change together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_tasks.dead_letters.exactly_once.group_metadata_tracker import GroupMetadataTracker
from spark_tasks.dead_letters.exactly_once.letter_offsets import LetterOffsets
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sinks.offsets import SinkOffsets
from spark_tasks.sinks.positions import Positions
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.split import SinkResult
from tests.rigs.sink_group import MemberInMemory
from tests.rigs.tasks import context_with

A, B = ("t", 0), ("t", 1)
END = 100


class Watcher:
    """Each partition has the offsets 0 to 100."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace(offsets_by_now=lambda wanted, *_, **__: dict.fromkeys(wanted, 0))

    def ends(self, partitions: Any, _isolation: Any) -> dict[Any, int]:
        return dict.fromkeys(partitions, END)

    refresh = ends


class Rig:
    """`resumes`: the sink stores offsets itself, and has a dead letter queue without headers."""

    def __init__(self, *, resumes: bool = False) -> None:
        self.group: Any = MemberInMemory(A, B)
        self.group.stored[A] = 10, ""
        self.metrics = TaskMetrics()
        watcher: Any = Watcher()
        letters = GroupMetadataTracker("g", can_commit=True)
        if resumes:
            letters.activate("c-0")
        positions = Positions(watcher, "read_uncommitted", "earliest", None)
        self.offsets = SinkOffsets(positions, letters, self.metrics, lambda: 0.0)
        self.offsets.assign(self.group)

    def committed(self) -> dict[TopicPartition, int]:
        return {tp: offset for tp, (offset, _) in self.group.stored.items()}

    def ranges(self) -> list[tuple[TopicPartition, int, int]]:
        return self.offsets.ranges(self.group, 50)


def test_a_batch_that_was_written_advances_positions_and_lags_and_its_offsets_are_committed() -> None:
    rig = Rig()
    assert rig.ranges() == [(A, 10, 60), (B, 0, 50)]
    assert rig.metrics.lags == {A: 90, B: 100}
    assert rig.offsets.begin([A, B])
    rig.offsets.written([SinkResult("t", 0, 60, 50)])
    assert rig.metrics.lags == {A: 40, B: 100}
    rig.offsets.commit(rig.group)
    assert rig.committed() == {A: 60, B: 0}, "B begins where it began, whatever arrives before a restart"
    assert not rig.offsets.pending
    assert rig.ranges() == [(A, 60, 100), (B, 0, 50)]


def test_a_range_that_is_not_in_the_log_any_more_is_read_from_its_start() -> None:
    rig = Rig()
    rig.ranges()
    rig.offsets.written([SinkResult("t", 0, 10, out_of_range=(40, 100)), SinkResult("t", 1, 50, 50)])
    rig.offsets.commit(rig.group)
    assert rig.committed() == {A: 10, B: 50}
    assert rig.ranges() == [(A, 40, 90), (B, 50, 100)]


def test_after_a_commit_that_the_group_refuses_everything_is_read_again() -> None:
    rig = Rig(resumes=True)
    rig.ranges()
    rig.offsets.written([SinkResult("t", 0, 60, 50, known_letters=LetterOffsets().with_more([11]), written_to=12)])
    rig.group.refuses = True
    rig.offsets.commit(rig.group)
    assert not rig.offsets.pending
    assert rig.offsets.positions.at() == {}
    assert not rig.offsets.begin([A]), "what was planned before must not be written"
    rig.group.refuses = False
    assert rig.ranges() == [(A, 10, 60), (B, 0, 50)]
    assert rig.offsets.begin([A, B])


@pytest.mark.parametrize("resumes", [False, True])
def test_offsets_that_a_batch_replaces_are_pending_again_if_it_is_withdrawn(resumes: bool) -> None:
    """Executors commit those of its partitions with its letters, so the task must not do so meanwhile."""
    rig = Rig(resumes=resumes)
    rig.ranges()
    rig.offsets.written([SinkResult("t", 0, 60, 50)])
    assert rig.offsets.begin([A])
    rig.offsets.commit(rig.group)
    assert rig.committed()[A] == (10 if resumes else 60)
    rig.offsets.withdraw()
    rig.offsets.commit(rig.group)
    assert rig.committed()[A] == 60


@pytest.mark.parametrize("resumes", [False, True])
def test_after_a_failure_the_offsets_before_it_stay_pending_unless_executors_commit_them(resumes: bool) -> None:
    rig = Rig(resumes=resumes)
    rig.ranges()
    rig.offsets.written([SinkResult("t", 0, 60, 50)])
    rig.offsets.not_written()
    assert rig.offsets.pending is not resumes


@pytest.mark.parametrize(("headers", "servers", "active"), [
    ("true", "localhost:9", True), ("false", "localhost:9", True), ("false", "elsewhere:9", False)])
def test_letters_are_tracked_if_a_repeated_batch_can_know_them(headers: str, servers: str, active: bool) -> None:
    context = context_with(topics="t", errors_deadletterqueue_topic_name="d", errors_tolerance="all",
                           errors_deadletterqueue_context_headers_enable=headers,
                           producer_override_bootstrap_servers=servers)
    watcher: Any = Watcher()
    for resume_from, expected in ((lambda *_: 0, active), (None, False)):
        made = SinkOffsets.of(context, SinkSettings.of(context), watcher, resume_from, lambda: 0.0)
        assert made.letters.active is expected
