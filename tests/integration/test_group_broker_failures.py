"""A group member while its broker is unavailable: it is reported once, tasks can stop, and everything recovers by
itself.
"""


import pytest

from actors.messages.events import CoordinatorLost
from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.rigs.group_herder import FakeHerder, settled
from tests.rigs.support import BACK_SOON, wait_until
from tests.rigs.suspended_broker import suspended

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def fragile_broker():
    """A broker of this file's own, for it is stopped and suspended."""
    with EmbeddedBroker(quick=True, settings={"group.min.session.timeout.ms": "500", **BACK_SOON}) as running:
        yield running


@pytest.fixture
def worker(fragile_broker, topic_name):
    herder = FakeHerder(
        fragile_broker.bootstrap_servers, topic_name, "w1", session_timeout_ms=2000, heartbeat_interval_ms=600
    ).join()
    yield herder
    herder.member.stop()


def test_a_member_rejoins_after_a_broker_restart(fragile_broker, worker):
    worker.joined(30)
    fragile_broker.stop(graceful=False)
    assert worker.next(CoordinatorLost).reason
    assert worker.events.empty(), "told once"
    fragile_broker.start()
    worker.joined(30)
    assert settled(worker)


def test_a_hanging_broker_is_reported_as_a_lost_coordinator(fragile_broker, worker):
    worker.joined(30)
    with suspended(fragile_broker):
        assert worker.next(CoordinatorLost).reason, "told while it hangs"
    wait_until(lambda: settled(worker), 30, "a member again")


def test_a_member_joins_once_the_broker_is_available(fragile_broker, topic_name):
    fragile_broker.stop(graceful=False)
    herder = FakeHerder(fragile_broker.bootstrap_servers, topic_name, "early").join()
    try:
        assert herder.events.empty()
        fragile_broker.start()
        herder.joined(30)
    finally:
        fragile_broker.start()
        herder.member.stop()


def test_stopping_without_a_broker_is_quick(fragile_broker, worker):
    worker.joined(30)
    with suspended(fragile_broker):
        worker.member.stop(timeout=15)  # far below the time for which a client waits for a broker
