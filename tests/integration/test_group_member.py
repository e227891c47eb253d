"""Members in a real Kafka group: joining, sharing, leaving, crashing, and the herder's part in it."""

import threading
import time

import pytest
from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove
from kafka.future import Future

from actors.assignment.protocol import AssignmentError, Protocol
from actors.messages.commands import AllowJoin, HerderAlive, RequestRejoin
from actors.messages.events import CoordinatorLost, JoinPreparing
from heeler.embedded_kafka.ports import free_port
from storage.config.state import ClusterConfigState
from tests.rigs.group_herder import CONFIG, EVERYTHING, FakeHerder, GarbageCoordinator, settled
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def worker(broker, topic_name):
    """Makes workers of this test's own group and stops them in the end."""
    made = []

    def make(name, **settings):
        made.append(FakeHerder(broker.bootstrap_servers, topic_name, name, **settings))
        return made[-1]

    yield make
    for herder in made:
        if herder.member.is_alive():
            herder.member.stop()


@pytest.fixture
def pair(worker):
    """Two settled workers; the first one leads."""
    one = worker("w1").join()
    one.joined(30)
    two = worker("w2").join()
    wait_until(lambda: settled(one, two), what="two settled workers")
    one.forget()
    two.forget()
    return one, two


def test_a_single_member_leads_and_owns_all_work(worker):
    one = worker("w1").join()
    assert one.next(JoinPreparing, 30).eager is False
    membership = one.joined()
    assert membership.is_leader
    assert membership.protocol is Protocol.SESSIONED
    assert membership.member_id.startswith("w1-")
    assert membership.assignment.assigned.items == EVERYTHING
    assert membership.assignment.config_offset == 7
    assert dict(membership.owners) == dict.fromkeys(EVERYTHING, "http://w1:8083/")


@pytest.mark.parametrize("protocol", Protocol)
def test_two_members_share_the_work_evenly(worker, protocol):
    one, two = (worker(name, protocol=protocol).join() for name in ("w1", "w2"))
    wait_until(lambda: settled(one, two), 30, "an even share")
    for herder in (one, two):
        assert herder.membership.protocol is protocol
    leader = one if one.membership.is_leader else two
    assert leader.membership.assignment.leader_url == leader.settings.url
    assert dict(leader.membership.owners) == {
        item: herder.settings.url for herder in (one, two) for item in herder.owned.items
    }


def test_the_group_is_eager_while_it_has_an_eager_member(worker):
    one = worker("w1").join()
    assert one.joined(30).protocol is Protocol.SESSIONED
    old = worker("w2", protocol=Protocol.EAGER).join()
    assert old.next(JoinPreparing).eager is True
    wait_until(lambda: settled(one, old), what="two eager workers")
    assert one.membership.protocol is old.membership.protocol is Protocol.EAGER
    one.forget()
    old.leave()
    assert one.next(JoinPreparing).eager is True, "after an eager rebalance everything stops before the next one"
    assert one.joined().protocol is Protocol.SESSIONED
    wait_until(lambda: settled(one))


def test_a_compatible_member_keeps_the_group_cooperative(worker):
    one = worker("w1").join()
    one.joined(30)
    two = worker("w2", protocol=Protocol.COMPATIBLE).join()
    wait_until(lambda: settled(one, two), what="two cooperative workers")
    assert one.membership.protocol is Protocol.COMPATIBLE


@pytest.mark.parametrize("how", ["leave", "stop"])
def test_a_member_that_leaves_is_replaced_at_once(worker, how):
    """Long before its session would end."""
    one, two = (worker(name, session_timeout_ms=60_000).join() for name in ("w1", "w2"))
    wait_until(lambda: settled(one, two), 30, "an even share")
    two.leave() if how == "leave" else two.member.stop()
    wait_until(lambda: settled(one))


def test_another_member_leads_after_the_leader_has_left(pair):
    one, two = pair
    one.leave()
    assert two.joined().is_leader
    wait_until(lambda: settled(two))
    one.join()
    wait_until(lambda: settled(one, two), what="the former leader as a follower")


def test_a_member_that_crashes_is_replaced_when_its_session_ends(worker):
    one, two = (worker(name, session_timeout_ms=1500, heartbeat_interval_ms=400).join() for name in ("w1", "w2"))
    wait_until(lambda: settled(one, two), 30, "an even share")
    two.crash()
    wait_until(lambda: settled(one))


def test_lost_work_waits_for_its_worker(worker):
    one, two = (worker(name, max_delay_ms=60_000).join() for name in ("w1", "w2"))
    wait_until(lambda: settled(one, two) and not one.membership.assignment.delay_ms, 30, "an even share")
    leader, other = (one, two) if one.membership.is_leader else (two, one)
    kept = leader.owned
    leader.forget()
    other.leave()
    answer = leader.joined().assignment
    assert 50_000 < answer.delay_ms <= 60_000
    assert leader.owned == kept


def test_a_requested_rejoin_starts_a_new_generation(pair):
    one, two = pair
    before = one.membership.generation
    two.member.tell(RequestRejoin("test"))
    assert two.joined().generation > before
    assert one.joined().generation > before
    assert settled(one, two)


def test_a_request_during_a_join_is_not_lost(pair):
    one, two = pair
    two.holds = True
    one.member.tell(RequestRejoin("first"))
    two.next(JoinPreparing)  # now the first one's JoinGroup waits in the broker
    one.member.tell(RequestRejoin("second"))
    two.release()
    first, second = one.joined(), one.joined()
    assert second.generation > first.generation


def test_the_group_waits_for_a_herder_that_stops_its_work_while_heartbeats_flow(worker):
    one, two = (worker(name, session_timeout_ms=4000, heartbeat_interval_ms=400).join() for name in ("w1", "w2"))
    wait_until(lambda: settled(one, two), 30, "an even share")
    two.forget()
    one.forget()
    two.holds = True
    one.member.tell(RequestRejoin("test"))
    two.next(JoinPreparing)
    # Longer than a session: without heartbeats the broker would go on without the second one.
    with pytest.raises(AssertionError, match="no Joined"):
        one.joined(within=5)
    two.release()
    assert one.joined().generation == two.joined().generation
    assert settled(one, two)


def test_a_herder_that_never_answers_loses_the_membership(worker):
    one, two = (worker(name, rebalance_timeout_ms=1200).join() for name in ("w1", "w2"))
    wait_until(lambda: settled(one, two), 30, "an even share")
    two.forget()
    two.holds = True
    one.member.tell(RequestRejoin("test"))
    two.next(CoordinatorLost)
    wait_until(lambda: settled(one), what="the other one takes over")
    two.release()  # the answer to the first question is void; it is asked again
    wait_until(lambda: settled(one, two), what="a member again")


def test_a_single_member_also_has_a_rebalance_timeout(worker):
    one = worker("w1", rebalance_timeout_ms=1000).join()
    one.joined(30)
    one.holds = True
    one.member.tell(RequestRejoin("test"))
    assert "not ready" in one.next(CoordinatorLost).reason
    one.release()
    assert one.joined().assignment.assigned.items == EVERYTHING


def test_a_silent_herder_loses_the_membership_until_it_responds(worker):
    one = worker("w1", rebalance_timeout_ms=1000).join()
    one.joined(30)
    one.member.tell(HerderAlive())
    assert "has not responded" in one.next(CoordinatorLost, 5).reason
    with pytest.raises(AssertionError, match="no JoinPreparing"):
        one.next(JoinPreparing, within=1)

    def speaks():
        one.member.tell(HerderAlive())
        return one.membership

    wait_until(speaks, what="a member again")


def test_a_member_that_leaves_during_its_join_does_not_block_others(pair):
    one, two = pair
    two.holds = True
    one.member.tell(RequestRejoin("test"))
    two.next(JoinPreparing)
    one.member.stop(timeout=15)  # the other one still keeps the rebalance open
    two.release()
    two.joined()
    assert settled(two), "the first rebalance is already without the one that left"


def test_a_process_that_was_stopped_past_its_session_loses_its_membership_first(worker):
    one, two = (worker(name, session_timeout_ms=1000, heartbeat_interval_ms=300).join() for name in ("w1", "w2"))
    wait_until(lambda: settled(one, two), 30, "an even share")
    one.forget()
    two.forget()
    two.holds = True  # until the takeover was seen
    two.on_io_thread(lambda: time.sleep(2.5))
    wait_until(lambda: settled(one), what="the other one takes over")
    event = two.events.get(timeout=5)
    assert isinstance(event, CoordinatorLost), "told before anything else"
    two.next(JoinPreparing)
    two.release()
    wait_until(lambda: settled(one, two), what="a member again")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_member_ends_when_its_thread_has_ended(worker):
    """Its supervisor notices that; otherwise the work would continue outside the group unnoticed."""
    one = worker("w1").join()
    one.joined(30)
    thread = one.break_loop()
    wait_until(lambda: not thread.is_alive(), what="the thread to die")
    one.member.tell(HerderAlive())
    wait_until(lambda: not one.member.is_alive(), 20, "the member to die")
    wait_until(lambda: not any(t.name.startswith("GroupMemberActor") for t in threading.enumerate()), 20,
               "its last words, which are not the next test's")


def test_unfinished_work_of_a_member_that_ends_is_not_logged_as_a_defect(worker, caplog):
    one, begun = worker("w1").join(), threading.Event()
    one.joined(30)

    async def without_end():
        begun.set()
        await Future()

    one.on_io_thread(without_end)
    assert begun.wait(10)
    one.member.stop()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def remove_from_group(herder):
    """What an operator's tool does."""
    admin = KafkaAdminClient(**herder.settings.client)
    try:
        admin.remove_group_members(herder.settings.group_id, [MemberToRemove(herder.membership.member_id)])
    finally:
        admin.close()


def test_a_removed_member_detects_it_and_rejoins(pair):
    one, two = pair
    remove_from_group(two)
    assert "rebalanced without" in two.next(CoordinatorLost).reason
    wait_until(lambda: settled(one, two), what="a member again")


def test_an_allow_join_from_before_a_lost_membership_is_ignored(pair):
    one, two = pair
    one.holds = two.holds = True  # the first one must not yet have taken the work over
    old = two.owned
    two.member.tell(RequestRejoin("test"))
    two.next(JoinPreparing)
    remove_from_group(two)
    two.next(CoordinatorLost)
    two.member.tell(AllowJoin(old))  # crossed the loss on its way
    two.next(JoinPreparing)
    two.release()
    one.release()
    wait_until(lambda: settled(one, two), what="a member again")


def test_stopping_before_any_broker_answered(topic_name):
    herder = FakeHerder(f"127.0.0.1:{free_port()}", topic_name, "alone").join()
    herder.member.stop(timeout=15)
    assert herder.events.empty()


def test_a_session_that_the_brokers_refuse_is_explained(worker, caplog):
    """Below the test broker's group.min.session.timeout.ms."""
    worker("w1", session_timeout_ms=100, heartbeat_interval_ms=50).join()
    wait_until(lambda: "Invalid value 100 for configuration session.timeout.ms: the brokers allow" in caplog.text)


def test_a_leader_that_is_behind_reports_a_config_mismatch(worker):
    newer = ClusterConfigState(offset=9, connector_configs=CONFIG.connector_configs, task_counts=CONFIG.task_counts)
    one = worker("w1").join()
    one.joined(30)
    two = worker("w2", config=newer).join()
    answer = two.joined().assignment
    assert answer.error is AssignmentError.CONFIG_MISMATCH
    assert answer.config_offset == 9
    assert one.joined().assignment == answer
    one.config = newer  # the herder read to the end, and rejoins
    one.member.tell(RequestRejoin("read to the end"))
    wait_until(lambda: settled(one, two), what="an even share")


def test_a_member_with_invalid_metadata_does_not_affect_others(worker):
    one = worker("w1").join()
    one.joined(30)
    broken = worker("w2", offers=[("sessioned", b"\0\2?")]).join()  # of a version to come
    assert not broken.joined().assignment.assigned
    assert settled(one)


def test_group_type_and_protocol_are_kafka_connects(pair):
    one, _ = pair
    assert one.coordinator.protocol_type() == "connect"
    assert [name for name, _ in one.coordinator.group_protocols()] == ["sessioned", "compatible", "default"]


def test_a_follower_survives_an_invalid_assignment_from_its_leader(worker, caplog):
    """It reports why, retries, and works as soon as another member leads."""
    one = worker("w1", kind=GarbageCoordinator).join()
    one.joined(30)
    one.coordinator.sends_garbage = True
    two = worker("w2").join()
    wait_until(lambda: ": unknown protocol version -1" in caplog.text)
    one.leave()
    wait_until(lambda: settled(two))
