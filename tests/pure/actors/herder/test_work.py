"""Work that is being released: what the group waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.assignment.protocol import Allocation, Assignment, Membership, Protocol
from actors.herder.core import step
from actors.herder.effects import Effect, Log, Reply
from actors.herder.events import Event
from actors.herder.instance import Instance, RestartCause, Stopping
from actors.herder.standing import Follower, Gate, Joining, StoppingItems
from actors.herder.state import HerderSettings, HerderState
from actors.messages.commands import AllowJoin, FlushStatuses, PutStatus
from actors.messages.correlation_ids import Epoch, RequestId
from actors.messages.events import ConnectorStateReported, CoordinatorLost, StatusesFlushed, TaskStateReported
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ConnectorTaskId, State, WorkerId
from storage.status.state import StatusState

A, B = ConnectorName("a"), ConnectorName("b")


class Rig:
    """A follower whose member waits to join until `a` has stopped; `b` keeps running."""

    def __init__(self) -> None:
        store = ClusterConfigState(offset=1, connector_configs={A: {}, B: {}})
        membership = Membership(3, "me", Protocol.SESSIONED, Assignment("leader", "http://leader/", 1))
        self.state = HerderState(
            HerderSettings(WorkerId("me:1"), "g"), standing=Joining(Follower(membership), Gate.WAITING), store=store,
            config=store, release=StoppingItems(frozenset({A})), counter=10,
            instances={A: Instance(Epoch(1), State.RUNNING, stopping=Stopping()), B: Instance(Epoch(2), State.RUNNING)})

    def happens(self, payload: Any) -> list[Effect]:
        self.state, effects = step(self.state, Event(payload, 1, StatusState(), "test"))
        return [effect for effect in effects if isinstance(effect, PutStatus | FlushStatuses | AllowJoin)]

    def stopped(self, connector: ConnectorName, epoch: int) -> list[Effect]:
        return self.happens(ConnectorStateReported(connector, Epoch(epoch), State.UNASSIGNED, stopped_for_good=True))


def test_statuses_of_work_that_stops_during_a_flush_are_flushed_too() -> None:
    """Otherwise a late UNASSIGNED could overwrite the status that the new owner writes after the join."""
    rig = Rig()
    _, first = rig.stopped(A, 1)
    assert isinstance(first, FlushStatuses)
    assert rig.happens(CoordinatorLost("no broker")) == []
    put, second = rig.stopped(B, 2)
    assert isinstance(put, PutStatus)
    assert isinstance(second, FlushStatuses)
    assert rig.happens(StatusesFlushed(first.op)) == []
    assert [type(effect) for effect in rig.happens(StatusesFlushed(second.op))] == [AllowJoin]


@pytest.mark.parametrize(("report", "error"), [
    (TaskStateReported(ConnectorTaskId(A, 0), Epoch(3), State.FAILED, "no such file", created=True), None),
    (TaskStateReported(ConnectorTaskId(A, 0), Epoch(3), State.FAILED, "no such class"), "Failed to start task: a-0"),
    (ConnectorStateReported(A, Epoch(3), State.FAILED, "no such host"), "Failed to start connector: a"),
])
def test_a_request_to_restart_a_task_succeeds_once_the_task_exists(report: Any, error: str | None) -> None:
    """As in Kafka Connect: the failure of its start is only in its status."""
    item = report.task if isinstance(report, TaskStateReported) else report.connector
    rig, asked = Rig(), RequestId(7)
    rig.state = replace(rig.state, instances={item: Instance(Epoch(3), waiting=(asked,))})
    _, effects = step(rig.state, Event(report, 1, StatusState(), "test"))
    [reply] = [effect for effect in effects if isinstance(effect, Reply)]
    assert (reply.request_id, None if reply.error is None else str(reply.error)) == (asked, error)


@pytest.mark.parametrize("failure", [
    ConnectorStateReported(A, Epoch(3), State.FAILED, "its former start() has failed"),
    TaskStateReported(ConnectorTaskId(A, 0), Epoch(3), State.FAILED, "its runner could not be created"),
])
def test_a_restart_request_waits_for_the_new_instance(failure: Any) -> None:
    """The one that it replaces may fail while it stops."""
    item = failure.task if isinstance(failure, TaskStateReported) else failure.connector
    rig, asked = Rig(), RequestId(7)
    mine = Allocation((A,), (ConnectorTaskId(A, 0),))
    store = replace(rig.state.store, task_configs={ConnectorTaskId(A, 0): {}}, task_counts={A: 1})
    instance = Instance(Epoch(3), stopping=Stopping(RestartCause.REQUESTED), waiting=(asked,))
    rig.state = replace(rig.state, allocation=mine, instances={item: instance}, store=store, config=store)
    replies: list[Reply] = []
    for report in (failure, replace(failure, state=State.UNASSIGNED, stopped_for_good=True),
                   replace(failure, state=State.RUNNING, trace=None)):
        assert replies == []
        now = replace(report, epoch=rig.state.instances[item].epoch)
        rig.state, effects = step(rig.state, Event(now, 1, StatusState(), "test"))
        replies = [effect for effect in effects if isinstance(effect, Reply)]
    assert [(reply.request_id, reply.error) for reply in replies] == [(asked, None)]


@pytest.mark.parametrize(("restarted", "before", "after", "line"), [
    (RestartCause.NONE, None, State.RUNNING, "Task started"),
    (RestartCause.NONE, None, State.PAUSED, "Task assigned to this worker, and paused"),
    (RestartCause.NONE, State.RUNNING, State.PAUSED, "Task paused"),
    (RestartCause.NONE, State.PAUSED, State.RUNNING, "Task resumed"),
    (RestartCause.RESTART, None, State.RUNNING, "Task restarted on request"),
    (RestartCause.RESTART, None, State.FAILED, "Task restarted on request (FAILED)"),
    (RestartCause.NONE, None, State.FAILED, None),  # its actor has logged the error
    (RestartCause.RESTART, State.RUNNING, State.FAILED, None),
    (RestartCause.RESTART, State.RUNNING, State.RUNNING, None),
])
def test_what_becomes_of_an_instance_is_at_most_one_line(
    restarted: RestartCause, before: State | None, after: State, line: str | None
) -> None:
    task = ConnectorTaskId(A, 0)
    store = ClusterConfigState(offset=1, connector_configs={A: {}})
    state = HerderState(HerderSettings(WorkerId("me:1"), "g"), standing=Joining(), store=store, config=store,
                        instances={task: Instance(Epoch(1), before, restarted=restarted)})
    _, effects = step(state, Event(TaskStateReported(task, Epoch(1), after), 1, StatusState(), "test"))
    assert [e.message for e in effects if isinstance(e, Log) and e.level == "INFO"] == ([line] if line else [])
