"""The cooperative assignor, rule by rule; the histories are in tests/property/test_assignment_cooperative.py."""

from dataclasses import replace

import pytest

from actors.assignment.cooperative import AssignorState, assign
from actors.assignment.protocol import Allocation, AssignmentError, MemberMetadata
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorTaskId


def config(offset=5, inconsistent=(), **tasks):
    return ClusterConfigState(
        offset=offset,
        connector_configs={name: {} for name in tasks},
        task_counts=tasks,
        inconsistent=frozenset(inconsistent),
    )


def own(*items):
    """own("a", "a-0") is the connector a and its task 0."""
    return Allocation.of(
        ConnectorTaskId(item.split("-")[0], int(item.split("-")[1])) if "-" in item else item for item in items
    )


class Leader:
    """An assignor with its memory; every rebalance completes unless told otherwise."""

    def __init__(self, max_delay_ms=1000):
        self.state = AssignorState()
        self.generation = 0
        self.completed = -1
        self.max_delay_ms = max_delay_ms

    def rebalance(self, config_, now_ms=0, offsets=None, completes=True, urls=None, idle=(), **owned):
        self.generation += 1
        members = {
            id_: MemberMetadata(f"http://{(urls or {}).get(id_, id_)}/", (offsets or {}).get(id_, 5), allocation)
            for id_, allocation in owned.items()
        }
        self.state, answers = assign(
            self.state,
            members,
            config_,
            leader=min(members),
            generation=self.generation,
            last_completed=self.completed,
            now_ms=now_ms,
            max_delay_ms=self.max_delay_ms,
            idle=idle,
        )
        if completes:
            self.completed = self.generation
        return answers


def given(answers):
    return {id_: answer.assigned for id_, answer in answers.items() if answer.assigned}


def taken(answers):
    return {id_: answer.revoked for id_, answer in answers.items() if answer.revoked}


def delays(answers):
    return {answer.delay_ms for answer in answers.values()}


def test_a_single_worker_gets_all_work_and_the_leaders_data():
    answer = Leader().rebalance(config(offset=7, a=2), w1=None)["w1"]
    assert answer.assigned == own("a", "a-0", "a-1")
    assert (answer.leader, answer.leader_url, answer.config_offset) == ("w1", "http://w1/", 7)
    assert not answer.revoked
    assert answer.error is AssignmentError.NONE


def test_connectors_and_tasks_are_balanced_separately():
    answers = Leader().rebalance(config(a=1, b=1, c=1, d=1), w1=None, w2=None)
    assert [(len(a.assigned.connectors), len(a.assigned.tasks)) for a in answers.values()] == [(2, 2), (2, 2)]


def test_tasks_of_an_inconsistent_connector_stop():
    leader = Leader()
    leader.rebalance(config(a=2), w1=None)
    answers = leader.rebalance(config(a=2, inconsistent=["a"]), w1=own("a", "a-0", "a-1"))
    assert taken(answers) == {"w1": own("a-0", "a-1")}


def test_a_second_worker_gets_its_share_in_the_rebalance_after_the_revocation():
    leader = Leader()
    leader.rebalance(config(a=2, b=2), w1=None)
    answers = leader.rebalance(config(a=2, b=2), w1=own("a", "b", "a-0", "a-1", "b-0", "b-1"), w2=None)
    assert taken(answers) == {"w1": own("b", "b-0", "b-1")}
    assert given(answers) == {}
    answers = leader.rebalance(config(a=2, b=2), w1=own("a", "a-0", "a-1"), w2=own())
    assert given(answers) == {"w2": own("b", "b-0", "b-1")}
    assert taken(answers) == {}


def test_deleted_work_is_revoked_also_by_a_leader_that_never_assigned_it():
    assert taken(Leader().rebalance(config(a=0), w1=own("a", "b", "b-0"))) == {"w1": own("b", "b-0")}


def test_work_that_runs_twice_stops_everywhere_and_is_then_assigned_once():
    leader = Leader()
    answers = leader.rebalance(config(a=1), w1=own("a", "a-0"), w2=own("a-0"))
    assert taken(answers) == {"w1": own("a-0"), "w2": own("a-0")}
    assert given(answers) == {}
    assert given(leader.rebalance(config(a=1), w1=own("a"), w2=own())) == {"w1": own("a-0")}


@pytest.fixture
def crashed():
    """w1 has a, a-0; w2 had b, a-1 and is gone since the rebalance at 1000 ms; the delay is 1000 ms."""
    leader = Leader()
    leader.rebalance(config(a=2, b=0), w1=None, w2=None)
    answers = leader.rebalance(config(a=2, b=0), now_ms=1000, w1=own("a", "a-0"))
    assert given(answers) == {}
    assert delays(answers) == {1000}
    return leader


def test_lost_work_waits_for_the_rest_of_the_delay(crashed):
    answers = crashed.rebalance(config(a=2, b=0), now_ms=1400, w1=own("a", "a-0"))
    assert delays(answers) == {600}
    assert given(answers) == {}


def test_work_of_a_member_that_gets_nothing_new_is_lost_when_it_leaves():
    leader = Leader()
    answers = leader.rebalance(config(a=0, b=0), w1=own("a"), w2=own("b"), idle=["w2"])
    assert (given(answers), taken(answers)) == ({}, {})
    answers = leader.rebalance(config(a=0, b=0), w1=own("a"))
    assert (given(answers), delays(answers)) == ({}, {1000})


def test_new_work_does_not_wait_for_lost_work(crashed):
    answers = crashed.rebalance(config(a=2, b=0, c=1), now_ms=1400, w1=own("a", "a-0"))
    assert given(answers) == {"w1": own("c", "c-0")}
    assert delays(answers) == {600}


def test_lost_work_is_assigned_to_the_other_members_if_no_worker_returns(crashed):
    answers = crashed.rebalance(config(a=2, b=0), now_ms=2000, w1=own("a", "a-0"))
    assert given(answers) == {"w1": own("b", "a-1")}
    assert delays(answers) == {0}


def test_lost_work_is_assigned_to_the_returning_worker(crashed):
    crashed.rebalance(config(a=2, b=0), now_ms=1500, w1=own("a", "a-0"), w3=None)
    answers = crashed.rebalance(config(a=2, b=0), now_ms=2000, w1=own("a", "a-0"), w3=own())
    assert given(answers) == {"w3": own("b", "a-1")}


BACK = {"w3": "w2"}  # a new member at the address of the one that is gone


def test_a_worker_that_returns_to_its_address_does_not_wait_for_its_work(crashed):
    answers = crashed.rebalance(config(a=2, b=0), now_ms=1500, urls=BACK, w1=own("a", "a-0"), w3=own())
    assert given(answers) == {"w3": own("b", "a-1")}
    assert delays(answers) == {0}


def test_a_worker_that_is_back_does_not_end_the_delay_of_another_one():
    leader = Leader()
    leader.rebalance(config(a=3, b=0, c=0), w1=None, w2=None, w4=None)
    leader.rebalance(config(a=3, b=0, c=0), now_ms=1000, w1=own("a", "a-0"))
    answers = leader.rebalance(config(a=3, b=0, c=0), now_ms=1500, urls=BACK, w1=own("a", "a-0"), w3=own())
    assert given(answers) == {"w3": own("b", "a-1")}
    assert delays(answers) == {500}
    answers = leader.rebalance(config(a=3, b=0, c=0), now_ms=2000, urls=BACK, w1=own("a", "a-0"), w3=own("b", "a-1"))
    assert set().union(*(answer.assigned.items for answer in answers.values())) == own("c", "a-2").items
    assert delays(answers) == {0}


@pytest.fixture
def half():
    """A leader whose other member, w2, had a-1 and a-3 and is gone; the rest of its delay is 1000 ms."""
    leader = Leader()
    assert given(leader.rebalance(config(a=4), w1=None, w2=None))["w2"] == own("a-1", "a-3")
    leader.rebalance(config(a=4), now_ms=1000, w1=own("a", "a-0", "a-2"))
    return leader


def test_a_worker_that_is_back_leaves_what_exceeds_its_share_to_others(half):
    answers = half.rebalance(config(a=4), now_ms=1500, urls={"w5": "w2"}, w1=own("a", "a-0", "a-2"), w3=None, w5=None)
    assert given(answers) == {"w5": own("a-1"), "w3": own("a-3")}


def test_lost_work_goes_first_to_workers_that_joined_during_the_delay(half):
    half.rebalance(config(a=4), now_ms=1500, w1=own("a", "a-0", "a-2"), w5=None)
    answers = half.rebalance(config(a=4), now_ms=2000, w1=own("a", "a-0", "a-2"), w3=None, w5=own())
    assert given(answers) == {"w5": own("a-1"), "w3": own("a-3")}


def test_a_worker_that_is_back_gets_what_it_had(crashed):
    answers = crashed.rebalance(config(a=2, b=0, c=0, d=0, e=1), now_ms=1400, w1=own("a", "a-0"))
    mine = own("a", "a-0").plus(answers["w1"].assigned)
    answers = crashed.rebalance(config(a=2, b=0, c=0, d=0, e=1), now_ms=1500, urls=BACK, w1=mine, w3=own())
    assert given(answers) == {"w3": own("b", "a-1")}
    assert [len(a.revoked.connectors) for a in answers.values()] == [1, 0]


def test_work_is_not_reassigned_while_its_owner_is_a_member(crashed):
    answers = crashed.rebalance(config(a=2, b=0), now_ms=1500, urls=BACK, w1=own("a", "a-0"), w2=own(), w3=own())
    assert given(answers) == {}


def test_a_current_members_address_is_no_claim_to_lost_work(crashed):
    answers = crashed.rebalance(config(a=2, b=0), now_ms=1500, urls={"w1": "w2"}, w1=own("a", "a-0"))
    assert given(answers) == {}


def test_an_outdated_claim_does_not_stop_work_elsewhere():
    leader = Leader()
    leader.rebalance(config(a=1), w1=None)
    answers = leader.rebalance(config(a=1), w1=own("a", "a-0"), w2=own("a", "a-0"))
    assert taken(answers) == {"w2": own("a", "a-0")}
    # The second one has not heard of that.
    assert taken(leader.rebalance(config(a=1), w1=own("a", "a-0"), w2=own("a"))) == {"w2": own("a")}


def test_the_delay_ends_when_the_lost_work_is_back(crashed):
    answers = crashed.rebalance(config(a=2, b=0), now_ms=1500, w1=own("a", "a-0"), w3=own("b", "a-1"))
    assert delays(answers) == {0}
    assert given(answers) == taken(answers) == {}


def test_the_delay_ends_when_the_lost_work_is_deleted(crashed):
    assert delays(crashed.rebalance(config(a=1), now_ms=1500, w1=own("a", "a-0"))) == {0}


def test_nothing_is_balanced_while_a_delay_runs(crashed):
    answers = crashed.rebalance(config(a=2, b=0, c=8), now_ms=1400, w1=own("a", "a-0"))
    mine = own("a", "a-0").plus(answers["w1"].assigned)
    answers = crashed.rebalance(config(a=2, b=0, c=8), now_ms=1500, w1=mine, w2=None)
    assert taken(answers) == {}


def test_without_a_delay_lost_work_is_reassigned_at_once():
    leader = Leader(max_delay_ms=0)
    leader.rebalance(config(a=2, b=0), w1=None, w2=None)
    answers = leader.rebalance(config(a=2, b=0), w1=own("a", "a-0"))
    assert given(answers) == {"w1": own("b", "a-1")}
    assert delays(answers) == {0}


def test_work_that_did_not_arrive_is_reassigned_at_once_if_no_member_left():
    leader = Leader()
    leader.rebalance(config(a=2), w1=None, w2=None)
    answers = leader.rebalance(config(a=2), w1=own("a", "a-0"), w2=own())
    assert given(answers) == {"w2": own("a-1")}
    assert delays(answers) == {0}


def test_undelivered_work_does_not_wait_for_work_that_others_lost(crashed):
    answers = crashed.rebalance(config(a=2, b=0, c=1), now_ms=1400, w1=own("a", "a-0"), w3=own())
    assert given(answers) == {"w3": own("c", "c-0")}
    answers = crashed.rebalance(config(a=2, b=0, c=1), now_ms=1500, w1=own("a", "a-0"), w3=own())
    assert given(answers) == {"w3": own("c", "c-0")}
    assert delays(answers) == {500}, "for b and a-1, which w2 lost"


def test_the_memory_of_an_unfinished_rebalance_is_ignored():
    leader = Leader()
    leader.rebalance(config(a=2), w1=None, w2=None, completes=False)
    answers = leader.rebalance(config(a=2), w1=None)
    assert given(answers) == {"w1": own("a", "a-0", "a-1")}
    assert delays(answers) == {0}


def test_the_delay_of_successive_rebalances_grows():
    leader = Leader(max_delay_ms=10_000)
    work = config(a=8)
    all_ = own(*(f"a-{n}" for n in range(8)))
    leader.rebalance(work, w1=None)
    assert taken(leader.rebalance(work, w1=all_, w2=None))
    # The member did not follow (or another one came): the rebalance after wants to move work again.
    answers = leader.rebalance(work, now_ms=100, w1=all_, w2=own())
    assert taken(answers) == {}
    assert delays(answers) == {40}
    assert delays(leader.rebalance(work, now_ms=110, w1=all_, w2=own())) == {30}
    assert taken(leader.rebalance(work, now_ms=140, w1=all_, w2=own()))
    assert delays(leader.rebalance(work, now_ms=141, w1=all_, w2=own())) == {1600}
    assert taken(leader.rebalance(work, now_ms=1741, w1=all_, w2=own()))
    assert delays(leader.rebalance(work, now_ms=1742, w1=all_, w2=own())) == {10_000}


def test_a_rebalance_without_revocations_resets_the_delay():
    leader = Leader(max_delay_ms=10_000)
    work = config(a=4)
    leader.rebalance(work, w1=None)
    assert taken(leader.rebalance(work, w1=own("a-0", "a-1", "a-2", "a-3"), w2=None))
    assert given(leader.rebalance(work, w1=own("a-0", "a-1"), w2=own())) != {}
    assert leader.state == replace(AssignorState(), **{
        key: getattr(leader.state, key) for key in ("generation", "previous", "members")
    })


def test_without_a_delay_successive_rebalances_revoke_at_once():
    leader = Leader(max_delay_ms=0)
    all_ = own("a-0", "a-1")
    leader.rebalance(config(a=2), w1=None)
    for _ in range(3):
        assert taken(leader.rebalance(config(a=2), w1=all_, w2=own()))


def test_a_leader_that_is_behind_assigns_nothing_and_forgets_nothing(crashed):
    before = crashed.state
    answers = crashed.rebalance(config(offset=8, a=2, b=0), now_ms=1200, offsets={"w1": 9}, w1=own("a", "a-0"))
    assert answers["w1"].error is AssignmentError.CONFIG_MISMATCH
    assert answers["w1"].config_offset == 9
    assert not answers["w1"].assigned
    assert not answers["w1"].revoked
    assert crashed.state == replace(before, generation=crashed.generation)
    assert delays(crashed.rebalance(config(a=2, b=0), now_ms=1500, w1=own("a", "a-0"))) == {500}
