"""The cooperative assignor in a simulated group: joins, leaves, crashes, config changes, lost answers in any order."""


from hypothesis import given
from hypothesis import strategies as st

from tests.rigs.assignment import DELAYS, Group, check_back_at_once, histories, live, settled, small


@given(histories(), DELAYS)
def test_any_history_ends_with_all_work_assigned_once_and_balanced(history, max_delay_ms):
    live(Group(max_delay_ms), history)


@given(st.integers(1, 6), st.lists(st.integers(0, 9), max_size=6), small)
def test_work_of_a_departed_worker_waits_and_nothing_else_moves(workers, tasks, index):
    group = settled(Group(max_delay_ms=60_000), workers + 1, ((count,) for count in tasks))
    leaver = sorted(group.workers)[1:][index % workers]  # not the leader: a new leader does not know what is lost
    lost = group.workers[leaver].owned
    del group.workers[leaver]
    for _ in range(3):
        answers = group.rebalance()
        assert not any(answer.assigned or answer.revoked for answer in answers.values())
        assert (group.delay_ms > 0) == bool(lost)
        group.now_ms += 10_000
    others_idle = not all(worker.owned for worker in group.workers.values())
    group.join()  # the worker comes back under a new id, without work
    back = max(group.workers)
    assert not group.rebalance()[back].assigned
    group.now_ms += group.delay_ms
    group.settle()
    group.check_settled()
    assert group.workers[back].owned == lost or others_idle or not lost


@given(st.integers(1, 6), st.lists(st.integers(0, 9), max_size=6), small, st.booleans())
def test_a_returning_worker_gets_its_work_at_once(workers, tasks, index, claims):
    group = settled(Group(max_delay_ms=300_000), workers + 1, ((count,) for count in tasks))
    check_back_at_once(group, index, claims)


@given(st.integers(1, 8), st.lists(st.integers(0, 9), max_size=8))
def test_a_new_worker_gets_its_share_within_two_rebalances(workers, tasks):
    group = settled(Group(max_delay_ms=60_000), workers, ((count,) for count in tasks))
    group.join()
    group.rebalance()
    assert group.delay_ms == 0
    group.rebalance()
    group.check_settled()
