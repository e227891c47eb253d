"""The clock may be set back between two steps: what is queued is served as if it had not been."""

from __future__ import annotations

from typing import Any

from actors.assignment.protocol import Allocation, Assignment, Membership, Protocol
from actors.errors import ConflictError
from actors.herder import core
from actors.herder.continuations import GeneratedTasks
from actors.herder.effects import AskTaskConfigs, Effect, Reply, SetTimer, Timer
from actors.herder.events import Event, RequestReceived, TimerFired
from actors.herder.instance import Instance
from actors.herder.own_requests import Reconfigure
from actors.herder.standing import Follower, Joining, Resolved
from actors.herder.state import AutomaticRestarts, HerderSettings, HerderState
from actors.messages.correlation_ids import Epoch, OpId, RequestId
from actors.messages.events import ConnectorStateReported, Joined, TaskConfigsGenerated
from actors.messages.requests import HealthCheck
from spark_tasks.config.restart_policy import RestartPolicy
from spark_tasks.errors import ConnectError
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, State, WorkerId
from storage.status.state import StatusState

C = ConnectorName("c")
SETTINGS = HerderSettings(WorkerId("me:1"), "g")
CONFIG = ClusterConfigState(offset=1, connector_configs={C: {}})
MEMBERSHIP = Membership(7, "me", Protocol.SESSIONED, Assignment("other", "http://other/", 1))
HOUR = 3_600_000


def step(state: HerderState, payload: Any, now: int) -> tuple[HerderState, list[Effect]]:
    state, effects = core.step(state, Event(payload, now, StatusState(), "test"))
    return state, list(effects)


def test_a_request_that_waits_for_a_rebalance_is_served() -> None:
    state = HerderState(SETTINGS, Joining(), store=CONFIG, config=CONFIG)
    state, _ = step(state, RequestReceived(RequestId(1), HealthCheck(), None), 2 * HOUR)
    _, effects = step(state, Joined(MEMBERSHIP), HOUR)
    assert Reply(RequestId(1), None, None) in effects


def test_a_request_waits_no_longer_than_it_may() -> None:
    state = HerderState(SETTINGS, Joining(), store=CONFIG, config=CONFIG)
    state, _ = step(state, RequestReceived(RequestId(1), HealthCheck(), 1000), 2 * HOUR)
    _, effects = step(state, TimerFired((Timer.REQUEST_TIMEOUT, "")), HOUR)
    assert effects == [SetTimer((Timer.REQUEST_TIMEOUT, ""), HOUR + 1000)]
    _, effects = step(state, TimerFired((Timer.REQUEST_TIMEOUT, "")), 2 * HOUR + 1000)
    assert [type(effect.error) for effect in effects if isinstance(effect, Reply)] == [ConflictError]


def test_a_retry_comes_when_its_delay_is_over() -> None:
    state = HerderState(
        SETTINGS, Resolved(Follower(MEMBERSHIP)), store=CONFIG, config=CONFIG, allocation=Allocation((C,)), counter=9,
        instances={C: Instance(Epoch(1), State.RUNNING)}, ops={OpId(2): GeneratedTasks(Reconfigure(C))})
    state, _ = step(state, TaskConfigsGenerated(C, Epoch(1), OpId(2), (), ConnectError("away")), 2 * HOUR)
    state, effects = step(state, TimerFired((Timer.CLAIM, "")), HOUR)
    assert not any(isinstance(effect, AskTaskConfigs) for effect in effects)
    _, effects = step(state, TimerFired((Timer.QUEUE, "")), HOUR + 250)
    assert any(isinstance(effect, AskTaskConfigs) for effect in effects)


def test_former_restarts_do_not_count_for_longer() -> None:
    policy = RestartPolicy(failed=True, limit=1, period_ms=60_000, first_ms=1000)
    settings = HerderSettings(WorkerId("me:1"), "g", restart_policy=lambda _: policy)
    state = HerderState(
        settings, Resolved(Follower(MEMBERSHIP)), store=CONFIG, config=CONFIG, allocation=Allocation((C,)), counter=9,
        instances={C: Instance(Epoch(1), State.RUNNING)}, clock_ms=2 * HOUR,
        automatic_restarts={C: AutomaticRestarts(Epoch(1), "failed", recent=(2 * HOUR - 50_000,), count=1)})
    state, _ = step(state, ConnectorStateReported(C, Epoch(1), State.FAILED, "again"), HOUR)
    assert state.automatic_restarts[C].next_ms == HOUR + 10_000
