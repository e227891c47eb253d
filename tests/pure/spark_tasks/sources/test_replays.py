"""When a range of a replay may run, and what is committed with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import NONE_REFUSED
from spark_tasks.dead_letters.replay.letter_range import ReplayCounts
from spark_tasks.dead_letters.replay.replayed_offsets import ReplayedOffsets
from spark_tasks.dead_letters.replay.request import ReplayOrder
from spark_tasks.errors import RetriableError
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.replay_split import SourceReplayResult
from spark_tasks.sources.replays import SourceReplays


class Delivered:
    """In place of a Delivery: says what it was asked for, in order. `late`: a commit takes effect only with settle."""

    def __init__(self, *, late: bool = False, error: Exception | None = None) -> None:
        self.open = False
        self.calls: list[Any] = []
        self._late = late
        self._error = error

    def lanes(self, count: int) -> list[Lane]:
        self.calls.append("lanes")
        return [Lane(None)] * count

    def written(self, uses: Any) -> None:
        self.calls.append(("written", [use.sequences for use in uses]))

    def check(self) -> None:
        self.calls.append("check")
        if self._error is not None:
            raise self._error

    def commit(self, offsets: Any, signal: str = "commit") -> bool:
        self.calls.append((signal, list(offsets)))
        return not self._late

    def settle(self, *, finish: bool) -> bool:
        self.calls.append(("settle", finish))
        return True


class Queue:
    """In place of Kafka: a queue of one partition with three letters."""

    def partitions(self, *_: Any, **__: Any) -> list[int]:
        return [0]

    def offsets(self, places: list[tuple[str, int]], which: str, *_: Any, **__: Any) -> dict[Any, int]:
        return dict.fromkeys(places, 0 if which == "earliest" else 3)


def replays(delivery: Any, *, dry_run: bool = False, known: Any = ()) -> SourceReplays:
    errors = ErrorHandling("c", tolerant=True, queue="dead", with_headers=True)
    queue: Any = Queue()
    offsets: Any = SimpleNamespace(read=lambda: known)
    made = SourceReplays(errors, TaskMetrics(), queue, offsets, delivery)
    made.order({"dry_run": dry_run})
    return made


def ended(made: SourceReplays, started_over: list[int]) -> dict[str, Any]:
    counts = ReplayCounts(3, ReplayedOffsets(3), 3, 2, 1)
    made.end(SourceReplayResult(counts, {("t", 0): 5}, ("t",), NONE_REFUSED), lambda: started_over.append(1))
    return dict(made.order(None) or {})


def test_a_range_waits_for_the_end_of_the_readers_transaction() -> None:
    delivery = Delivered()
    made = replays(delivery)
    delivery.open = True
    assert not made.takes_turn(alone=True)
    delivery.open = False
    assert made.takes_turn(alone=True)


@pytest.mark.parametrize("late", [False, True])
def test_the_progress_is_committed_with_the_records(late: bool) -> None:
    delivery = Delivered(late=late)
    made = replays(delivery)
    split = made.next_split(lambda: b"job")
    assert split is not None
    assert (split.job, split.part.start, split.part.end) == (b"job", 0, 3)
    started_over: list[int] = []
    state = ended(made, started_over)
    progress = ({"heeler.dead.letters": "dead", "partition": 0}, {"offset": 3})
    assert delivery.calls == [
        "lanes", ("written", [{("t", 0): 5}]), "check", ("commit", [progress]), *([("settle", True)] if late else [])]
    assert (state["replayed"], started_over) == (2, [])


def test_a_dry_run_writes_nothing() -> None:
    delivery = Delivered()
    made = replays(delivery, dry_run=True)
    split = made.next_split(lambda: b"job")
    assert split is not None
    assert split.part.order == ReplayOrder(dry_run=True)
    state = ended(made, [])
    assert (delivery.calls, state["would_replay"]) == ([], 2)


def test_a_replay_begins_after_what_has_been_replayed() -> None:
    known = [({"file": "a"}, {"at": 9}), ({"heeler.dead.letters": "dead", "partition": 0}, {"offset": 2})]
    split = replays(Delivered(), known=known).next_split(lambda: b"job")
    assert split is not None
    assert split.part.start == 2


def test_an_error_of_the_commit_ends_the_replay_and_the_task_starts_over() -> None:
    delivery = Delivered(error=RetriableError("suspended"))
    made = replays(delivery)
    made.next_split(lambda: b"job")
    started_over: list[int] = []
    state = ended(made, started_over)
    assert (state["state"], state["replayed"], started_over) == ("FAILED", 0, [1])
    assert "commit" not in {call[0] for call in delivery.calls}
    assert not made.in_flight
