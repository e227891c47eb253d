"""The eager assignor, for any members and any work that they ran before."""

from hypothesis import given
from hypothesis import strategies as st

from actors.assignment.eager import assign
from actors.assignment.protocol import Allocation, AssignmentError, MemberMetadata
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorTaskId

names = st.text("abcé-. ", min_size=1, max_size=4)
task_counts = st.dictionaries(names, st.integers(0, 12), max_size=12)


@given(st.sets(names, min_size=1, max_size=9), task_counts, st.data())
def test_every_leader_assigns_all_work_once_evenly_and_identically(ids, counts, data):
    config = ClusterConfigState(offset=7, connector_configs={name: {} for name in counts}, task_counts=counts)
    before = Allocation(tuple(counts), tuple(ConnectorTaskId(name, 0) for name in counts))
    members = {
        id_: MemberMetadata(f"http://{id_}/", data.draw(st.integers(-1, 7)), data.draw(st.sampled_from([None, before])))
        for id_ in sorted(ids)
    }
    first = assign(members, config, leader=min(ids))
    other = assign(dict(reversed(members.items())), config, leader=max(ids))
    given_ = {id_: answer.assigned for id_, answer in first.items()}
    assert given_.keys() == ids
    assert given_ == {id_: answer.assigned for id_, answer in other.items()}
    assert sorted(c for one in given_.values() for c in one.connectors) == sorted(counts)
    assert sorted(t for one in given_.values() for t in one.tasks) == \
        sorted(ConnectorTaskId(name, n) for name, count in counts.items() for n in range(count))
    for sizes in ([len(one.connectors) for one in given_.values()], [len(one.tasks) for one in given_.values()],
                  [len(one.items) for one in given_.values()]):
        assert max(sizes) - min(sizes) <= 1
    assert not any(answer.revoked or answer.error or answer.delay_ms for answer in first.values())


@given(st.dictionaries(names, st.integers(0, 9), min_size=1, max_size=9), task_counts, st.integers(0, 9))
def test_no_work_is_assigned_from_a_config_older_than_a_members(offsets, counts, own):
    config = ClusterConfigState(offset=own, connector_configs={name: {} for name in counts}, task_counts=counts)
    members = {id_: MemberMetadata(f"http://{id_}/", offset) for id_, offset in offsets.items()}
    answers = assign(members, config, leader=min(offsets)).values()
    behind = own < max(offsets.values())
    assert {answer.error is AssignmentError.CONFIG_MISMATCH for answer in answers} == {behind}
    assert {answer.config_offset for answer in answers} == {max(own, *offsets.values()) if behind else own}
    assert not (behind and any(answer.assigned for answer in answers))
