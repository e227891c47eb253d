"""Batches that sink tasks share: who has a task when, and what happens to it if a shared split fails or hangs."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections import deque
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from spark_tasks.errors import RetriableError
from spark_tasks.futures import complete, fail
from spark_tasks.sinks import hang_watch, shared_batches
from spark_tasks.sinks.shared_batches import WAIT_WEIGHT, Loan, SharedBatches
from spark_tasks.spark.context import ExecutorEndedError
from tests.rigs.support import wait_until


class Engine:
    """Keeps what it was given until the test ends it."""

    def __init__(self) -> None:
        self.flights: list[tuple[str, Any, Future[list[Any]]]] = []
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    def submit(self, task: str, splits: Any) -> Future[list[Any]]:
        future: Future[list[Any]] = Future()
        self.flights.append((task, splits[0].splits, future))
        return future

    def cancel(self, batch: Future[list[Any]]) -> None:
        fail(batch, CancelledError("a batch was cancelled"))

    def runs(self, batch: Future[list[Any]]) -> bool:
        return batch.running()

    def ready_s(self, _batch: Future[list[Any]]) -> float:
        return 0.0

    def where(self, _batch: Future[list[Any]]) -> str:
        self.asked.set()
        assert self.answers.wait(10)
        return "in write"

    def begin(self) -> None:
        self.flights[-1][2].set_running_or_notify_cancel()

    def end(self, *results: Any) -> None:
        complete(self.flights[-1][2], [list(results)])


class Task:
    """Plans what the test has put into `plans`; takes each batch, unless `refuses`."""

    def __init__(self, name: str, committed: list[str]) -> None:
        self.id = name
        self.committed = committed
        self.plans: deque[Any] = deque()
        self.collected: list[Any] = []
        self.refuses = False
        self.woken = threading.Event()
        self.commits = 0
        self.loan: Loan | None = None

    def plan_shared(self) -> Any:
        planned = self.plans.popleft() if self.plans else []
        if isinstance(planned, Exception):
            raise planned
        return planned

    def collect_shared(self, results: Any) -> bool:
        if not self.refuses:
            self.collected.append(list(results))
        return not self.refuses

    def commit_shared(self) -> bool:
        self.commits += 1
        self.committed.append(self.id)
        return self.commits < 3

    def wake(self) -> None:
        self.woken.set()


class Rig:
    def __init__(self) -> None:
        self.engine = Engine()
        self.shared = SharedBatches(self.engine)
        self.committed: list[str] = []

    def lend(self, name: str, *plans: Any, key: str = "k") -> tuple[Task, Loan]:
        task = Task(name, self.committed)
        task.plans.extend(plans)
        return task, self.shared.lend(task, key)

    def flights(self, count: int) -> None:
        wait_until(lambda: len(self.engine.flights) == count)


@pytest.fixture
def rig() -> Any:
    made = Rig()
    yield made
    made.shared.close()


def test_tasks_with_the_same_key_share_a_split_and_each_gets_its_own_results(rig: Rig) -> None:
    blocker, first = rig.lend("c-9", ["z"])
    rig.shared.notify([first])
    rig.flights(1)
    tasks = [rig.lend("c-0", ["a", "b"]), rig.lend("c-1"), rig.lend("c-2", ["c"])]
    for _, loan in tasks:
        rig.shared.notify([loan])  # while a split of this key is in flight
    rig.engine.end("Z")
    rig.flights(2)
    assert sorted(rig.engine.flights[1][1]) == ["a", "b", "c"]
    rig.engine.end(*[split.upper() for split in rig.engine.flights[1][1]])
    wait_until(lambda: [task.collected for task, _ in tasks] == [[["A", "B"]], [], [["C"]]])
    assert blocker.collected == [["Z"]]
    assert all(rig.shared.take_back(loan, 5) and loan.outcome is None for _, loan in tasks)


def test_nothing_is_left_of_a_task_that_was_taken_back_nor_of_the_thread_after_the_end() -> None:
    before = set(threading.enumerate())
    shared, task = SharedBatches(Engine()), Task("c-0", [])
    known, loan = weakref.ref(task), shared.lend(task, "k")
    shared.notify([loan])
    assert shared.take_back(loan, 5)
    del task, loan

    def forgotten() -> bool:
        gc.collect()
        return known() is None

    wait_until(forgotten)
    shared.close()
    wait_until(lambda: "shared-batches" not in {thread.name for thread in set(threading.enumerate()) - before})


def test_tasks_with_different_keys_share_no_split(rig: Rig) -> None:
    for name, key in (("c-0", "x"), ("d-0", "y")):
        rig.shared.notify([rig.lend(name, [name], key=key)[1]])
    rig.flights(2)
    assert sorted((task, splits) for task, splits, _ in rig.engine.flights) == [("c-0", ("c-0",)), ("d-0", ("d-0",))]


@pytest.fixture
def one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_batches, "MAX_SHORT_FLIGHTS", 1)
    monkeypatch.setattr(shared_batches, "SHORT_FLIGHT_S", 30.0)


@pytest.mark.usefixtures("one_at_once")
def test_records_that_arrive_while_another_split_runs_share_the_next_one(rig: Rig) -> None:
    rig.shared.notify([rig.lend("c-0", ["a"], key="x")[1]])
    rig.flights(1)
    for name in "de":
        rig.shared.notify([rig.lend(name, [name], key="y")[1]])
    rig.engine.end("A")
    rig.flights(2)
    assert rig.engine.flights[1][1] == ("d", "e")


@pytest.mark.usefixtures("one_at_once")
def test_a_long_split_does_not_keep_others_waiting(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_batches, "SHORT_FLIGHT_S", 0.05)
    for name in "xyz":
        rig.shared.notify([rig.lend(name, [name], key=name)[1]])
    rig.flights(3)


@pytest.mark.usefixtures("one_at_once")
def test_the_key_that_has_waited_longest_comes_first(rig: Rig) -> None:
    (_, busy), (_, second), (_, third) = (rig.lend(name, [name], [name], key=name) for name in "xyz")
    rig.shared.notify([busy])
    rig.flights(1)
    for loan in (second, busy, third):
        rig.shared.notify([loan])
    for count in (2, 3, 4):
        rig.engine.end("result")
        rig.flights(count)
    assert [splits for _, splits, _ in rig.engine.flights] == [("x",), ("y",), ("x",), ("z",)]


def test_a_task_is_given_back_only_after_its_batch(rig: Rig) -> None:
    task, loan = rig.lend("c-0", ["a"], ["b"])
    rig.shared.notify([loan])
    rig.flights(1)
    rig.engine.begin()
    assert not rig.shared.take_back(loan, 0.01)
    rig.engine.end("A")
    assert rig.shared.take_back(loan, 5)
    assert task.collected == [["A"]]
    rig.shared.notify([loan])  # a late call of the watcher
    other, its_loan = rig.lend("c-1", ["c"])
    rig.shared.notify([its_loan])
    rig.flights(2)
    assert rig.engine.flights[1][1] == ("c",), "not the records of a task that is no longer lent"
    assert other.collected == []


def test_a_batch_that_waits_for_a_process_is_withdrawn_if_a_task_stops(rig: Rig) -> None:
    _, loan = rig.lend("c-0", ["a"])
    other, its_loan = rig.lend("c-1", ["b"], ["b"])
    blocker, first = rig.lend("c-2", ["c"])
    rig.shared.notify([first])
    rig.flights(1)
    rig.shared.notify([loan])
    rig.shared.notify([its_loan])
    rig.engine.end("C")
    rig.flights(2)
    wait_until(lambda: loan.batch is not None)
    rig.shared.withdraw(loan)
    assert rig.shared.take_back(loan, 5)
    assert loan.outcome is None
    rig.flights(3)
    rig.engine.end("B")
    wait_until(lambda: other.collected == [["B"]])
    assert blocker.collected == [["C"]]


@pytest.mark.parametrize("plan", [None, RuntimeError("a defect")], ids=["fetch", "error"])
def test_a_task_that_has_to_plan_its_batch_itself_is_woken(rig: Rig, plan: Any) -> None:
    task, loan = rig.lend("c-0", plan)
    rig.shared.notify([loan])
    assert task.woken.wait(5)
    assert loan.ended, "it is not asked again"
    assert rig.shared.take_back(loan, 5)
    assert loan.outcome is plan
    assert not rig.engine.flights


def test_a_task_gets_the_results_that_are_not_simple(rig: Rig) -> None:
    task, loan = rig.lend("c-0", ["a"])
    task.refuses = True
    rig.shared.notify([loan])
    rig.flights(1)
    rig.engine.end("A")
    assert task.woken.wait(5)
    assert rig.shared.take_back(loan, 5)
    assert loan.outcome == ["A"]


@pytest.mark.parametrize(
    ("error", "kind"), [(ExecutorEndedError("gone"), ExecutorEndedError), (ValueError("odd"), RetriableError)]
)
def test_each_task_repeats_its_part_of_a_failed_split(rig: Rig, error: Exception, kind: type[Exception]) -> None:
    """An error that is a task's own fails it in its own split."""
    _, first = rig.lend("c-9", ["z"])
    rig.shared.notify([first])
    rig.flights(1)
    tasks = [rig.lend("c-0", ["a"]), rig.lend("c-1", ["b"])]
    rig.shared.notify([loan for _, loan in tasks])
    rig.engine.end("Z")
    rig.flights(2)
    fail(rig.engine.flights[1][2], error)
    for task, loan in tasks:
        assert task.woken.wait(5)
        assert loan.ended, "it gets no other batch"
        assert rig.shared.take_back(loan, 5)
        assert type(loan.outcome) is kind


def two_in_a_flight(rig: Rig) -> list[tuple[Task, Loan]]:
    """Two tasks, whose records share a split."""
    _, first = rig.lend("z-9", ["z"])
    rig.shared.notify([first])
    rig.flights(1)
    pair = [rig.lend("c-0", ["a"]), rig.lend("c-1", ["b"])]
    rig.shared.notify([loan for _, loan in pair])
    rig.engine.end("Z")
    rig.flights(2)
    return pair


def test_a_task_alone_in_a_split_that_hangs_is_not_cut_off_but_others_go_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hang again, and its records be repeated for nothing."""
    monkeypatch.setattr(hang_watch, "CUT_OFF_S", 0.05)
    monkeypatch.setattr(shared_batches, "TICK_S", 0.02)
    task, loan = rig.lend("c-0", ["a"], ["c"])
    rig.shared.notify([loan])
    rig.flights(1)
    rig.engine.begin()
    hanging = rig.engine.flights[-1][2]
    other, its_loan = rig.lend("c-1", ["b"], ["d"])
    rig.shared.notify([loan, its_loan])
    rig.flights(2)
    assert rig.engine.flights[1][1] == ("b",), "none of the task in flight"
    rig.engine.end("B")
    wait_until(lambda: other.collected == [["B"]])
    rig.shared.notify([its_loan])
    rig.flights(3)
    complete(hanging, [["A"]])
    wait_until(lambda: task.collected == [["A"]])
    rig.engine.end("D")
    rig.flights(4)
    assert rig.engine.flights[3][1] == ("c",), "its news were kept"
    rig.engine.end("C")
    wait_until(lambda: task.collected == [["A"], ["C"]])
    assert rig.shared.take_back(loan, 5)
    assert loan.outcome is None
    assert not task.woken.is_set()


def test_the_tasks_of_a_split_that_hangs_continue_on_their_own(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_watch, "CUT_OFF_S", 0.05)
    monkeypatch.setattr(shared_batches, "TICK_S", 0.02)
    pair = two_in_a_flight(rig)
    rig.engine.begin()
    for task, loan in pair:
        assert task.woken.wait(5)
        assert rig.shared.take_back(loan, 5)
        assert isinstance(loan.outcome, RetriableError)


def test_tasks_are_served_although_the_thread_could_not_be_started_at_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            rig.lend("c-0", ["a"])
    rig.shared.notify([rig.lend("c-0", ["a"])[1]])
    rig.flights(1)


@pytest.mark.parametrize("ends", [True, False])
def test_other_tasks_do_not_wait_for_the_stack_of_a_split_that_is_cut_off(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, ends: bool
) -> None:
    monkeypatch.setattr(hang_watch, "CUT_OFF_S", 0.05)
    monkeypatch.setattr(shared_batches, "TICK_S", 0.02)
    rig.engine.answers.clear()
    (task, loan), (_, second) = two_in_a_flight(rig)
    rig.engine.begin()
    hanging = rig.engine.flights[-1][2]
    assert rig.engine.asked.wait(5)
    other, other_loan = rig.lend("d-0", ["b"], key="other")
    rig.shared.notify([other_loan])
    rig.flights(3)
    rig.engine.end("B")
    wait_until(lambda: other.collected == [["B"]])
    assert not hanging.done()
    if ends:
        complete(hanging, [["A", "A"]])
    rig.engine.answers.set()
    if ends:
        wait_until(lambda: task.collected == [["A"]])
    else:
        assert task.woken.wait(5)
    assert rig.shared.take_back(loan, 5)
    assert rig.shared.take_back(second, 5)
    wait_until(lambda: not any(thread.name == "cut-off" for thread in threading.enumerate()))
    assert ("Cancelling a split" in caplog.text) is not ends


def test_offsets_are_committed_while_no_records_arrive(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_batches, "TICK_S", 0.02)
    task, loan = rig.lend("c-0", ["a"])
    rig.shared.notify([loan])
    rig.flights(1)
    rig.engine.end("A")
    wait_until(lambda: task.commits == 3)
    assert rig.shared.take_back(loan, 5)
    assert task.commits == 3, "until nothing is left"


def test_offsets_of_a_tasks_own_batches_are_committed_too(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_batches, "TICK_S", 0.02)
    task, loan = rig.lend("c-0")
    rig.shared.notify([loan])
    wait_until(lambda: task.commits == 3)


def test_of_many_tasks_only_a_few_commit_their_offsets_at_a_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of commits at once keep the broker busy, and records wait."""
    monkeypatch.setattr(shared_batches, "TICK_S", 0.02)
    monkeypatch.setattr(shared_batches, "COMMITS_AT_ONCE", 2)
    tasks = [rig.lend(f"c-{n}")[0] for n in range(5)]  # each has something to commit three times
    rig.shared.notify([])
    wait_until(lambda: all(task.commits == 3 for task in tasks))
    assert rig.committed == [f"c-{n}" for n in range(5)] * 3


def test_the_time_that_batches_have_waited_for_others_is_told_but_not_for_their_own_connector(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_batches, "MAX_SHORT_FLIGHTS", 1)
    monkeypatch.setattr(shared_batches, "SHORT_FLIGHT_S", 60.0)
    rig.shared.notify([rig.lend("c-0", ["a"])[1]])
    rig.flights(1)
    own, other = rig.lend("c-1", ["b"])[1], rig.lend("d-0", ["c"], key="other")[1]
    begun = time.monotonic()
    rig.shared.notify([own])  # waits for the flight of its own connector
    wait_until(lambda: time.monotonic() - begun > 0.2)
    rig.engine.end("A")
    rig.flights(2)
    assert rig.shared.notify([other]) < WAIT_WEIGHT * 0.1
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() - begun > 0.2)
    rig.engine.end("B")
    rig.flights(3)
    assert rig.shared.notify([]) > WAIT_WEIGHT * 0.1
