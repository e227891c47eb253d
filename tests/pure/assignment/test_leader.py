"""A leader's round over bytes."""

import pytest

from actors.assignment.codec import decode_assignment, encode_metadata
from actors.assignment.cooperative import AssignorState
from actors.assignment.leader import plan
from actors.assignment.protocol import Allocation, MemberMetadata, Protocol
from storage.config_state import ClusterConfigState
from storage.ids import ConnectorTaskId

CONFIG = ClusterConfigState(offset=5, connector_configs={"a": {}}, task_counts={"a": 2})
TASKS = [ConnectorTaskId("a", 0), ConnectorTaskId("a", 1)]


def run(protocol, members, config=CONFIG, state=AssignorState()):  # noqa: B008 - frozen
    metadata = {
        id_: member if isinstance(member, bytes) else encode_metadata(member, protocol)
        for id_, member in members.items()
    }
    made = plan(
        state, protocol, metadata, config, leader="w1", generation=3, last_completed=-1, now_ms=0, max_delay_ms=1000
    )
    return made, {id_: decode_assignment(data) for id_, data in made.assignments.items()}


@pytest.mark.parametrize("protocol", Protocol)
def test_bytes_and_owners(protocol):
    made, answers = run(protocol, {"w1": MemberMetadata("http://1/", 5), "w2": MemberMetadata("http://2/", 5)})
    assert all(data[1] == protocol.version for data in made.assignments.values())
    given = [item for answer in answers.values() for item in answer.assigned.items]
    assert sorted(given, key=str) == ["a", *TASKS]
    for item, url in made.owners:
        assert item in answers["w" + url[7]].assigned.items
    assert len(made.owners) == 3
    assert made.generation == 3


def test_owners_after_a_cooperative_round_are_those_who_keep_and_those_who_get():
    owned = Allocation(("a", "gone"), (TASKS[0],))
    members = {"w1": MemberMetadata("http://1/", 5, owned), "w2": MemberMetadata("http://2/", 5)}
    made, _ = run(Protocol.SESSIONED, members)
    assert dict(made.owners) == {"a": "http://1/", TASKS[0]: "http://1/", TASKS[1]: "http://2/"}


def test_nobody_owns_anything_after_a_failed_round():
    made, answers = run(Protocol.SESSIONED, {"w1": MemberMetadata("http://1/", 6, Allocation(("a",)))})
    assert answers["w1"].failed
    assert made.owners == ()


@pytest.mark.parametrize("protocol", Protocol)
def test_a_member_that_cannot_be_read_gets_nothing_and_the_others_go_on(protocol, caplog):
    made, answers = run(protocol, {"w1": MemberMetadata("http://1/", 5), "w2": b"\0\2nonsense"})
    assert answers["w1"].assigned.items == {"a", *TASKS}
    assert not answers["w2"].assigned
    assert not answers["w2"].revoked
    assert not answers["w2"].failed
    assert "w2" in caplog.text
    assert {url for _, url in made.owners} == {"http://1/"}


def test_an_eager_round_leaves_the_cooperative_state():
    state = AssignorState(generation=2, members=frozenset({"w1"}))
    made, _ = run(Protocol.EAGER, {"w1": MemberMetadata("http://1/", 5)}, state=state)
    assert made.state is state
