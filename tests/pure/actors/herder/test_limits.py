"""How many tasks a connector may have, and for how many a group has room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.assignment.protocol import Assignment, Membership, Protocol
from actors.assignment.record_size import needed_bytes
from actors.herder.limits import room_refusal
from actors.herder.standing import Resolved, member_of
from actors.herder.state import HerderSettings, HerderState
from spark_tasks.limits import MAX_TASKS
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, WorkerId

C = ConnectorName("c")
HALF = MAX_TASKS // 2


def having(tasks: int) -> HerderState:
    config = ClusterConfigState(connector_configs={C: {}}, task_counts={C: tasks})
    return HerderState(HerderSettings(WorkerId("me"), "g"), store=config, config=config)


@pytest.mark.parametrize(("now", "more"), [(0, MAX_TASKS), (HALF, HALF), (MAX_TASKS, 0), (MAX_TASKS, -1)])
def test_the_limit_applies_to_all_tasks_of_a_connector(now: int, more: int) -> None:
    """More would be written, and then ignored by all who read the config topic."""
    assert room_refusal(having(now), C, more) is None
    refused = room_refusal(having(now), C, MAX_TASKS - now + 1)
    assert str(refused) == f"Connector 'c' has {MAX_TASKS + 1} tasks; the limit is {MAX_TASKS}"


def test_there_has_to_be_room_for_what_is_added_and_for_a_deletion() -> None:
    needed = needed_bytes(C, 3, 1)
    largest = needed_bytes(C, 1 + 5, 1)

    def with_room(room: int) -> HerderState:
        membership = replace(Membership(7, "me", Protocol.SESSIONED, Assignment("me", "http://me/", 1)), room=room)
        return replace(having(5), standing=Resolved(member_of(membership, 1)))

    assert room_refusal(with_room(needed + largest), C, 3) is None
    assert f"Connector 'c' needs {needed} more bytes, but only {needed - 1} are free" in str(
        room_refusal(with_room(needed + largest - 1), C, 3))
    assert room_refusal(with_room(0), C, 0) is None
