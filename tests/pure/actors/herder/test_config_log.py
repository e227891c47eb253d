"""What an operator reads about connectors that somebody created, changed, paused or deleted, and about rebalances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from actors.assignment.protocol import Allocation, Assignment, Membership, Protocol
from actors.herder import core
from actors.herder.config_log import difference, named
from actors.herder.effects import Log
from actors.herder.events import Event, Loaded
from actors.herder.state import HerderSettings, HerderState
from actors.messages.events import ConfigChanged, Joined
from storage.config.state import (
    ClusterConfigState,
    ConfigChange,
    ConnectorRemoved,
    ConnectorUpdated,
    LoggerLevelChanged,
    RestartRequest,
    RestartRequested,
    SessionKey,
    SessionKeyChanged,
    TargetStateChanged,
    TasksUpdated,
)
from storage.ids import Config, ConnectorName, ConnectorTaskId, ItemId, TargetState, WorkerId
from storage.status.state import StatusState

C = ConnectorName("c")
T = ConnectorTaskId(C, 0)
BEFORE: Config = {"rate": "1", "password": "hunter1"}


def lines(state: HerderState, payload: ConfigChanged | Joined, level: str = "INFO") -> tuple[HerderState, list[Log]]:
    state, effects = core.step(state, Event(payload, 1, StatusState(), "test"))
    return state, [effect for effect in effects if isinstance(effect, Log) and effect.level == level]


def loaded(configs: Mapping[ConnectorName, Config]) -> HerderState:
    state = HerderState(HerderSettings(WorkerId("me:1"), "g"))
    store = ClusterConfigState(offset=1, connector_configs=configs, task_counts=dict.fromkeys(configs, 1))
    return core.step(state, Event(Loaded(store), 1, StatusState(), "test"))[0]


def told(before: Config | None, changes: Sequence[ConfigChange], after: Config | None,
         target: TargetState = TargetState.STARTED, tasks: int = 0) -> list[tuple[str, ItemId | None]]:
    """The lines about changes of a connector's configuration from `before` to `after`; None: it does not exist."""
    state = loaded({C: before} if before is not None else {})
    store = ClusterConfigState(offset=2, connector_configs={C: after} if after is not None else {},
                               target_states={C: target}, task_counts={C: tasks})
    return [(log.message, log.about) for log in lines(state, ConfigChanged(store, tuple(changes)))[1]]


@pytest.mark.parametrize(("target", "line"), [
    (TargetState.STARTED, "Connector created"), (TargetState.PAUSED, "Connector created (PAUSED)"),
    (TargetState.STOPPED, "Connector created (STOPPED)"),
])
def test_a_connector_that_is_created_is_one_line(target: TargetState, line: str) -> None:
    assert told(None, [ConnectorUpdated(C)], BEFORE, target) == [(line, C)]


@pytest.mark.parametrize(("after", "line"), [
    ({"rate": "1", "password": "hunter2"}, "Connector reconfigured: password changed"),
    ({"rate": "2", "tasks.max": "2"}, "Connector reconfigured: password, rate, tasks.max changed"),
    (BEFORE, "Connector reconfigured: nothing changed"),
    ({**BEFORE, **{f"k{n}": "" for n in range(8)}}, "Connector reconfigured: k0, k1, k2, k3, k4 and 3 more changed"),
])
def test_a_line_about_a_new_configuration_names_its_keys_and_no_value(after: Config, line: str) -> None:
    assert told(BEFORE, [ConnectorUpdated(C)], after) == [(line, C)]


@pytest.mark.parametrize(("target", "line"), [
    (TargetState.STARTED, "Resume requested"), (TargetState.PAUSED, "Pause requested"),
    (TargetState.STOPPED, "Stop requested"),
])
def test_a_request_for_another_state_is_one_line(target: TargetState, line: str) -> None:
    assert told(BEFORE, [TargetStateChanged(C)], BEFORE, target) == [(line, C)]


@pytest.mark.parametrize(("only_failed", "include_tasks", "line"), [
    (False, False, "Restart of the connector requested"),
    (True, True, "Restart of the connector and its tasks requested, where they have failed"),
])
def test_a_request_to_restart_is_one_line(only_failed: bool, include_tasks: bool, line: str) -> None:
    assert told(BEFORE, [RestartRequested(RestartRequest(C, only_failed, include_tasks))], BEFORE) == [(line, C)]


def test_deletions_and_new_tasks_are_a_line_each() -> None:
    assert told(BEFORE, [ConnectorRemoved(C)], None) == [("Connector deleted", C)]
    assert told(BEFORE, [TasksUpdated(C, (T,))], BEFORE, tasks=1) == [("Task configurations changed: 1 task", C)]
    assert told(BEFORE, [TasksUpdated(C, ())], BEFORE) == [("Task configurations changed: no tasks", C)]


def test_what_concerns_no_connector_is_not_announced() -> None:
    key = SessionKey(b"secret", "HmacSHA256", 1)
    assert told(BEFORE, [SessionKeyChanged(key), LoggerLevelChanged("actors", "INFO")], BEFORE) == []


def test_a_rebalance_for_configurations_names_connectors() -> None:
    a, b, c, d = (ConnectorName(name) for name in "abcd")
    before = ClusterConfigState(connector_configs={a: {}, b: {}, c: {}}, task_config_generations={c: 1})
    after = replace(before, connector_configs={b: {}, c: {}, d: {}}, task_config_generations={c: 2})
    assert difference(before, after) == "created: d; deleted: a; other tasks: c"
    assert difference(after, after) == "configurations changed"


def test_names_are_few_and_short() -> None:
    assert named([]) == ""
    assert named(range(5)) == "0, 1, 2, 3, 4"
    assert named(range(5000)) == "0, 1, 2, 3, 4 and 4995 more"
    assert len(named(["n" * 100_000])) < 200


def joined(generation: int, assigned: Allocation, leader: str = "me") -> Joined:
    return Joined(Membership(generation, "me", Protocol.SESSIONED, Assignment(leader, "http://me/", 1, assigned)))


def test_a_rebalance_is_one_line_if_it_changes_something_for_this_worker() -> None:
    state = loaded({C: BEFORE})
    seen = []
    for generation, (items, leader) in enumerate([((C, T), "me"), ((), "me"), ((), "other"), ((), "other")]):
        state, found = lines(state, joined(generation, Allocation.of(items), leader))
        seen.append([log.message.partition(" with protocol sessioned as ")[2] for log in found])
    assert seen == [
        ["leader: assigned 1 connector and 1 task (c, c-0), revoked nothing, now running 1 connector and 1 task"], [],
        ["follower: assigned nothing, revoked nothing, now running 1 connector and 1 task"], []]


@pytest.mark.parametrize(("then", "told"), [
    ({"1": "a:1"}, "; workers left: b:2, c:3"),
    ({"1": "a:1", "2": "b:2", "3": "c:3", "4": "d:4"}, "; workers joined: d:4"),
    ({"1": "a:1", "2": "b:2", "4": "d:4"}, "; workers joined: d:4; workers left: c:3"),
    ({"1": "a:1", "2": "b:2", "3": "c:3"}, None),
    ({"1": "a:1", "2": "b:2", "3": "c:3", "4": "c:3"}, "; workers joined: c:3"),  # killed, and started again at once
])
def test_a_leader_logs_which_workers_joined_and_left(then: Mapping[str, str], told: str | None) -> None:
    def led(workers: Mapping[str, str], generation: int) -> Joined:
        by_id = tuple((id_, f"http://{address}/") for id_, address in workers.items())
        return Joined(replace(joined(generation, Allocation()).membership, workers=by_id))

    state, [first] = lines(loaded({C: BEFORE}), led({"1": "a:1", "2": "b:2", "3": "c:3"}, 1))
    assert first.message.endswith(" as leader: assigned nothing, revoked nothing, now running nothing; "
                                  "workers: a:1, b:2, c:3")
    _, later = lines(state, led(then, 2))
    assert [log.message.partition(", now running nothing")[2] for log in later] == ([] if told is None else [told])


def test_the_end_of_a_session_whose_worker_has_a_new_one_is_not_logged() -> None:
    """A worker that was killed and started again is a member twice until its old session expires."""
    def led(generation: int, *ids: str) -> Joined:
        return Joined(replace(joined(generation, Allocation()).membership,
                              workers=tuple((id_, "http://a:1/") for id_ in ids)))

    state, _ = lines(loaded({C: BEFORE}), led(1, "1", "2"))
    assert lines(state, led(2, "2"))[1] == []
