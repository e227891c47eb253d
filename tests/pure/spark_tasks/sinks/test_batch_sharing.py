"""When a sink task lends itself, and when it takes itself back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_tasks.metrics.task import SplitFigures, TaskMetrics
from spark_tasks.sinks import batch_sharing
from spark_tasks.sinks.batch_sharing import BatchSharing
from spark_tasks.sinks.shared_batches import Loan
from spark_tasks.sinks.split import SinkResult

TP = ("t", 0)
RANGES = [(TP, 5, 8, b"data")]
QUICK = SinkResult("t", 0, 8, figures=SplitFigures(seconds={"write": 0.001}))


class Rig:
    """A task whose next batch can be shared. Notes what the watcher and the SharedBatches are asked."""

    def __init__(self) -> None:
        self.ranges: Any = RANGES
        self.generation: Any = (1, "m")
        self.stays = True
        self.landed = True
        self.watched: list[Any] = []
        self.looks = 0
        self.committed: list[Any] = []
        self.left = True
        self.loan: Any = None
        context: Any = SimpleNamespace(id="c-0", wake=lambda: None, metrics=TaskMetrics())
        positions: Any = SimpleNamespace(
            fetched_ranges=lambda _limit: self.ranges, current={TP: 5}, isolation="read_uncommitted")
        watcher: Any = SimpleNamespace(
            watch=lambda key, *_: self.watched.append(key), disarm=self.watched.remove)
        self.sharing = BatchSharing(
            context, "key", self, "group", watcher, positions, lambda: self._member, lambda: 100,  # type: ignore[arg-type]
            lambda tp, start, end, held: (tp, start, end, held),  # type: ignore[arg-type,return-value]
            lambda results, generation: self.committed.append((results, generation)), lambda: self.left,
        )  # fmt: skip

    @property
    def _member(self) -> Any:
        return SimpleNamespace(generation=lambda: self.generation, stays=lambda: self.stays)

    def lend(self, task: Any, key: Any) -> Loan:
        self.loan = Loan(task, key)
        return self.loan

    def notify(self, _loan: Loan) -> None:
        self.looks += 1

    def take_back(self, _loan: Loan, _timeout_s: float) -> bool:
        return self.landed


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.sharing.note([QUICK])
    return made


def test_a_task_is_lent_and_taken_back(rig: Rig) -> None:
    assert rig.sharing.begin()
    assert (rig.sharing.active, rig.watched, rig.looks) == (True, ["key"], 1)
    assert rig.sharing.plan_shared() == RANGES
    assert rig.sharing.collect_shared([QUICK])
    assert rig.committed == [([QUICK], (1, "m"))]
    assert rig.sharing.end(1) == (None,)
    assert (rig.sharing.active, rig.watched) == (False, [])
    assert rig.sharing.begin(), "it may lend itself again"


def test_a_task_whose_writes_are_not_known_to_be_quick_is_not_lent() -> None:
    assert not Rig().sharing.begin()


@pytest.mark.parametrize(
    "result", [SinkResult("t", 0, 8, figures=SplitFigures(seconds={"write": 1.0})), SinkResult("t", 0, 8, blocked=0.1)],
    ids=["long", "blocked"],
)
def test_a_task_with_a_slow_write_is_alone_for_a_while(
    rig: Rig, result: SinkResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rig.sharing.begin()
    rig.sharing.note([result])
    assert rig.sharing.plan_shared() is None
    rig.sharing.end(1)
    assert not rig.sharing.begin()
    monkeypatch.setattr(batch_sharing, "ALONE_S", -1.0)
    rig.sharing.note([result])
    assert rig.sharing.begin()


HUNG = SinkResult("t", 0, 8, figures=SplitFigures(seconds={"write": 5.0}))


def alone_s(rig: Rig, clock: list[float]) -> float:
    """How long the task is not lent from now on."""
    begun = clock[0]
    while not rig.sharing.begin():
        clock[0] += 1
    return clock[0] - begun


def test_a_task_whose_writes_hang_again_and_again_is_alone_for_longer_each_time(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cut off the splits of the others every ten seconds, and these repeated their records."""
    clock, found = [1000.0], []
    monkeypatch.setattr(batch_sharing, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    for _ in range(8):
        rig.sharing.note([HUNG])
        found.append(alone_s(rig, clock))
        rig.sharing.end(1)
    assert found == [10, 20, 40, 80, 160, 320, 600, 600]
    clock[0] += 600
    rig.sharing.note([HUNG])
    assert alone_s(rig, clock) == 10, "it was well for as long"


@pytest.mark.parametrize("ranges", [None, RANGES * 101], ids=["to be fetched", "too many partitions"])
def test_a_batch_that_is_not_small_is_the_tasks_own(rig: Rig, ranges: Any) -> None:
    assert rig.sharing.begin()
    rig.ranges = ranges
    assert rig.sharing.plan_shared() is None
    rig.sharing.end(1)
    assert not rig.sharing.begin()


def test_nothing_is_planned_after_a_rebalance(rig: Rig) -> None:
    assert rig.sharing.begin()
    rig.generation = (2, "m")
    assert rig.sharing.plan_shared() is None
    rig.sharing.end(1)
    rig.generation = None
    assert not rig.sharing.begin(), "it is not a member"


def test_results_that_are_not_simple_are_left_to_the_task(rig: Rig) -> None:
    assert rig.sharing.begin()
    assert rig.sharing.plan_shared() == RANGES
    assert not rig.sharing.collect_shared([SinkResult("t", 0, 5, out_of_range=(7, 9))])
    assert not rig.sharing.collect_shared([QUICK._replace(next_offset=7)]), "no response will report the rest"
    assert rig.committed == []
    rig.loan.outcome = [QUICK]
    assert rig.sharing.end(1) == ([QUICK],)
    assert not rig.sharing.begin(), "it handles them first, and its next batches"


def test_a_task_stays_lent_until_its_membership_or_its_batch_needs_it(rig: Rig) -> None:
    assert rig.sharing.begin()
    assert rig.sharing.goes_on()
    rig.stays = False
    assert not rig.sharing.goes_on()
    rig.stays, rig.loan.ended = True, True
    assert not rig.sharing.goes_on()


def test_a_task_waits_for_its_batch_in_flight(rig: Rig) -> None:
    assert rig.sharing.begin()
    rig.landed = False
    assert rig.sharing.end(0.01) is None
    assert (rig.sharing.active, rig.watched) == (True, ["key"])
