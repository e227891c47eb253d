"""What a leader cleans up."""

from __future__ import annotations

from actors.herder.effects import ForgetTopics
from actors.herder.leadership import purge_statuses
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
