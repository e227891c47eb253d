"""Work that is being released: what the group waits for."""

from __future__ import annotations

from typing import Any

from actors.assignment.protocol import Assignment, Membership, Protocol
from actors.herder.core import step
from actors.herder.effects import Effect
from actors.herder.events import Event
from actors.herder.standing import Follower, Gate, Joining, StoppingItems
from actors.herder.state import HerderSettings, HerderState, Slot, Stopping
from actors.messages.commands import AllowJoin, FlushStatuses, PutStatus
from actors.messages.events import ConnectorStateReported, CoordinatorLost, StatusesFlushed
from actors.messages.ids import Epoch
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, State, WorkerId
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
            slots={A: Slot(Epoch(1), State.RUNNING, stopping=Stopping()), B: Slot(Epoch(2), State.RUNNING)})

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
