"""A connector that requests reconfigurations again and again does not accumulate requests."""

from __future__ import annotations

from typing import Any

import pytest

from actors.assignment.protocol import Allocation, Assignment, Membership, Protocol
from actors.herder import core
from actors.herder.effects import AskTaskConfigs
from actors.herder.events import Event
from actors.herder.instance import Instance
from actors.herder.standing import Follower, Resolved
from actors.herder.state import HerderSettings, HerderState
from actors.messages.correlation_ids import Epoch
from actors.messages.events import TaskConfigsGenerated, TaskReconfigurationRequested
from spark_tasks.errors import ConnectError
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, State, WorkerId
from storage.status.state import StatusState

C = ConnectorName("c")
REQUESTED = TaskReconfigurationRequested(C, Epoch(1))


class Rig:
    """A follower that runs a connector."""

    def __init__(self) -> None:
        config = ClusterConfigState(offset=1, connector_configs={C: {}})
        membership = Membership(7, "me", Protocol.SESSIONED, Assignment("other", "http://other/", 1))
        self.state = HerderState(
            HerderSettings(WorkerId("me:1"), "g"), Resolved(Follower(membership)), store=config, config=config,
            allocation=Allocation((C,)), instances={C: Instance(Epoch(1), State.RUNNING)}, counter=1)
        self.now = 0

    def happens(self, payload: Any) -> list[AskTaskConfigs]:
        self.now += 1
        self.state, effects = core.step(self.state, Event(payload, self.now, StatusState(), "test"))
        return [effect for effect in effects if isinstance(effect, AskTaskConfigs)]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_requests_that_fail_are_retried_as_one(rig: Rig) -> None:
    for _ in range(100):
        for ask in rig.happens(REQUESTED):
            rig.happens(TaskConfigsGenerated(C, Epoch(1), ask.op, (), ConnectError("the database is away")))
    assert len(rig.state.queue) == 1


def test_a_connector_that_answers_slowly_is_asked_once_more(rig: Rig) -> None:
    """The second request has not begun, so its answer includes what all later ones are about."""
    first, second = [ask for _ in range(100) for ask in rig.happens(REQUESTED)]
    rig.happens(TaskConfigsGenerated(C, Epoch(1), first.op, ()))
    assert len(rig.happens(REQUESTED)) == 1
    rig.happens(TaskConfigsGenerated(C, Epoch(1), second.op, ()))
    assert not rig.state.queue
