"""Workers that are suspended past their session while nobody takes over their work, and a broker that restarts.

Lost work is held for five minutes, the default: the workers continue as soon as they are back, each part once.
"""

from __future__ import annotations

from contextlib import suppress

import psutil
import pytest

from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.rigs.cluster import Cluster
from tests.rigs.support import BACK_SOON, wait_until
from tests.rigs.workers import READY_S, Kafka, processes_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400),
              pytest.mark.filterwarnings("ignore:list_groups")]  # what came in its place knows only consumers' groups

SOON_S = 120.0  # on a busy machine; far below the delay
TASKS = 3
TIMEOUT_MS = "300000"
LOST = "Lost the group coordinator"


@pytest.fixture(scope="module")
def fragile():
    with EmbeddedBroker(quick=True, settings={"group.min.session.timeout.ms": "500", **BACK_SOON}) as broker:
        yield broker


@pytest.fixture(scope="module")
def cluster(fragile, tmp_path_factory):
    """Two workers, of which one runs, and a connector that records every start."""
    kafka = Kafka(fragile.bootstrap_servers)
    cluster = Cluster(kafka, tmp_path_factory.mktemp("sleep"), "sleepers", 2, session_timeout_ms="4000",
                      scheduled_rebalance_max_delay_ms=TIMEOUT_MS)
    (cluster.folder / "starts").mkdir()
    try:
        cluster.workers[0].start().wait_ready(READY_S)
        cluster.create("alone", {"connector.class": "AloneSource", "topic": "none",
                                 "folder": str(cluster.folder / "starts")}, TASKS)
        cluster.wait_settled()
        yield cluster
    finally:
        cluster.__exit__(None, None, None)
        del kafka.admin


def groups(cluster):
    """The workers' group, as the broker knows it."""
    return cluster.kafka.admin.list_groups(cluster.group, 10)


def members(cluster):
    """Those of it."""
    return [member for group in groups(cluster) for member in group.members]


@pytest.fixture
def asleep(cluster):
    """Suspends workers and resumes them. No worker stays suspended, whatever the test does."""
    below: list[psutil.Process] = []

    def sleep(*workers, children=False):
        for worker in workers:
            worker.signal("STOP")
            if children:
                below.extend(p for p in processes_of(worker) if p.name() not in ("sh", "dash"))
        for process in below:
            process.suspend()
        wait_until(lambda: not members(cluster), SOON_S, "the sessions to expire")

    def wake(*workers):
        for worker in workers or cluster.workers:
            worker.signal("CONT")
        while below:
            with suppress(psutil.NoSuchProcess):  # a worker that is back may end its suspended processes
                below.pop().resume()

    sleep.wake = wake
    yield sleep
    wake()


def starts(cluster):
    """What each part wrote when it started."""
    return {file.name: file.read_text().splitlines() for file in (cluster.folder / "starts").iterdir()}


def have_both(cluster):
    """The second worker is started by the first test that needs it."""
    if cluster.workers[1] not in cluster.living():
        cluster.workers[1].start().wait_ready(READY_S)
        cluster.wait_settled(within=SOON_S)


def wait_started_again(cluster, before):
    """Until each part was started since, and runs."""

    def again():
        now = starts(cluster)
        assert all(len(now[part]) > len(reported) for part, reported in before.items()), now
        return True

    wait_until(again, SOON_S, "everything to run again")
    cluster.wait_settled(within=SOON_S, even=False)
    return {line for part, reported in starts(cluster).items() for line in reported[len(before[part]):]}


@pytest.mark.parametrize("children", [False, True], ids=["alone", "with-children"])
def test_a_single_worker_continues_its_work(cluster, asleep, children):
    before = starts(cluster)
    asleep(cluster.workers[0], children=children)
    asleep.wake()
    assert wait_started_again(cluster, before) == {"started"}


def test_two_workers_that_were_both_suspended_continue_their_work(cluster, asleep):
    """The follower resumes first and leads, without knowing what the other one runs. So work that the other one still
    owns while it is suspended may start twice.
    """
    have_both(cluster)
    leader, before = cluster.leader(), starts(cluster)
    follower = next(worker for worker in cluster.workers if worker is not leader)
    asleep(leader, follower)
    asleep.wake(follower)
    wait_until(lambda: members(cluster), SOON_S, "a member")
    asleep.wake(leader)
    wait_started_again(cluster, before)


def test_a_broker_restart_causes_no_delay(cluster, fragile):
    """The broker is unavailable for so long that the workers stop their work before they are members again."""
    have_both(cluster)
    wait_until(lambda: [(group.state, len(group.members)) for group in groups(cluster)] == [("Stable", 2)], SOON_S,
               "a group of both")
    cluster.wait_settled(within=SOON_S, even=False)  # a task that is starting would wait for the broker
    before, lost = starts(cluster), {worker.port: worker.log.read_text().count(LOST) for worker in cluster.living()}
    fragile.stop(graceful=False)
    wait_until(lambda: all(worker.log.read_text().count(LOST) > lost[worker.port] for worker in cluster.living()),
               SOON_S, "the workers to notice")
    fragile.start()
    assert wait_started_again(cluster, before) == {"started"}
