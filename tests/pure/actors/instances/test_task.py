"""The task actor with a scripted runner."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pykka
import pytest

from actors.errors import BadRequestError, ConflictError
from actors.instances.task import TaskActor, TaskActors
from actors.messages.commands import ChangeTargetState, ReplayLetters, StartTask, Stop
from actors.messages.correlation_ids import Epoch
from actors.messages.events import TaskStateReported
from actors.ticker import Ticker
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.task import Progress
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState
from tests.rigs.support import wait_until

TASK = ConnectorTaskId(ConnectorName("c"), 0)


class ScriptedRunner:
    """A TaskRunner. `batches`: what run_once answers or raises; then it is idle for a minute."""

    version = "7.1"

    def __init__(self, *batches: Progress | BaseException, start_error: BaseException | None = None) -> None:
        self.batches = list(batches)
        self.start_error = start_error
        self.close_error: BaseException | None = None
        self.restarting = False
        self.calls: list[str] = []
        self.threads: set[int] = set()
        self.runs = 0
        self.blocked: threading.Event | None = None
        self.wake: Callable[[], None] = lambda: None

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.threads.add(threading.get_ident())

    def start(self) -> None:
        self._call("start")
        if self.start_error is not None:
            raise self.start_error

    def run_once(self) -> Progress:
        self.threads.add(threading.get_ident())
        self.runs += 1
        if self.blocked is not None and not self.blocked.wait(20):
            raise AssertionError("nobody cancelled")
        if self.batches:
            answer = self.batches.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer
        return Progress(idle_ms=60_000)

    def pause(self) -> None:
        self._call("pause")

    def resume(self) -> None:
        self._call("resume")

    def close(self) -> None:
        self._call("close")
        if self.close_error is not None:
            raise self.close_error

    def cancel(self) -> None:
        self.calls.append("cancel")
        self.batches.insert(0, ConnectError("given up"))
        if self.blocked is not None:
            self.blocked.set()


class Bystander(pykka.ThreadingActor):
    """Another actor of the worker."""


class Rig:
    def __init__(self) -> None:
        self.reports: list[TaskStateReported] = []
        self.ticker = Ticker()
        self.ticker.start()
        self.runner = ScriptedRunner()
        self.contexts: list[str] = []
        self.released: list[ConnectorName] = []
        self.actors = TaskActors(
            self.reports.append, self._make, self.ticker, self._context, released=self.released.append)

    def _make(self, _start: StartTask, wake: Callable[[], None]) -> Any:
        self.runner.wake = wake
        return self.runner

    @contextmanager
    def _context(self, task: ConnectorTaskId) -> Iterator[None]:
        self.contexts.append(str(task))
        yield

    def start(self, runner: ScriptedRunner, target: TargetState = TargetState.STARTED) -> pykka.ActorRef[Any]:
        self.runner = runner
        start = StartTask(TASK, {"name": "c"}, {}, target, 1)
        self.ref = self.actors.start(Epoch(5), start)
        self.ref.tell(start)
        return self.ref

    def states(self) -> list[State]:
        return [report.state for report in self.reports]

    def await_states(self, *states: State) -> None:
        wait_until(lambda: self.states() == list(states), 5, f"{states}, not {self.states()}")


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    if rig.runner.blocked is not None:
        rig.runner.blocked.set()
    if rig.ref.is_alive():
        rig.ref.stop(timeout=5)
    rig.ticker.stop()


def test_a_task_runs_until_it_is_stopped(rig: Rig) -> None:
    ref = rig.start(ScriptedRunner(Progress(records=5), Progress(records=5)))
    wait_until(lambda: rig.runner.runs == 3)
    rig.await_states(State.RUNNING)
    ref.tell(Stop())
    rig.await_states(State.RUNNING, State.UNASSIGNED)
    assert [r.stopped_for_good for r in rig.reports] == [False, True]
    assert {(r.task, r.epoch) for r in rig.reports} == {(TASK, Epoch(5))}
    assert rig.reports[0].version == "7.1"
    assert rig.runner.calls == ["start", "close"]
    assert len(rig.runner.threads) == 1, "all calls come from one thread"
    assert set(rig.contexts) == {"c-0"}
    assert rig.released == [TASK.connector]
    wait_until(lambda: not ref.is_alive())


def test_a_connector_is_released_with_its_last_task(rig: Rig) -> None:
    """Each task that ended took the warm executor processes of all others."""
    first = rig.start(ScriptedRunner(Progress(idle_ms=60_000)))
    wait_until(lambda: rig.runner.runs == 1)
    second = rig.start(ScriptedRunner(Progress(idle_ms=60_000)))
    wait_until(lambda: rig.runner.runs == 1)
    rig.actors.cancel(first)
    first.tell(Stop())
    wait_until(lambda: not first.is_alive())
    assert rig.released == []
    second.tell(Stop())
    wait_until(lambda: rig.released == [TASK.connector])


def test_a_task_that_could_not_be_started_does_not_keep_its_connector(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*_arguments: Any, **_named: Any) -> Any:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(TaskActor, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            rig.start(ScriptedRunner())
    assert rig.released == [TASK.connector]
    ref = rig.start(ScriptedRunner(Progress(idle_ms=60_000)))
    wait_until(lambda: rig.runner.runs == 1)
    ref.tell(Stop())
    wait_until(lambda: rig.released == [TASK.connector] * 2)


def test_an_idle_task_waits_for_its_timer_or_a_wake_up(rig: Rig) -> None:
    rig.start(ScriptedRunner(Progress(idle_ms=20), Progress(idle_ms=20)))
    wait_until(lambda: rig.runner.runs == 3, what="two alarms")
    rig.runner.wake()
    wait_until(lambda: rig.runner.runs == 4, what="a wake")


def test_many_wake_ups_are_one_message(rig: Rig) -> None:
    runner = ScriptedRunner()
    runner.blocked = threading.Event()
    rig.start(runner)
    wait_until(lambda: runner.runs == 1)
    for _ in range(1000):
        runner.wake()
    assert rig.ref.actor_inbox.qsize() == 1
    runner.blocked.set()
    wait_until(lambda: runner.runs == 2)


def test_a_task_pauses_and_resumes(rig: Rig) -> None:
    ref = rig.start(ScriptedRunner())
    ref.tell(ChangeTargetState(TargetState.PAUSED))
    ref.tell(ChangeTargetState(TargetState.PAUSED))
    ref.tell(ChangeTargetState(TargetState.STARTED))
    rig.await_states(State.RUNNING, State.PAUSED, State.RUNNING)
    assert rig.runner.calls == ["start", "pause", "resume"]


def test_a_task_may_start_paused(rig: Rig) -> None:
    rig.start(ScriptedRunner(), TargetState.PAUSED)
    rig.await_states(State.PAUSED)
    assert rig.runner.calls == ["start", "pause"]
    wait_until(lambda: rig.runner.runs == 1, what="a paused sink to look after its group membership")


def test_a_failing_batch_fails_the_task_which_does_nothing_until_it_is_stopped(rig: Rig) -> None:
    ref = rig.start(ScriptedRunner(Progress(records=1), ValueError("bad\nrecord")))
    rig.await_states(State.RUNNING, State.FAILED)
    trace = rig.reports[1].trace
    assert trace is not None
    assert trace.startswith("ValueError: bad\nrecord\nTraceback (most recent call last)")
    assert "in run_once" in trace
    rig.runner.wake()
    ref.tell(ChangeTargetState(TargetState.PAUSED))
    ref.tell(ChangeTargetState(TargetState.STARTED))
    ref.tell(Stop())
    rig.await_states(State.RUNNING, State.FAILED, State.UNASSIGNED)
    assert rig.runner.runs == 2
    assert rig.runner.calls == ["start", "close"]


def test_a_runner_whose_process_has_ended_is_restarting(rig: Rig) -> None:
    runner = ScriptedRunner()
    rig.start(runner)
    rig.await_states(State.RUNNING)
    runner.restarting = True
    runner.wake()
    rig.await_states(State.RUNNING, State.RESTARTING)
    runner.wake()  # which is told once
    runner.restarting = False
    runner.wake()
    rig.await_states(State.RUNNING, State.RESTARTING, State.RUNNING)
    rig.ref.tell(ChangeTargetState(TargetState.PAUSED))
    rig.await_states(State.RUNNING, State.RESTARTING, State.RUNNING, State.PAUSED)
    runner.restarting = True  # while it is paused it stays that
    runner.wake()
    rig.ref.tell(ChangeTargetState(TargetState.STARTED))
    rig.await_states(State.RUNNING, State.RESTARTING, State.RUNNING, State.PAUSED, State.RESTARTING)


def test_a_start_that_raises_fails_the_task(rig: Rig) -> None:
    rig.start(ScriptedRunner(start_error=ConnectError("no such file")))
    rig.await_states(State.FAILED)
    assert rig.runner.calls == ["start", "close"]
    assert (rig.reports[0].version, rig.reports[0].created) == ("7.1", True)


def test_a_task_that_cannot_be_created_fails(rig: Rig) -> None:
    rig.actors = TaskActors(rig.reports.append, no_task, rig.ticker)
    rig.start(ScriptedRunner())
    rig.await_states(State.FAILED)
    assert not rig.reports[0].created


def no_task(_start: StartTask, _wake: Callable[[], None]) -> Any:
    raise ConfigError("no such class")


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError("too late")])
@pytest.mark.parametrize("when", ["start", "run_once", "close"])
def test_what_is_no_exception_fails_only_the_task(rig: Rig, error: BaseException, when: str) -> None:
    """Pykka stops all actors of the worker after such errors."""
    bystander = Bystander.start()
    runner = ScriptedRunner(*[error] * (when == "run_once"), start_error=error if when == "start" else None)
    runner.close_error = error if when == "close" else None
    rig.start(runner)
    if when == "close":
        rig.ref.tell(Stop())
    wait_until(lambda: bool({State.FAILED, State.UNASSIGNED} & {*rig.states()}))
    if when != "close":
        assert f"the plugin raised {type(error).__name__}: {error}" in (rig.reports[-1].trace or "")
        assert rig.ref.is_alive()
    assert bystander.is_alive()
    bystander.stop()


def test_a_task_ends_even_if_close_fails(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    runner = ScriptedRunner()
    runner.close_error = ConnectError("no")
    ref = rig.start(runner)
    ref.tell(Stop())
    rig.await_states(State.RUNNING, State.UNASSIGNED)
    [reported] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert reported.exc_info is not None


def test_a_stop_is_served_between_two_batches(rig: Rig) -> None:
    ref = rig.start(ScriptedRunner(*[Progress(records=1)] * 1_000_000))
    wait_until(lambda: rig.runner.runs > 10)
    ref.tell(Stop())
    rig.await_states(State.RUNNING, State.UNASSIGNED)


def test_a_hanging_batch_is_abandoned(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """What the batch's cancellation makes the task raise is one plain line: the herder has said why."""
    caplog.set_level("INFO")
    runner = ScriptedRunner()
    runner.close_error = ConnectError("the batch was cancelled")
    runner.blocked = threading.Event()
    ref = rig.start(runner)
    wait_until(lambda: runner.runs == 1)
    ref.tell(Stop())
    rig.actors.cancel(ref)
    assert rig.released == [TASK.connector], "its plugin may never return"
    wait_until(lambda: not ref.is_alive())
    assert "cancel" in runner.calls
    assert runner.calls[-1] == "close"
    reported = [record for record in caplog.records if record.name == "actors.instances.task"]
    assert [record.getMessage() for record in reported] == [
        f"What the abandoned task was doing has ended: {why}" for why in ("given up", "the batch was cancelled")]
    assert [(record.levelname, record.exc_info) for record in reported] == [("INFO", None)] * 2


def test_a_task_abandoned_before_its_start_never_starts(rig: Rig) -> None:
    rig.runner = ScriptedRunner()
    rig.ref = rig.actors.start(Epoch(1), StartTask(TASK, {}, {}, TargetState.STARTED, 1))
    rig.actors.cancel(rig.ref)
    rig.ref.tell(StartTask(TASK, {}, {}, TargetState.STARTED, 1))
    rig.ref.tell(Stop())
    wait_until(lambda: not rig.ref.is_alive())
    assert "start" not in rig.runner.calls


@pytest.mark.parametrize(("error", "permanent"), [(ConfigError("no such key"), True), (OSError("away"), False)])
def test_a_failure_says_whether_a_retry_can_help(rig: Rig, error: Exception, permanent: bool) -> None:
    rig.start(ScriptedRunner(error))
    rig.await_states(State.RUNNING, State.FAILED)
    assert [report.permanent for report in rig.reports] == [False, permanent]


def test_a_paused_or_failed_task_refuses_a_replay(rig: Rig) -> None:
    errors: list[Exception | None] = []
    replay = ReplayLetters({}, lambda _, error: errors.append(error))
    ref = rig.start(ScriptedRunner(ValueError("bad record")), TargetState.PAUSED)
    ref.tell(replay)
    rig.await_states(State.PAUSED, State.FAILED)
    ref.tell(replay)
    wait_until(lambda: len(errors) == 2)
    assert [type(error) for error in errors] == [BadRequestError, BadRequestError]
    assert ["paused" in str(errors[0]), "FAILED" in str(errors[1])] == [True, True]


def test_a_replay_during_a_restart_can_be_tried_again(rig: Rig) -> None:
    errors: list[Exception | None] = []
    runner = ScriptedRunner()
    runner.blocked = threading.Event()
    ref = rig.start(runner)
    wait_until(lambda: runner.runs == 1)
    ref.tell(Stop())
    ref.tell(ReplayLetters({}, lambda _, error: errors.append(error)))
    runner.blocked.set()
    wait_until(lambda: len(errors) == 1)
    assert isinstance(errors[0], ConflictError)
    assert "try again" in str(errors[0])
