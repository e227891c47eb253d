"""Round robin over sorted members."""

from actors.assignment.eager import assign
from actors.assignment.protocol import Allocation, AssignmentError, MemberMetadata
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorTaskId

MEMBERS = {id_: MemberMetadata(f"http://{id_}/", 5) for id_ in ("w2", "w1")}


def test_connectors_and_then_tasks_are_assigned_round_robin():
    config = ClusterConfigState(offset=5, connector_configs={"b": {}, "a": {}, "c": {}}, task_counts={"a": 2, "b": 1})
    answers = assign(MEMBERS, config, leader="w2")
    assert answers["w1"].assigned == Allocation(("a", "c"), (ConnectorTaskId("a", 1),))
    assert answers["w2"].assigned == Allocation(("b",), (ConnectorTaskId("a", 0), ConnectorTaskId("b", 0)))
    assert {(a.leader, a.leader_url, a.config_offset, a.delay_ms) for a in answers.values()} == {
        ("w2", "http://w2/", 5, 0)
    }


def test_tasks_of_an_inconsistent_connector_are_not_given():
    config = ClusterConfigState(
        offset=5, connector_configs={"a": {}}, task_counts={"a": 3}, inconsistent=frozenset({"a"})
    )
    assert assign(MEMBERS, config, leader="w1")["w1"].assigned == Allocation(("a",))


def test_a_leader_that_is_behind_assigns_nothing():
    answers = assign(MEMBERS, ClusterConfigState(offset=4, connector_configs={"a": {}}), leader="w1")
    assert {(a.error, a.config_offset, bool(a.assigned)) for a in answers.values()} == {
        (AssignmentError.CONFIG_MISMATCH, 5, False)
    }
