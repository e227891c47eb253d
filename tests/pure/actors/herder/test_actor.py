"""The herder's actor with the real stores over topics in memory, real connector and task actors, and a group of one."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import pykka
import pytest

from actors.assignment.codec import decode_assignment, encode_metadata
from actors.assignment.cooperative import AssignorState
from actors.assignment.leader import plan
from actors.assignment.protocol import Allocation, MemberMetadata, Membership, Protocol
from actors.errors import AlreadyExistsError, NotFoundError
from actors.herder.actor import HerderActor, Ports
from actors.herder.effects import MakeSessionKey, Validate
from actors.herder.events import HaltRequested, Loaded, ProducersFenced, TaskConfigsPublished, Validated
from actors.herder.standing import Phase, StatusWrites
from actors.herder.state import HerderSettings, HerderState
from actors.instances.connector import ConnectorActor
from actors.instances.registry import ActorInstances
from actors.instances.task import TaskActors
from actors.messages.commands import (
    AllowJoin,
    Decided,
    HerderAlive,
    JoinGroup,
    LeaveGroup,
    PutSessionKey,
    PutStatus,
    RequestRejoin,
    WriteConfig,
)
from actors.messages.events import ConfigOpDone, ConnectorStateReported, Joined, JoinPreparing, Remark, TaskStalled
from actors.messages.requests import (
    Ask,
    FenceZombies,
    GetConnector,
    GetStory,
    HealthCheck,
    PutConnector,
    Request,
    RestartConnectorAndTasks,
)
from actors.pooled import ActorThreads
from actors.stores.config import ConfigStoreActor
from actors.stores.status import StatusStoreActor
from actors.ticker import Ticker
from spark_tasks.config.masking import MASK, process_secrets
from spark_tasks.errors import ConnectError
from spark_tasks.plugins import Plugins
from spark_tasks.process.pulse import Pulse
from spark_tasks.task import Progress
from storage.config.state import RestartRequest, SessionKey
from storage.config.view import ConfigView
from storage.ids import Config, ConnectorName, ConnectorTaskId, State, WorkerId
from storage.status.state import Status, StatusState
from storage.status.view import StatusView
from tests.rigs.memory_log import MemoryTopic, MemoryTopicLog
from tests.rigs.plugin_under_test import FOUND
from tests.rigs.support import wait_until

SESSION_MS = 400
PULSE_MS = 20
WITHIN_S = 20


class IdleRunner:
    """A task that has nothing to do."""

    version = "1"

    def start(self) -> None:
        pass

    def run_once(self) -> Progress:
        return Progress(idle_ms=60_000)

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        pass

    def cancel(self) -> None:
        pass

    def stop_starting(self) -> None:
        pass


class GroupOfOne:
    """What the herder hears of a group that it is alone in; the real assignor hands out the work."""

    def __init__(self, tell: Callable[[Any], None], configs: ConfigView) -> None:
        self.tell = tell
        self.configs = configs
        self.left = threading.Event()
        self.asking = self.again = False
        self.generation = 0
        self.assignor = AssignorState()

    def __call__(self, message: Any) -> None:
        match message:
            case JoinGroup() | RequestRejoin() if self.asking:
                self.again = True
            case JoinGroup() | RequestRejoin():
                self.asking = True
                self.tell(JoinPreparing(eager=False))
            case AllowJoin(owned):
                self.asking = False
                self._rebalance(owned)
                if self.again:
                    self.again = False
                    self(RequestRejoin("again"))
            case LeaveGroup():
                self.left.set()

    def _rebalance(self, owned: Allocation) -> None:
        config, before = self.configs.config, self.generation
        self.generation += 1
        metadata = encode_metadata(MemberMetadata("http://me/", config.offset, owned), Protocol.SESSIONED)
        made = plan(self.assignor, Protocol.SESSIONED, {"me": metadata}, config, leader="me", now_ms=0,
                    generation=self.generation, last_completed=before or -1, max_delay_ms=300_000)
        self.assignor = made.state
        self.tell(Joined(Membership(self.generation, "me", Protocol.SESSIONED,
                                    decode_assignment(made.assignments["me"]), made.owners)))


class Rig:
    """A herder, its events and its effects.

    Tests change `statuses` and `kind`, which the herder requests. `put`: what it put into the status store.
    `holds`: messages of this class are `held` back from it.
    """

    def __init__(self) -> None:
        self.states: list[HerderState] = []
        self.failures: list[str] = []
        self.halted = threading.Event()
        self.kind: Callable[[Config], str] = lambda _: "source"
        self.suspended_s = 0.0
        self.pulse = Pulse(lambda: time.monotonic() + self.suspended_s)
        self.put: list[Any] = []
        self.holds: type | None = None
        self.held: list[Any] = []
        self.ticker = Ticker()
        self.ticker.start()
        self.configs, self.view = ConfigView(), StatusView()
        self.statuses: Callable[[], StatusState] = lambda: self.view.statuses
        self.config_store = ConfigStoreActor.start(MemoryTopicLog(MemoryTopic("configs")), self.tell, self.configs,
                                                   self.ticker)
        self.status_store = StatusStoreActor.start(MemoryTopicLog(MemoryTopic("statuses")), self.tell, self.view,
                                                   self.ticker)
        self.group = GroupOfOne(self.tell, self.configs)
        tasks = TaskActors(self.tell, lambda *_: IdleRunner(), self.ticker)
        instances = ActorInstances(
            self.tell,
            lambda epoch, _: ConnectorActor.start(epoch, self.tell, Plugins(installed=FOUND), lambda given, _: given,
                                                  lambda *_: [], threads=ActorThreads()),
            tasks.start, tasks.cancel, tasks.stopping)
        ports = Ports(
            config_store=self.config_store.tell, status_store=self._put, member=self.group,
            instances=instances, validate=self._validate, delegate=lambda _, answer: answer("delegated", None),
            send_task_configs=lambda effect: self.tell(TaskConfigsPublished(effect.op)),
            fence_producers=lambda effect: self.tell(ProducersFenced(effect.op)),
            make_session_key=self._make_key, forget_topics=lambda _: None, set_logger_level=lambda _: None,
            statuses=lambda: self.statuses(),  # noqa: PLW0108 - as it is then
            publish=self.states.append, pulse=self.pulse, halted=self.halted.set, failed=self._failed)
        settings = HerderSettings(WorkerId("me:1"), "g", session_timeout_ms=SESSION_MS, graceful_stop_ms=2000,
                                  connector_type=lambda config: self.kind(config))  # noqa: PLW0108 - as it is then
        self.ref = HerderActor.start(settings, ports, self.ticker)
        self.configs.ready.result(WITHIN_S)
        self.view.ready.result(WITHIN_S)
        self.ticker.every("pulse", PULSE_MS, lambda: self.tell(HerderAlive()))
        self.tell(Loaded(self.configs.config))

    def _put(self, message: Any) -> None:
        self.put.append(message)
        self.status_store.tell(message)

    def statuses_put(self) -> list[tuple[float, Status]]:
        decided = [message for message in list(self.put) if isinstance(message, Decided)]
        return [(it.at, it.command.status) for it in decided if isinstance(it.command, PutStatus)]

    def tell(self, message: Any) -> None:
        if self.holds is not None and isinstance(message, self.holds):
            self.held.append(message)
            return
        with contextlib.suppress(AttributeError, pykka.ActorDeadError):  # before its start, or after its end
            self.ref.tell(message)

    def ask(self, request: Request | GetStory) -> pykka.Future[Any]:
        reply: pykka.ThreadingFuture[Any] = pykka.ThreadingFuture()
        self.ref.tell(Ask(request, reply))
        return reply

    def create(self, name: str) -> ConnectorName:
        connector = ConnectorName(name)
        config = {"name": name, "connector.class": "ScriptedSource"}
        self.ask(PutConnector(connector, config, replace=False)).get(timeout=WITHIN_S)
        wait_until(lambda: self.said(connector) == [State.RUNNING, State.RUNNING], WITHIN_S, f"{name} to run")
        return connector

    def said(self, name: ConnectorName) -> list[State]:
        found = [self.view.statuses.connectors.get(name), *self.view.statuses.tasks.get(name, {}).values()]
        return [status.state for status in found if status is not None]

    def generation(self, name: ConnectorName) -> int:
        return self.view.statuses.connectors[name].generation

    def _validate(self, effect: Validate) -> None:
        self.tell(Validated(effect.request_id))

    def _make_key(self, effect: MakeSessionKey) -> None:
        key = SessionKey(b"k" * 32, "HmacSHA256", self.ticker.now_ms())
        self.config_store.tell(Decided(WriteConfig(effect.op, PutSessionKey(key)), self.pulse.beat()))

    def _failed(self, reason: str) -> None:
        self.failures.append(reason)
        self.tell(HaltRequested(reason))  # as the worker does

    def close(self) -> None:
        if self.ref.is_alive():
            self.statuses, self.kind = lambda: self.view.statuses, lambda _: "source"
            self.tell(HaltRequested("the test is over"))
            self.halted.wait(WITHIN_S)
        for ref in (self.ref, self.config_store, self.status_store):
            ref.stop(timeout=5)
        self.ticker.stop()


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
    rig.tell(TaskStalled(task, rig.states[-1].slots[task].epoch, what, 1000))
    rig.ask(HealthCheck()).get(timeout=WITHIN_S)
    [entries] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert entries.getMessage().startswith(f"c-0: hangs with {MASK} [TaskStalled#")
    assert vars(entries)["below"] == "in hang\nin run"


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
    rig.tell(ConnectorStateReported(c, rig.states[-1].slots[c].epoch, State.FAILED, "broken"))
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
    rig.tell(ConnectorStateReported(c, rig.states[-1].slots[c].epoch, State.FAILED, "broken"))
    wait_until(lambda: len(rig.statuses_put()) > put, WITHIN_S, "the status")
    at, status = rig.statuses_put()[put]
    assert status.state is State.FAILED
    assert rig.pulse.longest_gap_since(at) >= 5.0


# ---------------------------------------------------------------- defects
def test_a_defect_in_serving_a_request_is_reported_to_its_caller(rig: Rig, c: ConnectorName) -> None:
    rig.kind = Spoilt(rig.kind)
    with pytest.raises(ZeroDivisionError, match="a defect"):
        rig.ask(GetConnector(c)).get(timeout=WITHIN_S)
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
