"""What only a leader does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.assignment.protocol import Assignment, Membership, Protocol
from actors.herder.continuations import KeyWritten, PrivilegesClaimed
from actors.herder.effects import ForgetTopics, MakeSessionKey, SetTimer, Timer
from actors.herder.events import TimerFired
from actors.herder.leadership import on_claimed, on_key_due, on_key_written, purge_statuses
from actors.herder.standing import Resolved, member_of
from actors.herder.state import HerderSettings, HerderState
from actors.herder.turn import Turn
from spark_tasks.errors import ConnectError
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


@pytest.fixture
def leading() -> HerderState:
    membership = Membership(7, "me", Protocol.SESSIONED, Assignment("me", "http://me/", 1))
    return HerderState(HerderSettings(WorkerId("me"), "g"), Resolved(member_of(membership, None)))


@pytest.mark.parametrize(("attempt", "timer", "pauses"), [
    (lambda turn, error: on_claimed(turn, PrivilegesClaimed(), error), Timer.CLAIM,
     [250, 500, 1000, 2000, 4000, 8000, 8000]),
    (lambda turn, error: on_key_written(turn, KeyWritten(), error), Timer.SESSION_KEY, [1000, 2000, 4000, 8000, 8000]),
])
def test_what_a_leader_may_not_do_is_tried_less_and_less_often(
    leading: HerderState, attempt: Callable[[Turn, Exception | None], None], timer: Timer, pauses: list[int]
) -> None:
    """Without a permission, each attempt is a line in the log."""
    state, found = leading, []
    for _ in pauses:
        turn = Turn(state, 10, StatusState())
        attempt(turn, ConnectError("no permission"))
        [at_ms] = [effect.at_ms for effect in turn.effects if isinstance(effect, SetTimer) and effect.key[0] == timer]
        found.append(at_ms - 10)
        state = turn.state
    assert found == pauses
    turn = Turn(state, 10, StatusState())
    attempt(turn, None)
    assert turn.state.failed_claims == turn.state.failed_keys == 0


def test_no_session_key_is_made_while_claims_fail(leading: HerderState) -> None:
    """Its write would be refused, with a line in the log that says nothing new."""
    turn = Turn(leading, 10, StatusState())
    on_claimed(turn, PrivilegesClaimed(), ConnectError("no permission"))
    on_key_due(turn, TimerFired((Timer.SESSION_KEY, "")))
    assert not any(isinstance(effect, MakeSessionKey) for effect in turn.effects)
    on_claimed(turn, PrivilegesClaimed(), None)
    on_key_due(turn, TimerFired((Timer.SESSION_KEY, "")))
    assert any(isinstance(effect, MakeSessionKey) for effect in turn.effects)
