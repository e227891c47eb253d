"""The herder's actor with the real stores over topics in memory, real connector and task actors, and a group of one."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import pytest

from actors.errors import AlreadyExistsError, NotFoundError
from actors.herder import automatic_restarts
from actors.herder.events import HaltRequested
from actors.herder.standing import Phase, StatusWrites
from actors.messages.commands import (
    RequestRejoin,
)
from actors.messages.events import ConfigOpDone, ConnectorStateReported, InstanceStalled, Remark
from actors.messages.requests import (
    FenceZombies,
    GetConnector,
    GetOffsets,
    GetStory,
    HealthCheck,
    PutConnector,
    RestartConnectorAndTasks,
)
from spark_tasks.config.masking import MASK, process_secrets
from spark_tasks.errors import ConnectError
from storage.config.state import RestartRequest
from storage.ids import ConnectorName, ConnectorTaskId, State
from storage.status.state import StatusState
from tests.rigs.herder.lone_worker import WITHIN_S
from tests.rigs.herder.lone_worker import LoneWorker as Rig
from tests.rigs.support import wait_until


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture
def c(rig: Rig) -> ConnectorName:
    """A connector that runs."""
    return rig.create("c")


class Spoilt:
    """Raises once, if `condition` is true; otherwise it is unchanged."""

    raised = False

    def __init__(self, before: Callable[..., Any], condition: Callable[[], bool] = lambda: True) -> None:
        self.before = before
        self.condition = condition

    def __call__(self, *arguments: Any) -> Any:
        if not self.raised and self.condition():
            self.raised = True
            raise ZeroDivisionError("a defect")
        return self.before(*arguments)


# ---------------------------------------------------------------- futures
def test_each_caller_gets_its_own_response(rig: Rig, c: ConnectorName) -> None:
    there, missing, health = (rig.ask(r) for r in (GetConnector(c), GetConnector(ConnectorName("x")), HealthCheck()))
    assert there.get(timeout=WITHIN_S).name == c
    with pytest.raises(NotFoundError):
        missing.get(timeout=WITHIN_S)
    assert health.get(timeout=WITHIN_S) is None
    with pytest.raises(AlreadyExistsError):
        rig.ask(PutConnector(c, {"connector.class": "ScriptedSource"}, replace=False)).get(timeout=WITHIN_S)


def test_the_stack_of_a_hanging_task_is_below_the_line(
    rig: Rig, c: ConnectorName, caplog: pytest.LogCaptureFixture
) -> None:
    process_secrets().add("c", ["s3cr3t\nof-two-lines"])
    task = ConnectorTaskId(c, 0)
    what = "hangs with s3cr3t\nof-two-lines\nin hang\nin run"
    rig.tell(InstanceStalled(task, rig.states[-1].instances[task].epoch, what, 1000))
    rig.ask(HealthCheck()).get(timeout=WITHIN_S)
    [entries] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert entries.getMessage().startswith(f"No progress: hangs with {MASK} [InstanceStalled#")
    assert vars(entries)["below"] == "in hang\nin run"


def test_lines_of_the_core_have_the_logger_and_the_line_of_their_handler(
    rig: Rig, c: ConnectorName, caplog: pytest.LogCaptureFixture
) -> None:
    """So a level can be set for one subject of the herder."""
    task = ConnectorTaskId(c, 0)
    epoch = rig.states[-1].instances[task].epoch
    for count, level in enumerate(("ERROR", "WARNING")):
        caplog.set_level(level, automatic_restarts.__name__)
        rig.tell(InstanceStalled(task, epoch, "hangs", 1000))
        rig.ask(HealthCheck()).get(timeout=WITHIN_S)
        found = [record for record in caplog.records if "hangs" in record.getMessage()]
        assert [record.name for record in found] == [automatic_restarts.__name__] * count
    lines = inspect.getsource(automatic_restarts).splitlines()
    assert "turn.log(" in lines[found[0].lineno - 1]


def test_a_second_write_waits_for_the_first_to_be_read_back(rig: Rig) -> None:
    put = PutConnector(ConnectorName("c"), {"name": "c", "connector.class": "ScriptedSource"}, replace=False)
    rig.ask(HealthCheck()).get(timeout=WITHIN_S)
    first, second = rig.ask(put), rig.ask(put)
    assert first.get(timeout=WITHIN_S).created
    with pytest.raises(AlreadyExistsError):
        second.get(timeout=WITHIN_S)


def test_a_worker_that_halts_answers_all_requests(rig: Rig, c: ConnectorName) -> None:
    """In order: work is stopped, statuses are written, the worker leaves the group."""
    rig.tell(HaltRequested("SIGTERM"))
    late = rig.ask(HealthCheck())
    with pytest.raises(ConnectError, match="Worker is shutting down"):
        late.get(timeout=WITHIN_S)
    assert rig.halted.wait(WITHIN_S)
    assert rig.group.left.is_set()
    assert rig.said(c) == [State.UNASSIGNED, State.UNASSIGNED]


def test_a_timer_that_fires_after_the_end_is_not_an_error(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    alarms: list[Callable[[], None]] = []
    before = rig.ticker.set

    def keep(key: Hashable, at_ms: int, alarm: Callable[[], None]) -> None:
        alarms.append(alarm)
        before(key, at_ms, alarm)

    monkeypatch.setattr(rig.ticker, "set", keep)
    rig.create("c")
    rig.close()
    assert alarms
    for alarm in tuple(alarms):  # one that repeats itself adds another
        alarm()


@pytest.mark.parametrize("how", ["stop", "die"])
def test_a_herder_that_ends_during_a_request_leaves_no_caller_waiting(rig: Rig, how: str) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow() -> StatusState:
        entered.set()
        assert release.wait(WITHIN_S)
        if how == "die":
            raise SystemExit  # not an error that the actor treats as a defect
        return rig.view.statuses

    rig.ask(HealthCheck()).get(timeout=WITHIN_S)
    held = rig.ask(PutConnector(ConnectorName("c"), {"name": "c", "connector.class": "x"}, replace=False))
    rig.statuses = slow
    assert entered.wait(WITHIN_S)
    if how == "stop":
        rig.ref.stop(block=False)
    unread = rig.ask(HealthCheck())
    release.set()
    for asked in (held, unread):
        with pytest.raises(ConnectError, match="Worker is shutting down"):
            asked.get(timeout=WITHIN_S)
    wait_until(lambda: not rig.ref.is_alive())


# ---------------------------------------------------------------- restarts
def test_the_answer_to_a_restart_shows_what_restarts_even_if_that_is_over_already(rig: Rig, c: ConnectorName) -> None:
    """The restart begins when its record is read, which may be reported before the end of the write."""
    rig.tell(ConnectorStateReported(c, rig.states[-1].instances[c].epoch, State.FAILED, "broken"))
    wait_until(lambda: rig.said(c) == [State.FAILED, State.RUNNING], WITHIN_S, "the failure")
    rig.holds = ConfigOpDone
    asked = rig.ask(RestartConnectorAndTasks(RestartRequest(c, only_failed=True, include_tasks=True)))
    wait_until(lambda: rig.held and rig.said(c) == [State.RUNNING, State.RUNNING], WITHIN_S, "the restart to be over")
    rig.holds = None
    for message in rig.held:
        rig.tell(message)
    answer = asked.get(timeout=WITHIN_S)
    assert [answer.connector.state, *(task.state for task in answer.tasks)] == [State.RESTARTING, State.RUNNING]


# ---------------------------------------------------------------- suspension
def test_a_herder_whose_process_was_silent_past_the_session_stops_its_work_and_resumes_it(
        rig: Rig, c: ConnectorName) -> None:
    before = rig.generation(c)
    rig.suspended_s = 5.0
    rig.ask(GetConnector(c)).get(timeout=WITHIN_S)
    wait_until(lambda: any(state.status_writes is StatusWrites.SUSPENDED for state in list(rig.states)), WITHIN_S,
               "the herder to notice")
    wait_until(lambda: rig.generation(c) > before and rig.said(c) == [State.RUNNING] * 2, WITHIN_S, "it to run again")
    assert rig.failures == []


def test_statuses_are_written_after_a_suspension_unless_they_were_decided_on_before(
        rig: Rig, c: ConnectorName) -> None:
    before = rig.generation(c)
    put = len(rig.statuses_put())
    rig.suspended_s = 5.0
    rig.ask(GetConnector(c)).get(timeout=WITHIN_S)
    wait_until(lambda: rig.generation(c) > before and rig.said(c) == [State.RUNNING] * 2, WITHIN_S, "it to run again")
    gaps = [rig.pulse.longest_gap_since(at) for at, _ in rig.statuses_put()]
    assert min(gaps[:put]) >= 5.0
    assert max(gaps[put:]) == 0


def test_what_is_decided_while_the_process_is_suspended_is_not_written(rig: Rig, c: ConnectorName) -> None:
    """The herder notices the suspension with its next message only."""

    def suspended() -> StatusState:
        rig.statuses = lambda: rig.view.statuses
        rig.suspended_s = 5.0
        return rig.view.statuses

    put = len(rig.statuses_put())
    rig.statuses = suspended
    rig.tell(ConnectorStateReported(c, rig.states[-1].instances[c].epoch, State.FAILED, "broken"))
    wait_until(lambda: len(rig.statuses_put()) > put, WITHIN_S, "the status")
    at, status = rig.statuses_put()[put]
    assert status.state is State.FAILED
    assert rig.pulse.longest_gap_since(at) >= 5.0


# ---------------------------------------------------------------- defects
def test_a_defect_in_serving_a_request_is_reported_to_its_caller(rig: Rig, c: ConnectorName) -> None:
    rig.kind = Spoilt(rig.kind)
    with pytest.raises(ZeroDivisionError, match="a defect"):
        rig.ask(FenceZombies(c, None, local=True)).get(timeout=WITHIN_S)
    assert rig.ask(GetConnector(c)).get(timeout=WITHIN_S).name == c
    assert rig.failures == []


def test_a_defect_at_the_end_of_an_op_is_reported_and_the_next_request_served(rig: Rig, c: ConnectorName) -> None:
    """The queue waits for this op, a read of the config topic: it must not wait forever."""
    rig.kind = Spoilt(rig.kind, condition=lambda: rig.states[-1].busy is not None)
    with pytest.raises(ConnectError, match="zombie fencing: a defect"):
        rig.ask(FenceZombies(c, None, local=True)).get(timeout=WITHIN_S)
    assert rig.ask(GetConnector(c)).get(timeout=WITHIN_S).name == c
    assert rig.states[-1].busy is None
    assert rig.failures == []


def test_a_defect_outside_of_requests_stops_the_worker(rig: Rig, c: ConnectorName) -> None:
    """The leader reads all statuses when a rebalance is over; an exception there would keep it in the rebalance."""
    rig.statuses = lambda: StatusState({c: None}, {c: None}, {})  # type: ignore[dict-item]
    rig.group(RequestRejoin("a rebalance"))
    wait_until(lambda: rig.failures, WITHIN_S, "the defect to be told")
    assert "cannot continue after an internal error (TypeError" in rig.failures[0]
    assert rig.halted.wait(WITHIN_S), "it stopped in order"
    assert rig.group.left.is_set()


def test_an_effect_that_cannot_be_carried_out_stops_the_worker(rig: Rig, c: ConnectorName) -> None:
    rig.config_store.stop(timeout=5)
    asked = rig.ask(PutConnector(ConnectorName("d"), {"name": "d", "connector.class": "x"}, replace=False))
    with pytest.raises(ConnectError, match="Worker is shutting down"):
        asked.get(timeout=WITHIN_S)
    assert "ActorDeadError" in rig.failures[0]
    assert rig.halted.wait(WITHIN_S)
    assert rig.said(c) == [State.UNASSIGNED, State.UNASSIGNED]


def test_what_cannot_be_begun_is_the_error_of_its_request(rig: Rig, c: ConnectorName) -> None:
    """For example because the system starts no more threads."""
    def cannot(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    rig.validate = rig.delegate = cannot
    for request in (PutConnector(c, {"name": "c"}, replace=True), GetOffsets(c)):
        with pytest.raises(RuntimeError, match="new thread"):
            rig.ask(request).get(timeout=WITHIN_S)
    assert rig.failures == []


def test_an_unknown_message_changes_nothing(rig: Rig, c: ConnectorName) -> None:
    rig.tell("what is this?")
    assert rig.ask(GetConnector(c)).get(timeout=WITHIN_S).name == c
    assert rig.failures == []
    assert rig.states[-1].phase is Phase.RESOLVED


def test_the_story_of_a_connector_links_each_step_to_its_cause(rig: Rig, c: ConnectorName) -> None:
    """From a request to its results, each step with the one that led to it."""
    d = rig.create("d")
    rig.tell(Remark(ConnectorTaskId(d, 0), "a split hangs\nin f", "executors"))
    entries = rig.ask(GetStory(d)).get(timeout=WITHIN_S)
    causes = {entry.cause: entry for entry in entries}
    started = next(e for e in entries if any(x.startswith("StartInstance(item='d'") for x in e.effects))
    put = next(e for e in entries if "PutConnector(connector='d', config={2 keys}" in e.what)
    reported = next(e for e in entries if e.what.startswith("ConnectorStateReported(connector='d'"))
    assert reported.because == started.cause
    written = next(e for e in entries if any("PutConnectorConfig(connector='d'" in x for x in e.effects))
    assert causes[written.because or ""] is put
    assert entries[-1].what == "executors, d-0: a split hangs\nin f"
    with pytest.raises(NotFoundError, match="Connector x not found"):
        rig.ask(GetStory(ConnectorName("x"))).get(timeout=WITHIN_S)
