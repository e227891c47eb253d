"""The watchdog: what hangs is reported with its stack, what makes progress is not, and what waits for others is
reported as such.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from actors.instances.task import TaskActors
from actors.instances.watchdog import Pace, Stack, Watchdog
from actors.messages.commands import StartTask, Stop
from actors.messages.correlation_ids import Epoch
from actors.messages.events import InstanceRecovered, InstanceStalled, TaskStateReported
from actors.ticker import Ticker
from spark_tasks.config.masking import process_secrets
from spark_tasks.task import PluginCall, Progress
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState
from tests.rigs.support import wait_until

TASK = ConnectorTaskId(ConnectorName("c"), 0)
LIMIT_S = 10.0


class Runner:
    """A TaskRunner whose one call may hang."""

    version = "1"

    def __init__(self) -> None:
        self.batch: Future[list[Any]] | None = None
        self.events: object = None
        self.calls: list[PluginCall] | None = []
        """None: its process does not respond."""
        self.hang = threading.Event()
        self.hangs = threading.Event()
        self.go = threading.Event()
        self.wake: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Nothing."""

    def run_once(self) -> Progress:
        if self.hang.is_set():
            self.wait_for_somebody()
        return Progress(idle_ms=5)

    def wait_for_somebody(self) -> None:
        self.hangs.set()
        self.go.wait(20)
        self.hang.clear()

    def plugin_calls(self) -> list[PluginCall] | None:
        return self.calls

    def pause(self) -> None:
        """Nothing."""

    resume = close = stop_starting = pause

    def cancel(self) -> None:
        self.go.set()


class Rig:
    """A task actor under a watchdog that checks when a test tells it to."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.reported: list[InstanceStalled | InstanceRecovered] = []
        self.reports: list[TaskStateReported] = []
        self.where: str | None = None
        self.runner = Runner()
        self.ticker = Ticker()
        self.ticker.start()
        self.now = 0.0
        self.watchdog = Watchdog(self.reported.append, lambda _: self.where, lambda: self.now)
        actors = TaskActors(self.reports.append, lambda _, wake: self.made(wake), self.ticker, None, self.watchdog,
                            lambda config: float(config.get("limit", limit_s)))
        start = StartTask(TASK, {"name": "c"}, {}, TargetState.STARTED, 1)
        self.actors, self.ref = actors, actors.start(Epoch(5), start)
        self.ref.tell(start)
        wait_until(lambda: [r.state for r in self.reports] == [State.RUNNING])

    def made(self, wake: Callable[[], None]) -> Runner:
        self.runner.wake = wake
        return self.runner

    def hang(self) -> None:
        """The next call of the runner does not return."""
        self.runner.hang.set()
        wait_until(self.runner.hangs.is_set)

    def first(self) -> InstanceStalled:
        """The report after 11 seconds without progress."""
        self.watchdog.check()
        self.now += 11
        self.watchdog.check()
        return wait_until(lambda: next((event for event in self.reported if isinstance(event, InstanceStalled)), None))

    def went_on(self) -> bool:
        self.watchdog.check()
        return InstanceRecovered(TASK, Epoch(5)) in self.reported

    def close(self) -> None:
        self.runner.go.set()
        self.ref.stop(timeout=5)
        self.ticker.stop()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def test_a_call_that_does_not_return_is_reported_with_its_stack(rig: Rig) -> None:
    rig.hang()
    first = rig.first()
    assert (first.item, first.epoch, first.for_ms, first.hangs) == (TASK, 5, 11_000, True)
    assert "a call on the worker has not returned for 11 s (task.progress.timeout.ms)\n" in first.what
    assert "in wait_for_somebody" in first.what
    assert rig.watchdog.degraded() == ["c-0: a call on the worker has not returned for 11 s"]
    assert rig.watchdog.stalled() == {TASK}
    rig.runner.go.set()
    wait_until(rig.went_on)
    assert rig.watchdog.degraded() == []


def test_a_task_that_makes_progress_is_left_alone() -> None:
    """Batches and calls are different each time."""
    pace, runner = Pace(TASK, Epoch(1), 10), Runner()
    pace.runner = runner
    for now in range(0, 100, 9):
        runner.batch = Future()
        runner.batch.set_running_or_notify_cancel()
        assert pace.overdue(now) is None
    assert runner.batch is not None
    runner.batch.set_result([])
    assert pace.overdue(1000) is None, "done, and to be collected"
    runner.batch = None
    assert pace.overdue(2000) is None, "nothing to do"


def test_a_batch_that_does_not_end_is_reported_with_the_stacks_of_its_splits(rig: Rig) -> None:
    rig.where = "Its process 7 is here:\nFile read.py"
    batch: Future[list[Any]] = Future()
    batch.set_running_or_notify_cancel()
    rig.runner.batch = batch
    event = rig.first()
    assert event.hangs
    assert event.what.startswith("a batch has been running for 11 s (task.progress.timeout.ms)\nIts process 7 is here:")
    batch.set_result([])
    wait_until(rig.went_on)


def test_a_batch_that_waits_for_others_is_reported_as_such(rig: Rig) -> None:
    rig.runner.batch = Future()
    reported = rig.first()
    assert not reported.hangs
    assert "no executor process is running it" in reported.what


def test_an_open_batch_does_not_hide_a_call_that_hangs(rig: Rig) -> None:
    """A Java source with a large poll: what is appended waits for the rest, while the worker's call hangs."""
    rig.runner.batch = Future()
    rig.hang()
    reported = rig.first()
    assert reported.hangs
    assert "a call on the worker has not returned for 11 s (task.progress.timeout.ms)\n" in reported.what
    assert "in wait_for_somebody" in reported.what


def test_a_call_that_hangs_is_overdue_although_its_batch_is_new() -> None:
    pace, runner = Pace(TASK, Epoch(1), 10, lambda: 0.0), Runner()
    pace.runner = runner
    with pace.call():
        runner.batch = Future()
        assert pace.overdue(9) is None
        runner.batch = Future()
        overdue = pace.overdue(11)
        assert overdue is not None
        assert (overdue.batch, overdue.seconds) == (None, 11)
    assert pace.overdue(12) is None


def test_a_plugin_in_another_process_that_hangs_is_reported_with_its_stack(rig: Rig) -> None:
    rig.runner.events, rig.runner.calls = 1, [PluginCall("start", 11.0, False, "at Some.start(Some.java:7)")]
    first = rig.first()
    assert first.hangs
    assert first.what == "start has not returned for 11 s (task.progress.timeout.ms)\nat Some.start(Some.java:7)"
    assert rig.watchdog.degraded() == ["c-0: start has not returned for 11 s"]
    rig.runner.events = 2
    wait_until(rig.went_on)
    assert rig.watchdog.degraded() == []


def test_a_plugin_in_another_process_that_waits_for_data_is_well(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """It is mentioned until it has returned; the log has its stack once."""
    caplog.set_level(logging.INFO)
    for events in (1, 2):
        rig.runner.events, rig.runner.calls = events, []
        rig.watchdog.check()
        rig.now += 11
        rig.runner.calls = [PluginCall("poll", 11.0, True, "at Some.poll(Some.java:9)")]
        rig.watchdog.check()
        [mentioned] = wait_until(rig.watchdog.waiting)
        assert re.fullmatch(r"c-0: poll has been waiting since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", mentioned)
    rig.runner.events = 3
    rig.watchdog.check()
    assert (rig.watchdog.waiting(), rig.watchdog.degraded(), rig.reported) == ([], [], [])
    assert caplog.text.count("at Some.poll(Some.java:9)") == 1
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_a_plugin_whose_calls_return_is_asked_again_only_after_the_time(rig: Rig) -> None:
    asked: list[float] = []
    rig.runner.events, rig.runner.calls = 1, [PluginCall("poll", 4.0, True, "")]

    def calls() -> list[PluginCall] | None:
        asked.append(rig.now)
        return rig.runner.calls

    rig.runner.plugin_calls = calls  # type: ignore[method-assign]
    rig.watchdog.check()
    for rig.now in range(1, 31):
        rig.watchdog.check()
        wait_until(lambda: not [one for one in threading.enumerate() if one.name == "watchdog-c-0"])
    assert asked == [11, 18, 25]
    assert (rig.watchdog.waiting(), rig.watchdog.degraded(), rig.reported) == ([], [], [])


def test_a_plugin_whose_process_does_not_say_what_it_does_stays_stalled(rig: Rig) -> None:
    """It was reported as recovered, which cancelled its restart."""
    rig.runner.events, rig.runner.calls = 1, [PluginCall("put", 11.0, False, "at Some.put(Some.java:7)")]
    rig.first()
    rig.runner.calls = None
    rig.now += 20
    rig.watchdog.check()
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == "watchdog-c-0"])
    assert not rig.went_on()
    assert rig.watchdog.degraded() == ["c-0: put has not returned for 11 s"]


@pytest.mark.parametrize(("seconds", "what"), [(11.0, "start has not returned for 11 s"), (1.0, "")])
def test_a_call_on_the_worker_has_the_stack_of_the_plugin_that_it_waits_for(
    rig: Rig, seconds: float, what: str
) -> None:
    """A call that has taken long is what hangs; a short one may be the latest of many."""
    rig.runner.calls = [PluginCall("start", seconds, False, "at Some.start(Some.java:7)")]
    rig.hang()
    reported = rig.first()
    assert reported.what.startswith(what or "a call on the worker has not returned for 11 s")
    assert ("in wait_for_somebody" in reported.what) is not bool(what)
    assert reported.what.endswith("at Some.start(Some.java:7)")


def test_the_time_of_a_batch_begins_when_it_runs() -> None:
    pace, batch, runner = Pace(TASK, Epoch(1), 10), Future[list[Any]](), Runner()
    runner.batch, pace.runner = batch, runner
    assert pace.overdue(100) is None
    assert pace.overdue(109) is None
    batch.set_running_or_notify_cancel()
    assert pace.overdue(111) is None
    overdue = pace.overdue(122)
    assert overdue is not None
    assert overdue.seconds == 11


def test_a_stall_is_reported_again_after_twice_the_time() -> None:
    pace, runner = Pace(TASK, Epoch(1), 10), Runner()
    runner.batch, pace.runner = Future(), runner
    due = []
    pace.overdue(0)
    for now in range(1, 100):
        overdue = pace.overdue(now)
        if overdue is not None and pace.is_due(overdue):
            pace.reports(overdue)
            due.append(now)
    assert due == [11, 22, 44, 88]


def test_a_stall_that_no_thread_could_report_is_reported_by_the_next_check(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    clock = iter([0.0, 20.0, *[22.0] * 99])
    watchdog = Watchdog(told.append, lambda _: None, lambda: next(clock))
    for number in range(2):
        pace, runner = watchdog.watch(ConnectorTaskId(TASK.connector, number), Epoch(1), LIMIT_S), Runner()
        runner.batch, pace.runner = Future(), runner
    watchdog.check()

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", none_left)
        watchdog.check()
    assert told == []
    watchdog.check()
    wait_until(lambda: len(told) == 2)
    assert {stalled.item.task for stalled in told} == {0, 1}


def test_without_a_limit_tasks_are_not_watched() -> None:
    pace, runner = Pace(TASK, Epoch(1), 0), Runner()
    runner.batch, pace.runner = Future(), runner
    pace.overdue(0)
    assert pace.overdue(1e9) is None


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_a_task_that_ends_is_no_longer_watched(rig: Rig, how: str) -> None:
    rig.hang()
    rig.first()
    if how == "cancel":
        rig.actors.cancel(rig.ref)
    else:
        rig.runner.go.set()
        rig.ref.tell(Stop())
        wait_until(lambda: len(rig.reports) == 2)
    assert rig.watchdog.degraded() == []
    rig.watchdog.check()
    assert rig.watchdog.stalled() == frozenset()


def test_secrets_are_not_reported(rig: Rig) -> None:
    process_secrets().add("watchdog test", ["hunter2-secret"])
    rig.where = "File x.py, connect('hunter2-secret')"
    batch: Future[list[Any]] = Future()
    batch.set_running_or_notify_cancel()
    rig.runner.batch = batch
    reported = rig.first()
    assert "hunter2-secret" not in reported.what
    assert "connect(" in reported.what


def test_a_stall_is_reported_without_a_stack_if_that_fails(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    batch: Future[list[Any]] = Future()
    batch.set_running_or_notify_cancel()

    def broken(_: Future[list[Any]]) -> str:
        raise OSError("no such folder")

    rig.watchdog = Watchdog(rig.reported.append, broken, lambda: rig.now)
    rig.runner.batch = batch
    rig.watchdog.watch(TASK, Epoch(9), LIMIT_S).runner = rig.runner
    assert rig.first().epoch == 9
    assert "Could not find out where it hangs" in caplog.text
    assert str(vars(caplog.records[-1])["heeler_about"]) == "c-0"


def test_an_ended_thread_is_reported_without_a_stack() -> None:
    assert str(Stack.of(-1)) == "Its thread has just ended"
