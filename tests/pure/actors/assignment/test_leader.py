"""A leader's rebalance over bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.assignment.codec import decode_assignment, encode_metadata
from actors.assignment.cooperative import AssignorState
from actors.assignment.leader import plan
from actors.assignment.protocol import Allocation, MemberMetadata, Protocol
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorTaskId

CONFIG = ClusterConfigState(offset=5, connector_configs={"a": {}}, task_counts={"a": 2})
TASKS = [ConnectorTaskId("a", 0), ConnectorTaskId("a", 1)]


def run(protocol, members, config=CONFIG, state=AssignorState(), **more):  # noqa: B008 - frozen
    metadata = {
        id_: member if isinstance(member, bytes) else encode_metadata(member, protocol)
        for id_, member in members.items()
    }
    made = plan(
        state, protocol, metadata, config, leader="w1", generation=3, last_completed=-1, now_ms=0, max_delay_ms=1000,
        **more,
    )
    return made, {id_: decode_assignment(data) for id_, data in made.assignments.items()}


@pytest.mark.parametrize("protocol", Protocol)
def test_assignments_are_encoded_and_owners_recorded(protocol):
    made, answers = run(protocol, {"w1": MemberMetadata("http://1/", 5), "w2": MemberMetadata("http://2/", 5)})
    assert all(data[1] == protocol.version for data in made.assignments.values())
    given = [item for answer in answers.values() for item in answer.assigned.items]
    assert sorted(given, key=str) == ["a", *TASKS]
    for item, url in made.owners:
        assert item in answers["w" + url[7]].assigned.items
    assert len(made.owners) == 3
    assert made.workers == (("w1", "http://1/"), ("w2", "http://2/"))
    assert made.generation == 3


def test_owners_after_a_cooperative_rebalance_include_kept_and_assigned_work():
    owned = Allocation(("a", "gone"), (TASKS[0],))
    members = {"w1": MemberMetadata("http://1/", 5, owned), "w2": MemberMetadata("http://2/", 5)}
    made, _ = run(Protocol.SESSIONED, members)
    assert dict(made.owners) == {"a": "http://1/", TASKS[0]: "http://1/", TASKS[1]: "http://2/"}


def test_there_are_no_owners_after_a_failed_rebalance():
    made, answers = run(Protocol.SESSIONED, {"w1": MemberMetadata("http://1/", 6, Allocation(("a",)))})
    assert answers["w1"].failed
    assert made.owners == ()


@pytest.mark.parametrize("protocol", Protocol)
def test_a_member_with_invalid_metadata_gets_nothing_and_the_others_continue(protocol, caplog):
    made, answers = run(protocol, {"w1": MemberMetadata("http://1/", 5), "w2": b"\0\2nonsense"})
    assert answers["w1"].assigned.items == {"a", *TASKS}
    assert not answers["w2"].assigned
    assert not answers["w2"].revoked
    assert not answers["w2"].failed
    assert "w2" in caplog.text
    assert {url for _, url in made.owners} == {"http://1/"}
    assert made.workers == (("w1", "http://1/"),)


def test_an_eager_rebalance_leaves_the_cooperative_state():
    state = AssignorState(generation=2, members=frozenset({"w1"}))
    made, _ = run(Protocol.EAGER, {"w1": MemberMetadata("http://1/", 5)}, state=state)
    assert made.state is state


@pytest.mark.parametrize("protocol", Protocol)
def test_the_group_does_not_wait_for_a_member_with_a_false_claim(protocol, caplog):
    owned = None if protocol is Protocol.EAGER else Allocation(("a",))
    members = {"w1": MemberMetadata("http://1/", 5), "w2": MemberMetadata("http://2/", 2**60, owned)}
    failed, answers = run(protocol, members)
    assert all(answer.failed for answer in answers.values())
    assert failed.ahead == {"w2"}
    _, answers = run(protocol, members, doubted=failed.ahead)
    assert answers["w1"].assigned.items == ({*TASKS} if owned else {"a", *TASKS}), "what it says to run stays there"
    assert not answers["w2"].assigned
    assert not answers["w2"].revoked
    assert "'w2' gets no work: it claims to have read the config topic up to offset" in caplog.text
    third = {**members, "w3": MemberMetadata("http://3/", 6)}
    assert run(protocol, third, doubted=failed.ahead)[1]["w1"].failed, "others are waited for"


def test_names_too_long_for_the_protocol_are_left_out():
    names = {"a": {}, "b" * 32_767: {}, "c" * 32_768: {}, "ü" * 16_384: {}}
    made, answers = run(Protocol.SESSIONED, {"w1": MemberMetadata("http://1/", 5)},
                        ClusterConfigState(offset=5, connector_configs=names, task_counts={"c" * 32_768: 1}))
    assert answers["w1"].assigned.items == {"a", "b" * 32_767}
    assert {item for item, _ in made.left_out} == {"c" * 32_768, ConnectorTaskId("c" * 32_768, 0), "ü" * 16_384}


def test_without_room_for_all_whole_connectors_with_the_longest_names_are_left_out():
    names = ["a", "b" * 3000, "c", "d" * 4000]
    config = ClusterConfigState(offset=5, connector_configs={name: {} for name in names},
                                task_counts=dict.fromkeys(names, 2))
    members = {"w1": MemberMetadata("http://1/", 5)}
    every = {*names, *(task for name in names for task in config.tasks(name))}
    full = 20_000 - run(Protocol.SESSIONED, members, config, record_bytes=20_000)[0].room
    for spared, chosen in ((0, ""), (1, "d"), (4000, "d"), (4100, "db"), (7050, "dbc")):
        made, answers = run(Protocol.SESSIONED, members, config, record_bytes=full - spared)
        left_out = {item for item, _ in made.left_out}
        assert left_out == {item for name in names if name[0] in chosen for item in (name, *config.tasks(name))}
        assert left_out | answers["w1"].assigned.items == every
        assert made.room >= 0
        assert all(f"take {full} bytes" in why and f"at most {full - spared} bytes" in why for _, why in made.left_out)


def test_moves_that_do_not_fit_into_the_record_are_made_in_steps(caplog):
    name = "n" * 1000
    config = ClusterConfigState(offset=5, connector_configs={f"{name}{n}": {} for n in range(8)})
    members = {"w1": MemberMetadata("http://1/", 5, Allocation(tuple(config.connectors()))),
               "w2": MemberMetadata("http://2/", 5, Allocation())}
    made, answers = run(Protocol.SESSIONED, members, config)
    assert (len(answers["w1"].revoked.items), caplog.messages) == (4, [])
    less = made.record_bytes - made.room - 1
    made, answers = run(Protocol.SESSIONED, members, config, record_bytes=less)
    assert len(answers["w1"].revoked.items) == 2
    assert made.room >= 0
    [said] = caplog.messages
    assert said.startswith("Work is moved to other workers in several steps: ")


@given(st.dictionaries(st.text(min_size=1, max_size=60), st.integers(0, 5), min_size=1, max_size=12),
       st.integers(600, 5000), st.integers(1, 4), st.sampled_from(Protocol), st.randoms())
def test_a_rebalance_that_does_not_fit_into_the_record_moves_nothing(counts, limit, workers, protocol, chance):
    config = ClusterConfigState(offset=5, connector_configs={name: {} for name in counts}, task_counts=counts)
    items = [*counts, *(task for name in counts for task in config.tasks(name))]
    owned = [[] for _ in range(workers)]
    for item in items if protocol is not Protocol.EAGER else ():
        if chance.random() < 0.5:
            chance.choice(owned).append(item)
    members = {f"w{n}": MemberMetadata(f"http://{n}/", 5, Allocation.of(mine)) for n, mine in enumerate(owned, 1)}
    made, answers = run(protocol, members, config, record_bytes=limit)
    given_out = [item for answer in answers.values() for item in answer.assigned.items]
    assert made.room >= 0 or not given_out
    if made.room < 0:
        assert not any(answer.revoked for answer in answers.values())
    left_out = {item for item, _ in made.left_out}
    moved = {item for answer in answers.values() for item in answer.revoked.items}
    held = {item for mine in owned for item in mine}
    assert {*given_out, *left_out} | held == set(items)
    assert not left_out & {*given_out, *held, *moved}
