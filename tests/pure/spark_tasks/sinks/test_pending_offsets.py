"""When the offsets of a sink task are committed."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.errors import KafkaUnavailableError, MetadataTooLargeError, NotAMemberError
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sinks import pending_offsets
from spark_tasks.sinks.pending_offsets import LATE_MS, NOTHING_MS, PendingOffsets

ONE, TWO = ("t", 0), ("t", 1)
PAUSE_S = 0.5


class Group:
    """A member whose commits succeed, or fail with `error`; while it is `busy` they wait for `answer`."""

    def __init__(self) -> None:
        self.commits: list[dict[TopicPartition, int]] = []
        self.error: Exception | None = None
        self.busy = False
        self._waiting: list[Future[None]] = []

    def begin_commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: int, _metadata: object) -> Future[None]:
        assert timeout_ms > 0
        self.commits.append(dict(offsets))
        self._waiting.append(Future())
        future = self._waiting[-1]
        if not self.busy:
            self.answer()
        return future

    def answer(self) -> None:
        for future in self._waiting:
            if self.error is None:
                future.set_result(None)
            else:
                future.set_exception(self.error)
        self._waiting.clear()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pending_offsets, "time", clock)
    return clock


@pytest.fixture
def group() -> Group:
    return Group()


def pending(refused: list[str] | None = None) -> PendingOffsets:
    reported = refused if refused is not None else []
    return PendingOffsets(TaskMetrics(), lambda: PAUSE_S, lambda: reported.append("refused"))


def test_the_first_batch_is_committed_at_once_and_the_following_together(clock: Clock, group: Group) -> None:
    offsets = pending()
    assert offsets.commit_due(group) == NOTHING_MS
    offsets.add({ONE: 1, TWO: 5})
    assert offsets.commit_due(group) == NOTHING_MS
    for offset in (2, 3):
        clock.now += PAUSE_S / 4
        offsets.add({ONE: offset})
        assert 0 < offsets.commit_due(group) <= PAUSE_S * 1000
    assert group.commits == [{ONE: 1, TWO: 5}]
    clock.now += PAUSE_S / 2
    assert offsets.commit_due(group) == NOTHING_MS
    assert group.commits == [{ONE: 1, TWO: 5}, {ONE: 3}]
    assert not offsets


def test_a_commit_is_due_after_the_returned_pause(clock: Clock, group: Group) -> None:
    offsets = pending()
    offsets.add({ONE: 1})
    offsets.commit_due(group)
    offsets.add({ONE: 2})
    clock.now += 0.1234567
    clock.now += offsets.commit_due(group) / 1000
    offsets.commit_due(group)
    assert group.commits == [{ONE: 1}, {ONE: 2}]


def test_offsets_are_kept_while_kafka_is_unavailable(clock: Clock, group: Group) -> None:
    offsets = pending()
    offsets.add({ONE: 1})
    group.error = KafkaUnavailableError("away")
    with pytest.raises(KafkaUnavailableError):
        offsets.commit_due(group)
    group.error = None
    clock.now += 0.001
    offsets.commit_due(group)  # and is not put off
    assert group.commits == [{ONE: 1}, {ONE: 1}]
    assert not offsets


def test_metadata_that_is_too_large_is_a_failed_commit_that_is_not_repeated(clock: Clock, group: Group) -> None:
    """As in Kafka Connect. It failed the task, and would again after a restart."""
    metrics = TaskMetrics()
    offsets = PendingOffsets(metrics)
    offsets.add({ONE: 1})
    group.error = MetadataTooLargeError("too large")
    offsets.commit(group)
    assert (metrics.commits, bool(offsets)) == ({"done": 0, "failed": 1, "skipped": 0}, False)
    group.error = None
    offsets.add({ONE: 2})
    offsets.commit(group)
    assert group.commits == [{ONE: 1}, {ONE: 2}]


def test_a_task_continues_while_it_waits_for_the_response_to_a_commit(clock: Clock, group: Group) -> None:
    offsets, group.busy = pending(), True
    offsets.add({ONE: 1, TWO: 1})
    assert offsets.commit_due(group) == NOTHING_MS
    assert offsets
    offsets.add({ONE: 2})
    assert offsets.commit_due(group) <= PAUSE_S * 1000 + 1
    clock.now += PAUSE_S
    assert offsets.commit_due(group) == LATE_MS  # there is one on its way
    group.answer()
    assert offsets.commit_due(group) == NOTHING_MS
    assert group.commits == [{ONE: 1, TWO: 1}, {ONE: 2}]
    group.answer()
    assert offsets.commit_due(group) == NOTHING_MS
    assert not offsets


def test_a_commit_waits_for_the_previous_one(clock: Clock, group: Group) -> None:
    offsets, group.busy = pending(), True
    offsets.add({ONE: 1})
    offsets.commit_due(group)
    offsets.add({ONE: 2})
    group.answer()
    group.busy = False
    offsets.commit(group)
    assert (group.commits, bool(offsets)) == ([{ONE: 1}, {ONE: 2}], False)


def test_offsets_that_are_taken_out_are_not_committed(clock: Clock, group: Group) -> None:
    """Those of a batch's partitions; a commit on its way is awaited first."""
    offsets, group.busy = pending(), True
    offsets.add({ONE: 1, TWO: 5})
    offsets.commit_due(group)
    offsets.add({ONE: 2, TWO: 6})
    group.answer()
    group.busy = False
    assert offsets.take([ONE, ("other", 0)]) == {ONE: 2}
    offsets.commit(group)
    assert (group.commits, offsets.take([ONE, TWO])) == ([{ONE: 1, TWO: 5}, {TWO: 6}], {})


def test_no_commit_is_sent_while_one_has_no_response(
    clock: Clock, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_offsets, "RESPONSE_S", 0.001)
    offsets, group.busy = pending(), True
    offsets.add({ONE: 1})
    offsets.commit_due(group)
    offsets.add({ONE: 2})
    for _ in range(2):
        with pytest.raises(KafkaUnavailableError, match="no response"):
            offsets.commit(group)
    with pytest.raises(KafkaUnavailableError, match="no response"):
        offsets.take([ONE])
    assert group.commits == [{ONE: 1}]
    group.answer()
    group.busy = False
    offsets.commit(group)
    assert (group.commits, bool(offsets)) == ([{ONE: 1}, {ONE: 2}], False)


def test_a_late_refusal_by_the_group_is_reported_by_the_next_call(clock: Clock, group: Group) -> None:
    reported: list[str] = []
    offsets, group.busy = pending(reported), True
    offsets.add({ONE: 1})
    offsets.commit_due(group)
    group.error = NotAMemberError("moved on")
    group.answer()
    clock.now += PAUSE_S
    group.busy, group.error = False, None
    offsets.commit_due(group)
    assert reported == ["refused"]


def test_rejected_offsets_are_kept_until_they_are_forgotten(clock: Clock, group: Group) -> None:
    reported: list[str] = []
    offsets = pending(reported)
    offsets.add({ONE: 1})
    group.error = NotAMemberError("moved on")
    offsets.commit(group)
    assert (reported, bool(offsets)) == (["refused"], True)
    offsets.forget()
    group.error = None
    clock.now += PAUSE_S
    offsets.commit(group)
    assert group.commits == [{ONE: 1}]
