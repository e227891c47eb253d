"""What only a leader does."""

from __future__ import annotations

import pytest

from actors.assignment.protocol import Assignment, Membership, Protocol
from actors.herder.effects import ForgetTopics, MakeSessionKey, Timer
from actors.herder.events import TimerFired
from actors.herder.leadership import on_key_due, purge_statuses
from actors.herder.standing import Resolved, member_of
from actors.herder.state import HerderSettings, HerderState
from actors.herder.turn import Turn
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, TopicName, WorkerId
from storage.status.state import StatusState, TopicStatus

GONE, THERE = ConnectorName("gone"), ConnectorName("there")


def test_topics_reported_after_a_connector_was_deleted_are_dropped() -> None:
    topic = TopicName("t")
    state = HerderState(HerderSettings(WorkerId("me"), "g"), store=ClusterConfigState(connector_configs={THERE: {}}))
    topics = {name: {topic: TopicStatus(topic, name, 0, 1)} for name in (GONE, THERE)}
    turn = Turn(state, 1, StatusState(topics=topics))
    purge_statuses(turn)
    assert turn.effects == [ForgetTopics(GONE)]


@pytest.mark.parametrize(("leader", "makes"), [("me", 1), ("other", 0)])
def test_a_former_leader_makes_no_session_key(leader: str, makes: int) -> None:
    """The timer for the next one was set while it led."""
    membership = Membership(7, "me", Protocol.SESSIONED, Assignment(leader, f"http://{leader}/", 1))
    turn = Turn(HerderState(HerderSettings(WorkerId("me"), "g"), Resolved(member_of(membership, 1))), 1, StatusState())
    on_key_due(turn, TimerFired((Timer.SESSION_KEY, "")))
    assert sum(isinstance(effect, MakeSessionKey) for effect in turn.effects) == makes
